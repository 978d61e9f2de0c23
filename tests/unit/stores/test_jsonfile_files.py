"""Files that are replaced together: when one cannot be written, none is left half-way."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trunkline.stores.jsonfile.files import replace_all


class SlowPool(ThreadPoolExecutor):
    """Its second piece of work begins when a while has passed since the first one failed."""

    def __init__(self) -> None:
        super().__init__(2)
        self.futures: list[Future[Any]] = []
        self._first_is_done = threading.Event()

    def submit(self, work: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        run = self._begin if not self.futures else self._follow
        future = super().submit(run, work, *args)
        self.futures.append(future)
        return future

    def _begin(self, work: Callable[..., Any], *args: Any) -> None:
        try:
            work(*args)
        finally:
            self._first_is_done.set()

    def _follow(self, work: Callable[..., Any], *args: Any) -> None:
        self._first_is_done.wait()
        threading.Event().wait(0.2)
        work(*args)


def test_who_is_told_of_a_failure_finds_nobody_still_writing(tmp_path: Path) -> None:
    # Another try would write to the same temporary files.
    with SlowPool() as pool:
        with pytest.raises(FileNotFoundError):
            replace_all(tmp_path, [("missing/a", b"a"), ("b", b"b")], pool)
        assert [future.done() for future in pool.futures] == [True, True]
    assert not (tmp_path / "b").exists()
