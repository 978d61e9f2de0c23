"""One process per file: a lock that the system releases when its holder dies."""

import os
from pathlib import Path

from trunkline.model.errors import StoreInUse
from trunkline.stores.oslock import try_lock

_MAX_BYTES = 256


class FileLock:
    """Holds `<path>.lock` from `acquire` until `release` or the death of the process.

    The file stays behind: whoever removed it could remove one that another process
    has just locked. Its first line is the process, its second a mark that outlives it.
    """

    def __init__(self, path: Path) -> None:
        self._store = path
        self._path = path.with_name(path.name + ".lock")
        self._fd: int | None = None
        # What the last process left; empty when it left nothing.
        self.mark = ""

    def acquire(self) -> None:
        """Raises StoreInUse when someone holds it, this process included."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        is_ours = try_lock(fd)
        os.lseek(fd, 0, os.SEEK_SET)
        pid, _, mark = os.read(fd, _MAX_BYTES).decode("ascii", "replace").partition("\n")
        if not is_ours:
            holder = pid.strip() or "unknown"
            os.close(fd)
            raise StoreInUse(
                f"The store {self._store} is in use by process {holder}. "
                "Stop that process, or give this one a folder of its own with --data DIR, or "
                "another `path` in [store]."
            )
        self._fd = fd
        self.write_mark(mark.strip())

    def write_mark(self, mark: str) -> None:
        """Leave this for the next process."""
        assert self._fd is not None
        text = f"{os.getpid()}\n{mark}\n" if mark else f"{os.getpid()}\n"
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.write(self._fd, text.encode("ascii"))
        self.mark = mark

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
