"""`StaticFiles`: the files of the page, in memory, each with its tag and its compressed form."""

import gzip
import hashlib
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

FOLDER: Final = Path(__file__).parents[1] / "static"
INDEX: Final = "index.html"
# The media types of all files of the page. A file of another kind is not served.
MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
# Lines of a script that are comments. They are for people who read the source, and an eighth of
# what a browser would load.
_COMMENTS: Final = re.compile(rb"^[ \t]*//.*\n", re.MULTILINE)
_IS_COMPRESSED: Final = frozenset({".jpg", ".png", ".webp", ".woff2"})


class StaticFile(Struct, kw_only=True):
    media_type: str
    body: bytes
    # SHA-256 of the body, shortened.
    digest: str
    # Made when a client first takes it; None where compression does not help.
    compressed: bytes | None = None
    # When the file was changed and its size, by which a change on disk is noticed.
    stamp: tuple[int, int]


class StaticFiles:
    """Serves the names that were in the folder when the gateway started, and no other one."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._paths = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in MEDIA_TYPES and not path.is_symlink()
        }
        self._read: dict[str, StaticFile] = {}

    @property
    def names(self) -> list[str]:
        return [*self._paths]

    def find(self, name: str) -> StaticFile | None:
        path = self._paths.get(name)
        if path is None:
            return None
        known = self._read.get(name)
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if known is None or known.stamp != stamp:
                # While the page is being developed, or the package was replaced.
                known = self._read[name] = _read(path, stamp)
        except OSError:
            # An upgrade may have removed the file; the gateway goes on with what it has.
            pass
        return known

    def compressed(self, file: StaticFile) -> bytes | None:
        """The file as gzip; None where that is no smaller."""
        if file.compressed is None and file.media_type not in _NOT_COMPRESSED:
            # The time is left out, so that every process makes the same bytes.
            made = gzip.compress(file.body, 9, mtime=0)
            file.compressed = made if len(made) < len(file.body) else b""
        return file.compressed or None


_NOT_COMPRESSED: Final = frozenset(MEDIA_TYPES[suffix] for suffix in _IS_COMPRESSED)


def _read(path: Path, stamp: tuple[int, int]) -> StaticFile:
    body = path.read_bytes()
    if path.suffix == ".js" and path.parent.name != "vendor":
        body = _COMMENTS.sub(b"", body)
    return StaticFile(
        media_type=MEDIA_TYPES[path.suffix],
        body=body,
        digest=hashlib.sha256(body).hexdigest()[:32],
        stamp=stamp,
    )
