"""Files that the store writes completely or not at all, and the problems of writing them."""

import base64
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from pathlib import Path

from trunkline.model.errors import StoreUnusable
from trunkline.stores.commits import sync, sync_folder
from trunkline.stores.health import CHECK_REMEDY, FULL_REMEDY, WRITE_REMEDY, Problem

RECORD = ".json"
TEMPORARY = ".tmp"
# The limit of file systems; the name of a temporary file must fit as well.
_MAX_NAME_BYTES = 255 - len(TEMPORARY)


def record_name(task_id: str) -> str:
    text = base64.urlsafe_b64encode(task_id.encode()).decode("ascii")
    return text.rstrip("=") + RECORD


def fits_a_name(task_id: str) -> bool:
    try:
        return len(record_name(task_id)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def create(path: Path) -> int:
    """A new file, for its owner alone. Gone after a power cut unless its folder is synced."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)


@contextmanager
def synced(fd: int) -> Iterator[int]:
    """Syncs the file at the end unless there was an error, and closes it."""
    try:
        yield fd
        sync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def replace_all(folder: Path, contents: Sequence[tuple[str, bytes]], pool: Executor) -> None:
    """Replace files: at any moment a reader finds the old or the new one, complete."""

    def write_temporary(item: tuple[str, bytes]) -> None:
        with synced(create(folder / (item[0] + TEMPORARY))) as fd:
            write_all(fd, item[1])

    # Files that are synced at the same time share the wait for the disk.
    written = [pool.submit(write_temporary, item) for item in contents]
    # For all of them, even when one fails: the next attempt uses the same temporary files.
    wait(written)
    for each in written:
        each.result()
    for name, _ in contents:
        os.replace(folder / (name + TEMPORARY), folder / name)
    sync_folder(folder)


def remove_all(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    sync_folder(folder)


def cannot_open(folder: Path, error: OSError) -> StoreUnusable:
    return StoreUnusable(
        f"The store {folder} cannot be opened: {error}. It must be a folder that the user who "
        "runs the gateway can write to."
    )


def cannot_read(folder: Path, error: OSError) -> StoreUnusable:
    return StoreUnusable(
        f"The store {folder} cannot be read: {error}. Nothing else may change its files "
        "while the gateway runs."
    )


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
# Too many open files or too little memory: temporary, and not a fault of the folder.
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})


class Lost(Exception):
    """The folder or the log is gone, so a write would be lost."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def write_problem(error: OSError) -> Problem:
    if error.errno in _NO_SPACE:
        return Problem("cannot be written: the disk is full", FULL_REMEDY)
    # `strerror` does not contain the file name, unlike the text of the exception.
    return Problem(f"cannot be written: {error.strerror or type(error).__name__}", WRITE_REMEDY)


def read_problem(error: OSError) -> Problem | None:
    """None when another attempt may succeed."""
    return None if error.errno in _PASSING else BAD_RECORD
