"""Locks that keep a store to one process: `FileLock` for a file, `WriterLock` for a folder.

The operating system holds both, so a lock ends with its process and never before.
"""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from trunkline.model.errors import StoreInUse
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock

_WRITER_LOCK = ".writer.lock"
# The maximum size of both lock files.
_MAX_BYTES = 4096
_ZOMBIE = -1

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        # Far behind the contents of the file, which other processes must be able to read.
        os.lseek(fd, 1 << 20, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _try_lock(fd: int) -> bool:
    """Never waits. False when a process holds the lock, this one included."""
    try:
        _lock(fd)
    except OSError:
        return False
    return True


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _read(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    return os.read(fd, _MAX_BYTES)


def _overwrite(fd: int, data: bytes) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, data)


def holder_of(store: Path) -> int | None:
    """The process that holds the lock of a database or folder; 0 if the process is not known, None
    if no process holds it."""
    is_folder = store.is_dir()
    try:
        fd = os.open(_lock_path(store, is_folder=is_folder), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if _try_lock(fd):
            return None
        if is_folder:
            return _owner_in(fd).pid
        pid = _read(fd).partition(b"\n")[0].strip()
        return int(pid) if pid.isdigit() else 0
    finally:
        os.close(fd)


def _lock_path(store: Path, *, is_folder: bool) -> Path:
    return store / _WRITER_LOCK if is_folder else store.with_name(store.name + ".lock")


class FileLock:
    """Holds `<path>.lock` from `acquire` until `release` or the death of the process.

    The file stays behind: removing it could remove one that another process has just
    locked. Its first line is the process, its second a mark for the next process.
    """

    def __init__(self, path: Path) -> None:
        self._store = path
        self._path = _lock_path(path, is_folder=False)
        self._fd: int | None = None
        # The mark of the last process; empty when it left none.
        self.mark = ""

    def acquire(self) -> None:
        """Raises StoreInUse when a process holds it, this one included."""
        fd = _open(self._path)
        is_ours = _try_lock(fd)
        pid, _, mark = _read(fd).decode("ascii", "replace").partition("\n")
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
        """Leave the mark for the next process."""
        assert self._fd is not None
        text = f"{os.getpid()}\n{mark}\n" if mark else f"{os.getpid()}\n"
        _overwrite(self._fd, text.encode("ascii"))
        self.mark = mark

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class _Owner(Struct, frozen=True, omit_defaults=True, rename="camel"):
    pid: int
    created_at: Any = None
    # When the process was started, in the units of the system, where the system says so.
    starttime: Any = None


class WriterLock:
    """Holds `.writer.lock` in a folder.

    The file names its owner in the format of other programs that keep tasks in such folders.
    Those programs do not take the system's lock, so the file of one that still runs counts as
    a lock, too.
    """

    def __init__(self, folder: Path, clock: Clock, *, wait_s: float) -> None:
        self._path = _lock_path(folder, is_folder=True)
        self._clock = clock
        self._wait_s = wait_s
        self._fd: int | None = None

    async def acquire(self) -> None:
        """Raises StoreInUse when another owner does not let go in time."""
        deadline = self._clock.monotonic() + self._wait_s
        attempt = 0
        while (owner := self._try()) is not None:
            if owner.pid == os.getpid():
                raise StoreInUse(
                    f"The store {self._path.parent} is open in this process already. "
                    "Give each store a folder of its own."
                )
            attempt += 1
            pause = min(1.0, 0.05 * attempt, deadline - self._clock.monotonic())
            if pause <= 0:
                raise StoreInUse(
                    f"Task store writer lock timed out after {round(self._wait_s * 1000)}ms: "
                    f"pid={owner.pid or 'unknown'} {self._path}. Stop that process, or give "
                    "this one another folder."
                )
            await self._clock.sleep(pause)

    def _try(self) -> _Owner | None:
        """None when the lock is ours now, else its owner."""
        while True:
            fd = _open(self._path)
            try:
                is_ours = _try_lock(fd)
                # A process that lets go removes the file, so a lock on that file locks nothing.
                if is_ours and not _is_at(fd, self._path):
                    continue
                owner = _owner_in(fd)
                if not is_ours or _is_alive(owner):
                    return owner
                pid = os.getpid()
                created_at = format_timestamp(self._clock.now_ms())
                _overwrite(fd, msgspec.json.encode(_Owner(pid, created_at, _start_time(pid))))
                self._fd, fd = fd, -1
                return None
            finally:
                if fd >= 0:
                    os.close(fd)

    def release(self) -> None:
        if self._fd is not None:
            # Remove the file while the lock still holds: the file at this path is then our own,
            # unless the folder was replaced. Where open files cannot be removed, the file that
            # stays behind names no process.
            try:
                if _is_at(self._fd, self._path):
                    self._path.unlink()
            except OSError:
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def _owner_in(fd: int) -> _Owner:
    try:
        return msgspec.json.decode(_read(fd), type=_Owner)
    except (msgspec.DecodeError, ValueError):
        return _Owner(0)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _is_alive(owner: _Owner) -> bool:
    """Whether the process that the file names still runs, and is not a later one."""
    if owner.pid <= 0 or owner.pid == os.getpid():
        return False
    started = _start_time(owner.pid)
    if started == _ZOMBIE:
        return False
    if isinstance(owner.starttime, int) and started is not None:
        return owner.starttime == started
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_time(pid: int) -> int | None:
    """In ticks since the machine was started; None where there is no /proc, or no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program is in brackets, and may contain brackets and spaces.
    fields = stat.rpartition(b")")[2].split()
    return _ZOMBIE if fields[0] in (b"Z", b"X") else int(fields[19])
