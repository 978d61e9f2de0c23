"""The system's lock on an open file: gone with the process that holds it."""

import os
import sys

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        # Far behind what the file says, which others must be able to read.
        os.lseek(fd, 1 << 20, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(fd: int) -> bool:
    """Never waits. False when somebody holds it, this process included."""
    try:
        _lock(fd)
    except OSError:
        return False
    return True
