"""Runs the command line with a fast clock, and kills the process right before or after commit
number `DIES_AT` of its store; 0 lets it live."""

import os
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

from tests.acceptance.fast_clock import hurry

from trunkline.cli import main
from trunkline.stores.commits import CommitThread


def die_at(number: int, *, when: str) -> None:
    """Without a word, as kill -9 does."""
    run, commits = CommitThread.run, count(1)

    def run_and_die(self: CommitThread, work: Callable[[], Any], done: Any) -> None:
        def last_work() -> Any:
            is_last = next(commits) == number
            if is_last and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = work()
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        run(self, last_work, done)

    CommitThread.run = run_and_die  # type: ignore[method-assign]


if __name__ == "__main__":
    hurry(float(os.environ["CLOCK_FACTOR"]))
    if dies_at := int(os.environ["DIES_AT"]):
        die_at(dies_at, when=os.environ["DIES"])
    main()
