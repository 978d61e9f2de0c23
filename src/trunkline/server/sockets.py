"""`SocketRequest` and `SocketResponse`: HTTP/1.1 messages of one of our own connections."""

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus

from trunkline.model.errors import RequestTimedOut
from trunkline.server.flow_control import FlowControl
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Request, Response
from trunkline.server.memory_budget import MIN_RATE_BYTES, SMALL_BYTES, MemoryBudget

# The connection buffers this much of a body that the handler does not read; then it stops reading.
MAX_UNREAD_BYTES = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class SocketRequest(Request, kw_only=True):
    flow: FlowControl
    is_complete: bool = False
    keep_alive: bool = True
    is_http_1_0: bool = False
    # RFC 9110, 10.1.1: the client sends its body after a 100 (Continue).
    awaits_continue: bool = False
    _body: bytes | bytearray = b""
    _is_over: bool = False
    _waiter: asyncio.Future[None] | None = None
    # The time when the handler first waited for the body, and the bytes that arrived since.
    _begun_at: float | None = None
    _received_bytes: int = 0
    _is_late: bool = False

    def again(self, length: bytes, body: bytes, length_at: int) -> "SocketRequest":
        """A complete request with the same head, except for the length, which is header line
        `length_at`."""
        lines, headers = self.header_lines, self.headers
        if headers[CONTENT_LENGTH] != length:
            lines = [*lines[:length_at], (CONTENT_LENGTH, length), *lines[length_at + 1 :]]
            headers = {**headers, CONTENT_LENGTH: length}
        return SocketRequest(
            self.method,
            self.path,
            self.raw_path,
            self.query,
            lines,
            headers,
            flow=self.flow,
            is_complete=True,
            _body=body,
        )

    @property
    def peer(self) -> str:
        address = self.flow.transport.get_extra_info("peername")
        return str(address[0]) if isinstance(address, tuple) else ""

    @property
    def is_broken(self) -> bool:
        """Whether no more of the request will arrive, and no client waits for a response."""
        return self._is_over or self.flow.is_lost

    def whole_body(self, *, limit: int) -> bytes | None:
        # Nearly all bodies are complete, and in one piece, when the handler asks for them.
        body = self._body
        # `is_broken`, without the call of a property for every request.
        if not self.is_complete or self._is_over or self.flow.is_lost:
            return None
        if type(body) is not bytes or len(body) > limit:
            return None
        self._body = b""
        return body

    async def piece(self) -> tuple[bytes, bool]:
        if self.awaits_continue:
            self.awaits_continue = False
            self.flow.write(_CONTINUE)
        if self._begun_at is None:
            self._begun_at = self.flow.loop.time()
        while not (self._body or self.is_complete or self.is_broken or self._is_late):
            await self._change()
        if self.is_broken:
            raise Disconnected
        if self._is_late:
            # The rest of the body may still arrive, and is not another request.
            self.keep_alive = False
            raise RequestTimedOut("The body of the request came too slowly; send it again")
        body, self._body = bytes(self._body), b""
        self._received_bytes += len(body)
        return body, not self.is_complete

    def expire_before(self, moment: float) -> None:
        """Give up a body that is slower than the lowest rate since its reader began to wait."""
        if self._begun_at is None or self.is_complete:
            return
        if self._begun_at + self._received_bytes / MIN_RATE_BYTES <= moment:
            self._is_late = True
            self.wake()

    @property
    def budget(self) -> MemoryBudget:
        return self.flow.budget

    async def disconnected(self) -> None:
        while not self.is_broken:
            await self._change()

    async def ended(self) -> None:
        while not (self.is_broken or self.flow.has_ended):
            await self._change()

    async def _change(self) -> None:
        """Wait for more of the body, for the end of it, or for the client to leave."""
        self.flow.resume_reading()
        self._waiter = self.flow.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def take(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._body:
            # Most bodies are one piece and are not copied.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        else:
            self._body = data
        if len(self._body) > MAX_UNREAD_BYTES:
            self.flow.pause_reading()
        if self._waiter is not None:
            self.wake()

    def complete(self) -> None:
        self.is_complete = True
        self.awaits_continue = False
        if self._waiter is not None:
            self.wake()

    def finish(self) -> None:
        """The request is answered, or never will be: drop the rest of its body."""
        self._is_over = True
        self._body = b""
        if self.held_bytes:
            self.release()
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
# RFC 9112, 6.3: these responses have no body, regardless of their headers.
_WITHOUT_BODY = frozenset({204, 304})
_CLOSE = b"connection: close\r\n"
# Characters that would end a header early, and let its author write the rest of the response.
_BAD_NAME = re.compile(rb'[\x00-\x20\x7f()<>@,;:\\"/\[\]?={}]')
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class SocketResponse(Response):
    flow: FlowControl
    request: SocketRequest
    # The line of the Date header.
    date: bytes
    is_complete: bool = False
    _head: bytes = b""
    _is_chunked: bool = False
    # The bytes of the announced length that are still missing; None when it was not announced.
    _missing: int | None = None

    @property
    def is_lost(self) -> bool:
        return self.flow.is_lost

    def own_headers(self) -> Sequence[Header]:
        name, _, value = self.date.rstrip(b"\r\n").partition(b": ")
        return ((name, value),) if name else ()

    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        request = self.request
        if self.has_begun or request.awaits_continue:
            self._check()
        size = sum(map(len, body))
        is_large = size > SMALL_BYTES
        if is_large:
            self.flow.admit(request.caller, size)
        # The one place where the pieces of an answer are joined. A join is faster than a format,
        # which does not know the size of the result.
        data = (
            _STATUS_LINES[status],
            self.date,
            b"content-type: ",
            content_type,
            b"\r\ncontent-length: ",
            str(size).encode(),
            b"\r\n",
            _lines(tuple(headers)) if headers else b"",
            b"" if request.keep_alive else _CLOSE,
            b"\r\n",
            *(() if is_large or request.method == "HEAD" else body),
        )
        self.has_begun = self.is_complete = True
        self.flow.write(b"".join(data))
        if is_large and request.method != "HEAD":
            # Written apart from the head, so that one large piece is not copied.
            self.flow.write(body[0] if len(body) == 1 else b"".join(body))

    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        if self.has_begun or self.request.awaits_continue:
            self._check()
        framing = b""
        for name, value in headers:
            if name.lower() == CONTENT_LENGTH:
                self._missing = int(value)
        if self.request.method == "HEAD" or status in _WITHOUT_BODY:
            self._missing = 0
        # HTTP/1.0 has no chunks; there the end of the connection is the end of the body.
        elif self._missing is None and not self.request.is_http_1_0:
            framing = b"transfer-encoding: chunked\r\n"
            self._is_chunked = True
        close = b"" if self.request.keep_alive else _CLOSE
        self._head = b"".join(
            (_STATUS_LINES[status], self.date, _lines(tuple(headers)), framing, close, b"\r\n")
        )
        self.has_begun = True

    def _check(self) -> None:
        if self.has_begun:
            raise RuntimeError("a request is answered once")
        if self.request.awaits_continue:
            # The client may still send its body, which the gateway would take for the next request.
            self.request.keep_alive = False

    def admit(self, size: int) -> None:
        if size > SMALL_BYTES:
            self.flow.admit(self.request.caller, size)

    async def write(self, data: bytes) -> None:
        if self.flow.is_congested:
            await self.flow.drain()
        if len(data) > SMALL_BYTES:
            self.flow.admit(self.request.caller, len(data))
        if self._is_chunked:
            # An empty chunk would end the body.
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        elif self._missing is not None:
            data = data[: self._missing]
            self._missing -= len(data)
        self.flow.write(self._head + data if self._head else data)
        self._head = b""

    async def end(self) -> None:
        if self._missing:
            # The client could not tell where the next response begins.
            self.request.keep_alive = False
        if self._is_chunked:
            self.flow.write(self._head + b"0\r\n\r\n")
        elif self._head:
            self.flow.write(self._head)
        self._head = b""
        self.is_complete = True


# Cached, because most responses have the headers of an earlier one.
@lru_cache(maxsize=64)
def _lines(headers: tuple[Header, ...]) -> bytes:
    lines = []
    for name, value in headers:
        if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
            raise ValueError(f"not a header: {name!r}: {value!r}")
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)


_REFUSAL = (
    b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b"
)


def _refusal(status: bytes, text: bytes) -> bytes:
    return _REFUSAL % (status, len(text), text)


BAD_REQUEST = _refusal(b"400 Bad Request", b"Invalid HTTP request received.")
HEAD_TOO_LARGE = _refusal(
    b"431 Request Header Fields Too Large", b"The head of the request is too large."
)
UNKNOWN_CODING = _refusal(
    b"501 Not Implemented", b"The only Transfer-Encoding that is known here is chunked."
)

_BUSY = b"503 Service Unavailable\r\nretry-after: 5"
FULL = _refusal(_BUSY, b"Too many connections.")
NO_ROOM = _refusal(
    _BUSY, b"The gateway holds as much for its callers as it may (server.max_held_bytes)."
)
