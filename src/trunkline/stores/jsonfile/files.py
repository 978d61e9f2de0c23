"""Files that are there in full or not at all, also after a power cut."""

import base64
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, wait
from pathlib import Path

from trunkline.model.errors import StoreUnusable

RECORD = ".json"
TEMPORARY = ".tmp"
# What file systems allow; the name of a temporary file must fit as well.
_MAX_NAME_BYTES = 255 - len(TEMPORARY)

if sys.platform == "darwin":
    import fcntl

    def sync(fd: int) -> None:
        # A plain fsync is acknowledged before the data is on the disk.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:
    sync = os.fsync


def record_name(task_id: str) -> str:
    text = base64.urlsafe_b64encode(task_id.encode()).decode("ascii")
    return text.rstrip("=") + RECORD


def fits_a_name(task_id: str) -> bool:
    try:
        return len(record_name(task_id)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def create(path: Path) -> int:
    """A new file, for its owner alone. Gone after a power cut unless its folder is synced."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)


def write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def sync_folder(folder: Path) -> None:
    if sys.platform == "win32":  # which keeps the entries of a folder by itself
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def replace_all(folder: Path, contents: Sequence[tuple[str, bytes]], pool: Executor) -> None:
    """Each file is the old or the new one at any time, and the new one from here on."""

    def write_temporary(item: tuple[str, bytes]) -> None:
        fd = create(folder / (item[0] + TEMPORARY))
        try:
            write_all(fd, item[1])
            sync(fd)
        finally:
            os.close(fd)

    # Files that are synced at the same time share the wait for the disk.
    written = [pool.submit(write_temporary, item) for item in contents]
    # All of them, also when one fails: whoever tries again uses the same temporary files.
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
