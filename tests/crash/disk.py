"""A disk that a crash may stop at any step."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trunkline.stores.jsonfile import files, log


class Disk:
    """Keeps a copy of the folder as it is before a step, and halfway through a write."""

    def __init__(
        self, folder: Path, copies: Path, *, is_looked_at: Callable[[], bool] = lambda: True
    ) -> None:
        """`is_looked_at` says whether to keep a copy of this moment."""
        self._folder = folder
        self._copies = copies
        self._is_looked_at = is_looked_at
        # Two threads write; a copy is of one moment.
        self._lock = threading.Lock()
        self.committed = 0
        # How many operations had been acknowledged by then.
        self.cases: list[tuple[Path, int]] = []

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        for module in (files, log):
            patch.setattr(module, "write_all", self._write)
        for name in ("replace", "unlink", "ftruncate"):
            patch.setattr(os, name, self._step(getattr(os, name)))

    def _copy(self) -> None:
        if self._is_looked_at():
            copy = self._copies / str(len(self.cases))
            self.cases.append((copy, self.committed))
            shutil.copytree(self._folder, copy)

    def _step(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def copy_then_do(*args: Any, **options: Any) -> Any:
            with self._lock:
                self._copy()
                return real(*args, **options)

        return copy_then_do

    def _write(self, fd: int, data: bytes) -> None:
        with self._lock:
            self._copy()
            half = len(data) // 2
            os.write(fd, data[:half])
            self._copy()
            os.write(fd, data[half:])
