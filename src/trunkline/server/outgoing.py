"""A response as it goes into a socket."""

import re
from collections.abc import Sequence
from http import HTTPStatus

from trunkline.server.flow_control import FlowControl
from trunkline.server.http import CONTENT_LENGTH, Header, Response
from trunkline.server.incoming import Incoming
from trunkline.server.memory_budget import SMALL_BYTES

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
# RFC 9112, 6.3: these have no body, whatever their headers say.
_WITHOUT_BODY = frozenset({204, 304})
_CLOSE = b"connection: close\r\n"
# What would end a header early, and let its author write the rest of the response.
_BAD_NAME = re.compile(rb'[\x00-\x20\x7f()<>@,;:\\"/\[\]?={}]')
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class Outgoing(Response):
    __slots__ = ("_date", "_flow", "_head", "_is_chunked", "_missing", "_request", "is_complete")

    def __init__(self, flow: FlowControl, request: Incoming, date: bytes) -> None:
        """`date` is the line of the header."""
        self.has_begun = False
        self._flow = flow
        self._request = request
        self._date = date
        self._head = b""
        self._is_chunked = False
        # How much of the announced length is still to come; None when it was not announced.
        self._missing: int | None = None
        self.is_complete = False

    @property
    def is_lost(self) -> bool:
        return self._flow.is_lost

    async def answer(
        self,
        status: int,
        body: bytes,
        *,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        self._check()
        request = self._request
        is_large = len(body) > SMALL_BYTES
        if is_large:
            self._flow.admit(request.caller, len(body))
        # Quicker than a format, which does not know how much there is to come.
        data = (
            _STATUS_LINES[status],
            self._date,
            b"content-type: ",
            content_type,
            b"\r\ncontent-length: ",
            str(len(body)).encode(),
            b"\r\n",
            _lines(headers) if headers else b"",
            b"" if request.keep_alive else _CLOSE,
            b"\r\n",
            b"" if is_large or request.method == "HEAD" else body,
        )
        self.has_begun = self.is_complete = True
        self._flow.write(b"".join(data))
        if is_large and request.method != "HEAD":
            # By itself, so that there is no second copy of it.
            self._flow.write(body)

    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        self._check()
        named = {name.lower(): value for name, value in headers}
        if self._request.method == "HEAD" or status in _WITHOUT_BODY:
            framing = b""
            self._missing = 0
        elif CONTENT_LENGTH in named:
            framing = b""
            self._missing = int(named[CONTENT_LENGTH])
        elif self._request.is_http_1_0:
            # It knows no chunks; the end of the connection is the end of the body.
            framing = b""
        else:
            framing = b"transfer-encoding: chunked\r\n"
            self._is_chunked = True
        close = b"" if self._request.keep_alive else _CLOSE
        self._head = b"".join(
            (_STATUS_LINES[status], self._date, _lines(headers), framing, close, b"\r\n")
        )
        self.has_begun = True

    def _check(self) -> None:
        if self.has_begun:
            raise RuntimeError("a request is answered once")
        if self._request.awaits_continue:
            # Whether the client sends its body all the same is not known.
            self._request.keep_alive = False

    def admit(self, size: int) -> None:
        if size > SMALL_BYTES:
            self._flow.admit(self._request.caller, size)

    async def write(self, data: bytes) -> None:
        if self._flow.is_congested:
            await self._flow.drain()
        if len(data) > SMALL_BYTES:
            self._flow.admit(self._request.caller, len(data))
        if self._is_chunked:
            # An empty chunk would be the last one.
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        elif self._missing is not None:
            data = data[: self._missing]
            self._missing -= len(data)
        self._flow.write(self._head + data if self._head else data)
        self._head = b""

    async def end(self) -> None:
        if self._missing:
            # Nobody could tell where the next response begins.
            self._request.keep_alive = False
        if self._is_chunked:
            self._flow.write(self._head + b"0\r\n\r\n")
        elif self._head:
            self._flow.write(self._head)
        self._head = b""
        self.is_complete = True


def _lines(headers: Sequence[Header]) -> bytes:
    lines = []
    for name, value in headers:
        if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
            raise ValueError(f"not a header: {name!r}: {value!r}")
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)
