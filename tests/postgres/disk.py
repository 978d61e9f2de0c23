"""`Disk`: a small one for a database, that a test fills and empties. Needs root, to mount it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

HAS_MOUNT = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="needs root, to mount a disk"
)


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave not a single page."""
        with self._ballast.open("ab") as file:
            for size in (1 << 20, 1 << 16, 1 << 12):
                # The database takes some of it meanwhile.
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)

    def empty(self) -> None:
        self._ballast.unlink()


@contextmanager
def disk(*, megabytes: int) -> Iterator[Disk]:
    """In memory, so that it is gone with the machine whatever happens to the tests."""
    # The path of a socket in it has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="tl-disk-"))
    options = f"size={megabytes}m,mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
