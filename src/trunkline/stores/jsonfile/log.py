"""`Log`: one line per commit, in files that the store removes once other files hold them."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trunkline.model.errors import StoreUnusable
from trunkline.stores.commits import sync, sync_folder
from trunkline.stores.jsonfile.changes import LoggedChange, decode
from trunkline.stores.jsonfile.files import FOLDER_GONE, LOG_GONE, Lost, create, synced, write_all

_PATTERN = "changes-*.log"
_CHECKSUM_CHARS = 8
# The data of a trial write: not a line, so the next start ignores it after a crash.
_TRIAL = b" " * 4096


class Log:
    """Written by one thread. A commit is one line with a checksum, so a line that a crash cut
    off is recognised, and the changes of a commit happen together or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder_id = _id_of(folder)
        self._fd: int | None = None
        self._file_id = (0, 0)
        self._path = folder
        # Whether the name of the open file would survive a power cut.
        self._is_named = False
        # The end of the last acknowledged line in the open file.
        self.size = 0
        self._is_mangled = False
        self._last_n = 0
        # Files that are complete, with the number of the last change in each.
        self._closed: list[tuple[int, Path]] = []

    def replay(self, *, mends: bool = True) -> Iterator[LoggedChange]:
        """All acknowledged changes that other files may lack, in order.

        Removes a line that a crash cut off, unless `mends` is false: no file changes then.
        """
        paths = sorted(self._folder.glob(_PATTERN))
        for path in paths:
            last_n = 0
            for change in self._read(path, is_last=path is paths[-1], mends=mends):
                last_n = change.n
                yield change
            if last_n:
                self._closed.append((last_n, path))
            elif mends:
                # The next log may get the same name.
                path.unlink()

    def _read(self, path: Path, *, is_last: bool, mends: bool) -> Iterator[LoggedChange]:
        data = path.read_bytes()
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            line = b"" if end < 0 else _checked(data[start:end])
            if not line:
                # A line is written once the previous line is on the disk, so a crash can cut
                # off only the last one.
                if not is_last or 0 <= end < len(data) - 1:
                    raise StoreUnusable(
                        f"{path} is damaged at byte {start}. Restore a backup of the folder."
                    )
                if mends:
                    with synced(os.open(path, os.O_RDWR)) as fd:
                        os.ftruncate(fd, start)
                return
            try:
                yield from decode(line)
            except msgspec.DecodeError as error:
                raise StoreUnusable(
                    f"{path} holds changes that this release cannot read ({error}). "
                    "Start the release that wrote them."
                ) from None
            start = end + 1

    def write(self, line: bytes, *, first_n: int, last_n: int) -> None:
        """Make a commit durable. Raises OSError, and then leaves nothing of the line behind."""
        self.look()
        if self._fd is None:
            self._path = self._folder / f"changes-{first_n:016d}.log"
            self._fd = create(self._path)
            self._file_id = _id_of(self._fd)
            self.size, self._is_named = 0, False
        if not self._is_named:
            sync_folder(self._folder)
            self._is_named = True
        if self._is_mangled:
            self._mend(self._fd)
        data = b"%08x %s\n" % (zlib.crc32(line), line)
        try:
            write_all(self._fd, data)
            sync(self._fd)
        except OSError:
            # The commit is refused, so a restart must not find a part of its line.
            self._is_mangled = True
            self._mend(self._fd)
            raise
        self.size += len(data)
        self._last_n = last_n

    def _try_write(self) -> None:
        """See whether a commit would succeed, and leave no trace. Raises OSError."""
        if self._fd is None:
            trial = self._folder / "trial.json.tmp"
            fd = create(trial)
            try:
                with synced(fd):
                    write_all(fd, _TRIAL)
            finally:
                trial.unlink()
            return
        self._is_mangled = True
        try:
            write_all(self._fd, _TRIAL)
            sync(self._fd)
        finally:
            self._mend(self._fd)

    def look(self, *, tries_to_write: bool = False) -> None:
        """Raises Lost when the folder or the open file was replaced, removed or cut. Complete
        files are not checked: another thread removes them once the records hold them."""
        if _id_of(self._folder) != self._folder_id:
            raise Lost(FOLDER_GONE)
        if self._fd is not None and (
            _id_of(self._path) != self._file_id or os.fstat(self._fd).st_size < self.size
        ):
            raise Lost(LOG_GONE)
        if tries_to_write:
            self._try_write()

    def _mend(self, fd: int) -> None:
        os.ftruncate(fd, self.size)
        os.lseek(fd, self.size, os.SEEK_SET)
        sync(fd)
        self._is_mangled = False

    def rotate(self) -> None:
        """The next commit begins a new file."""
        if self._fd is None:
            return
        if self._is_mangled:
            self._mend(self._fd)
        os.close(self._fd)
        self._fd = None
        self._closed.append((self._last_n, self._path))
        self.size = 0

    def remove_up_to(self, n: int) -> None:
        """Remove the files whose changes are all in other files."""
        sync_folder(self._folder)
        # The oldest first: a task that was deleted must not come back from an older file.
        while self._closed and self._closed[0][0] <= n:
            self._closed[0][1].unlink(missing_ok=True)
            sync_folder(self._folder)
            del self._closed[0]

    def remove_all(self, n: int) -> None:
        """Remove every file: other files hold all changes, of which `n` is the last."""
        self.rotate()
        self.remove_up_to(n)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _id_of(file: Path | int) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _checked(line: bytes) -> bytes:
    """The line without its checksum; empty when the checksum is wrong."""
    checksum, line = line[:_CHECKSUM_CHARS], line[_CHECKSUM_CHARS + 1 :]
    return line if checksum == b"%08x" % zlib.crc32(line) else b""
