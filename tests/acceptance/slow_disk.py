"""Runs the command line on a disk that takes longer: `slow_disk SECONDS serve ...`."""

import sys
import time
from collections.abc import Callable
from typing import Any

from trunkline.cli import main
from trunkline.stores.commits import CommitThread


def slow_down(delay_s: float) -> None:
    """Let every commit reach the disk that much later; nothing else changes."""
    run = CommitThread.run

    def run_later(self: CommitThread, work: Callable[[], Any], done: Any) -> None:
        def wait_and_work() -> Any:
            time.sleep(delay_s)
            return work()

        run(self, wait_and_work, done)

    CommitThread.run = run_later  # type: ignore[method-assign]


if __name__ == "__main__":
    delay_s = float(sys.argv.pop(1))
    if delay_s:
        slow_down(delay_s)
    main()
