"""One process per file: a lock that the system releases when its holder dies."""

import os
from pathlib import Path

from trunkline.model.errors import StoreInUse
from trunkline.stores.oslock import try_lock


class FileLock:
    """Holds `<path>.lock` from `acquire` until `release` or the death of the process.

    The file stays behind: whoever removed it could remove one that another process
    has just locked.
    """

    def __init__(self, path: Path) -> None:
        self._store = path
        self._path = path.with_name(path.name + ".lock")
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raises StoreInUse when someone holds it, this process included."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        if not try_lock(fd):
            os.lseek(fd, 0, os.SEEK_SET)
            holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise StoreInUse(
                f"The store {self._store} is in use by process {holder}. "
                "Stop that process, or give this one a folder of its own with --data DIR, or "
                "another `path` in [store]."
            )
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, f"{os.getpid()}\n".encode("ascii"))
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
