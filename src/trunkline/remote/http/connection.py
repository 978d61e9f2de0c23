"""`Connection`: one socket to a peer, which sends requests one after the other."""

import asyncio
import select
from typing import Final, Protocol, cast

import httptools

from trunkline.remote.errors import BadPeerAnswer, PeerUnreachable, RemoteError
from trunkline.remote.http.request import Origin, Request
from trunkline.remote.http.response import Response, headers_of

# Servers allow 8 to 64 KB for the head of a request; a response needs no more.
MAX_HEAD_BYTES: Final = 64 * 1024
# A body up to here is copied behind its head: one write is cheaper than two.
_SMALL_BYTES: Final = 64 * 1024
# RFC 9110, 6.4.1: no body, whatever the headers say.
_WITHOUT_BODY: Final = frozenset({204, 304})


def broken_off() -> PeerUnreachable:
    return PeerUnreachable("the connection broke off", reason="CONNECTION_LOST")


def _head_too_large() -> BadPeerAnswer:
    return BadPeerAnswer(
        f"the head of the answer is larger than {MAX_HEAD_BYTES} bytes", reason="TOO_LARGE"
    )


def _size(lines: list[tuple[bytes, bytes]]) -> int:
    """The size of the head alone: one read may also bring a part of the body."""
    return sum(len(name) + len(value) + 4 for name, value in lines)


class ConnectionOwner(Protocol):
    """The pool that a connection belongs to."""

    def opened(self, connection: "Connection") -> None:
        """Its socket is open."""

    def free(self, connection: "Connection") -> None:
        """It is ready for a further request."""

    def lost(self, connection: "Connection") -> None:
        """It takes no further request, whatever it was doing."""

    def closed(self, connection: "Connection") -> None:
        """Its socket is closed."""


class Connection(asyncio.Protocol):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, origin: Origin, keeper: ConnectionOwner
    ) -> None:
        self._loop = loop
        self.origin = origin
        self._keeper = keeper
        self._transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpResponseParser(self)
        # The parser accepts the line ends that other clients accept.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._response: Response | None = None
        self._lines: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._is_in_body = False
        # Whether the end of the connection is the end of the body (RFC 9112, 6.3).
        self._ends_with_us = False
        self._is_answered = False
        self._has_body = True
        self._may_stay = True
        self._is_paused = False
        self._poll: select.poll | None = None
        # Bytes that a peer sends before the first request, which is a fault.
        self._early = b""
        self.is_lost = False
        self.was_used = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)
        self._keeper.opened(self)

    def send(self, request: Request, response: Response) -> None:
        self._response = response
        self._has_body = request.has_answer
        self._head_bytes = 0
        self._is_in_body = self._ends_with_us = self._is_answered = False
        self.was_used = True
        response.come_from(self)
        if len(request.body) <= _SMALL_BYTES:
            self._transport.write(request.head + request.body)
        else:
            self._transport.write(request.head)
            self._transport.write(request.body)
        if self._early:
            self._loop.call_soon(self.data_received, self._early)
            self._early = b""
            self.resume()

    def is_fit(self, max_idle_s: float) -> bool:
        """Whether an idle connection can be expected to take a request.

        Bytes of the peer, most likely the end of the connection, may not have been read yet.
        """
        if self.is_lost or self._loop.time() - self.idle_since > max_idle_s:
            return False
        return self._poll is None or not self._poll.poll(0)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            if self.was_used:
                self.abort()
            else:
                self._early += data
                self.pause()
            return
        response.has_begun = True
        response.heard_at = self._loop.time()
        if not self._is_in_body:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._may_stay = False
            if not self._is_answered:
                response.fail(self._nonsense())
                return
        if self._is_answered:
            self._finish(response)
        elif not self._is_in_body and self._head_bytes > MAX_HEAD_BYTES:
            response.fail(_head_too_large())

    def _nonsense(self) -> BadPeerAnswer | PeerUnreachable:
        # A body that breaks its own framing did not arrive in full.
        if self._is_in_body:
            return broken_off()
        return BadPeerAnswer("the agent does not answer in HTTP", reason="NOT_HTTP")

    def on_message_begin(self) -> None:
        if self._is_answered:
            # The peer sent a second response; the client cannot tell which one is the answer.
            self._may_stay = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines.append((name, value))

    def on_headers_complete(self) -> None:
        lines, self._lines = self._lines, []
        status, response = self._parser.get_status_code(), self._response
        if 100 <= status < 200 or response is None or self._is_answered:
            return
        if self._head_bytes > MAX_HEAD_BYTES and _size(lines) > MAX_HEAD_BYTES:
            response.fail(_head_too_large())
            return
        self._is_in_body = True
        if response.is_recorded:
            response.note_head(status, lines)
        headers = headers_of(lines)
        if status not in _WITHOUT_BODY and "content-length" not in headers:
            coding = headers.get("transfer-encoding", "").lower()
            self._ends_with_us = not coding.endswith("chunked")
        response.begin(status, headers)
        if not self._has_body:
            # The parser does not know that the request was HEAD, and would wait for a body.
            self._is_answered, self._may_stay = True, False

    def on_body(self, data: bytes) -> None:
        if self._response is not None and not self._is_answered:
            self._response.take(data)

    def on_message_complete(self) -> None:
        # The client ignores trailers (RFC 9110, 6.5).
        self._lines = []
        if self._is_in_body and not self._is_answered:
            self._is_answered = True
            self._may_stay = self._may_stay and self._parser.should_keep_alive()

    def _finish(self, response: Response) -> None:
        self._response = None
        # A request that the peer answered without reading it to its end is still on its way.
        if self._may_stay and not self.is_lost and not self._transport.get_write_buffer_size():
            self.resume()
            self.idle_since = self._loop.time()
            self._keeper.free(self)
        else:
            self.abort()
        response.complete()

    def eof_received(self) -> None:
        response = self._response
        if response is not None and self._is_in_body and self._ends_with_us:
            self._may_stay = False
            self._finish(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose()
        self._keeper.closed(self)
        # The parser holds methods of this object; without the cycle, memory is freed at once.
        del self._parser

    def pause(self) -> None:
        if not self._is_paused and not self.is_lost:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused and not self.is_lost:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once, without sending what is still buffered."""
        if not self.is_lost:
            self._lose()
            self._transport.abort()

    def end(self, error: RemoteError) -> None:
        """Close; a caller that waits for a response gets `error`."""
        if self._response is not None:
            self._response.fail(error)
        else:
            self.abort()

    def _lose(self) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        response, self._response = self._response, None
        self._keeper.lost(self)
        if response is not None:
            response.fail(broken_off())
