"""Lines and text from the output of a program, without its token. No I/O.

The output may arrive cut at any byte.
"""

import codecs
from collections.abc import Iterator

from trunkline.config.secret import MASK


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


class Masked:
    """Bytes in which a secret is masked. Where a piece ends like the secret begins, that end waits
    for the next piece."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        data = (self._held + data).replace(self._secret, MASK.encode())
        longest = min(len(self._secret) - 1, len(data))
        held = next((n for n in range(longest, 0, -1) if data.endswith(self._secret[:n])), 0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        rest, self._held = self._held, b""
        return rest


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
