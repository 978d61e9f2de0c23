"""Lines and text from the output of a program. No I/O.

The output may arrive cut at any byte.
"""

import codecs
from collections.abc import Iterator


class LineTooLong(Exception):
    """A line is longer than allowed, so the beginning of the next one is unknown."""


class Lines:
    """Splits bytes at LF or CRLF."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete now. Raises LineTooLong."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            yield self.rest()
        self._keep(rest)

    def rest(self) -> bytes:
        """The bytes after the last line feed: at the end, an unfinished last line."""
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return line.removesuffix(b"\r")

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise LineTooLong
        if piece:
            self._pieces.append(piece)


class Utf8:
    """Text from bytes that may be cut within a character; invalid bytes are replaced."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)


class Tail:
    """The last bytes of a stream, for the log."""

    def __init__(self, max_bytes: int = 8 * 1024) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        self._kept += data[-self._max_bytes :]
        del self._kept[: -self._max_bytes]

    def __str__(self) -> str:
        return self._kept.decode(errors="replace").strip()
