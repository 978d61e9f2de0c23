"""What can be wrong with the folder while the gateway runs."""

import errno

from trunkline.stores.health import CHECK_REMEDY, FULL_REMEDY, WRITE_REMEDY, Problem

RESTART = (
    "Nothing was acknowledged since this was noticed. Put the original back or restore a "
    "backup, then restart the gateway."
)
FOLDER_GONE = Problem(
    "was deleted, moved away or replaced while the gateway ran", RESTART, is_lasting=True
)
LOG_GONE = Problem(
    "has lost its log (a file named changes-….log) while the gateway ran", RESTART, is_lasting=True
)
BAD_RECORD = Problem(
    "has a file that is damaged or was removed while the gateway ran",
    CHECK_REMEDY,
    is_lasting=True,
)

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
# There will be files and memory again, and they say nothing of the folder.
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})


class Lost(Exception):
    """Found before a write: what is written there would be gone."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def write_problem(error: OSError) -> Problem:
    if error.errno in _NO_SPACE:
        return Problem("cannot be written: the disk is full", FULL_REMEDY)
    # Without the name of the file that Python's own text has.
    return Problem(f"cannot be written: {error.strerror or type(error).__name__}", WRITE_REMEDY)


def read_problem(error: OSError) -> Problem | None:
    """None when another attempt may succeed."""
    return None if error.errno in _PASSING else BAD_RECORD
