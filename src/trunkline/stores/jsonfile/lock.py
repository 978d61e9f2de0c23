"""One writer per folder: a lock that its owner keeps as long as it lives, and no longer.

The system holds the lock, so that it is gone with its owner and never before. The file
says who that is, in the words of other programs that keep tasks in such folders. They
know nothing of the system's lock, and are believed as long as the process lives.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from trunkline.model.errors import StoreInUse
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock
from trunkline.stores.jsonfile.files import write_all
from trunkline.stores.oslock import try_lock

NAME = ".writer.lock"
_MAX_BYTES = 4096
_ZOMBIE = -1


class _Owner(Struct, frozen=True, omit_defaults=True, rename="camel"):
    pid: int
    created_at: Any = None
    # When the process was started, in the units of the system, where it tells.
    starttime: Any = None


class WriterLock:
    def __init__(self, folder: Path, clock: Clock, *, wait_s: float) -> None:
        self._path = folder / NAME
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
        """None when the lock is ours now, else who has it."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                is_ours = try_lock(fd)
                # Whoever lets go removes the file. A lock on that one is worth nothing.
                if is_ours and not _is_at(fd, self._path):
                    continue
                owner = _read(fd)
                if not is_ours or _is_alive(owner):
                    return owner
                self._write(fd)
                self._fd, fd = fd, -1
                return None
            finally:
                if fd >= 0:
                    os.close(fd)

    def _write(self, fd: int) -> None:
        pid = os.getpid()
        owner = _Owner(pid, format_timestamp(self._clock.now_ms()), _start_time(pid))
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        write_all(fd, msgspec.json.encode(owner))

    def release(self) -> None:
        if self._fd is not None:
            # Before the lock is gone, so that it is our own file unless somebody has put
            # another folder in the place of this one. What stays
            # behind where open files cannot be removed names a process that is gone.
            try:
                if _is_at(self._fd, self._path):
                    self._path.unlink()
            except OSError:
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def _read(fd: int) -> _Owner:
    os.lseek(fd, 0, os.SEEK_SET)
    try:
        return msgspec.json.decode(os.read(fd, _MAX_BYTES), type=_Owner)
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
    # The name of the program is in brackets, and may hold anything.
    fields = stat.rpartition(b")")[2].split()
    return _ZOMBIE if fields[0] in (b"Z", b"X") else int(fields[19])
