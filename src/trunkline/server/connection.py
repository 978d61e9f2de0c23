"""`Connection`: HTTP/1.1 on one socket. It hands its requests to the application one by one.

It serves one application on one kind of socket, so it can be small. llhttp (httptools) parses
the bytes; a request that arrived whole, as nearly all do, costs one wake-up of the connection's
task and one write.
"""

import asyncio
import logging
from collections import deque
from functools import lru_cache
from typing import cast
from urllib.parse import unquote

import httptools

from trunkline.server.flow_control import FlowControl
from trunkline.server.head_cache import HeadCache
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header
from trunkline.server.shared import Shared
from trunkline.server.sockets import (
    BAD_REQUEST,
    FULL,
    HEAD_TOO_LARGE,
    NO_ROOM,
    UNKNOWN_CODING,
    SocketRequest,
    SocketResponse,
)
from trunkline.server.websocket_connection import WebSocketConnection
from trunkline.server.websocket_upgrade import SocketUpgrade

_log = logging.getLogger("trunkline.server")


class _Refused(Exception):
    """Raised inside the parser, with the response for the client."""

    def __init__(self, answer: bytes = BAD_REQUEST) -> None:
        self.answer = answer


# A proxy in front may act on the first of two headers and the gateway on the second, so a request
# with two of these is refused (request smuggling).
_ONCE = frozenset(
    {b"host", b"authorization", b"x-api-key", b"idempotency-key", b"transfer-encoding"}
)


class Connection(asyncio.Protocol):
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._flow: FlowControl = cast(FlowControl, None)
        self._begin_parsing()
        self._url = b""
        self._header_lines: list[Header] = []
        # The bytes read since the last complete head or piece of a body.
        self._unfinished_bytes = 0
        # The part of those bytes that the memory budget counts, and the bytes of waiting requests.
        self._counted_head_bytes = 0
        self._waiting_bytes = 0
        # The head of a request that asks for another protocol, without the headers that ask for it;
        # or the upgrade to the protocol that it gets.
        self._plain_head = b""
        self._upgrade: SocketUpgrade | None = None
        self._heads = HeadCache()
        # The request whose body is being read, and those that wait for their turn.
        self._incoming: SocketRequest | None = None
        self._waiting: deque[SocketRequest] = deque()
        self._served: SocketRequest | None = None
        # Serves one request after the other: a task for each would cost more than parsing the
        # request.
        self._task: asyncio.Task[None] | None = None
        self._awaits_request: asyncio.Future[None] | None = None
        self._idle_since: float | None = self._loop.time()
        self._last_words = b""

    def _begin_parsing(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        # Bytes behind a request that closes the connection are ignored, not an error.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._flow = FlowControl(
            cast(asyncio.Transport, transport), self._loop, self._shared.budget
        )
        is_full = len(self._shared.connections) >= self._shared.max_connections
        if is_full or self._shared.budget.is_full:
            self._flow.write(FULL if is_full else NO_ROOM)
            self._flow.close()
            return
        self._shared.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.discard(self)
        self._flow.lose()
        self._flow.forget()
        self._waiting.clear()
        for request in (self._served, self._incoming):
            if request is not None:
                request.wake()
        if self._served is not None:
            self._keep_task()
        elif (awaited := self._awaits_request) is not None and not awaited.done():
            awaited.set_result(None)
        # The parser holds methods of this object. Breaking the cycle frees the memory at once.
        del self._parser

    def eof_received(self) -> bool:
        """The client sends no more, and may still read (RFC 9112, 9.6): complete requests are
        answered. A client that has left looks the same until the gateway writes to it."""
        self._flow.has_ended = True
        if self._served is not None:
            self._served.wake()
        if self._incoming is not None:
            # The rest of the body will not come.
            return False
        return self._served is not None or bool(self._waiting)

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._incoming is not None or self._unfinished_bytes or self._waiting:
            self._parse(data)
        elif (request := self._heads.read(data)) is not None:
            self._waiting.append(request)
        else:
            self._parse(data)
            if len(self._waiting) == 1:
                self._heads.remember(data, self._waiting[0])
        if self._waiting:
            if self._served is None:
                self._serve_next()
            if self._waiting:
                self._flow.pause_reading()
                if not self._flow.is_lost:
                    self._waiting_bytes += len(data)
                    self._flow.count(len(data))

    def _parse(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self._upgrade is None:
                    self._feed_on(data, upgrade)
                else:
                    self._await_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.answer if isinstance(cause, _Refused) else BAD_REQUEST)
        else:
            if self._unfinished_bytes:
                self._check_unfinished(len(data))
            elif self._counted_head_bytes:
                self._flow.count(-self._counted_head_bytes)
                self._counted_head_bytes = 0

    def _feed_on(self, data: bytes, upgrade: httptools.HttpParserUpgrade) -> None:
        """Ignore the upgrade and serve the request over HTTP/1.1 (RFC 9110, 7.8)."""
        wish: httptools.HttpParserUpgrade | None = upgrade
        while wish is not None:
            self._begin_parsing()
            data = self._plain_head + data[wish.args[0] :]
            self._unfinished_bytes += len(data)
            try:
                self._parser.feed_data(data)
                wish = None
            except httptools.HttpParserUpgrade as another:
                if self._upgrade is not None:
                    self._await_upgrade(data[another.args[0] :])
                    return
                wish = another

    def _await_upgrade(self, early: bytes) -> None:
        """Read no more until the request is served: what follows is of the other protocol. Without
        an upgrade the connection is closed, because those bytes may be of either protocol."""
        assert self._upgrade is not None
        self._upgrade.early = early
        self._flow.stop_reading()
        self._waiting_bytes += len(early)
        self._flow.count(len(early))

    def _hand_over(self, socket: WebSocketConnection) -> None:
        """Let a WebSocket have the transport. The request is served until its handler returns."""
        self._flow.count(-self._waiting_bytes)
        self._waiting_bytes = 0
        self._shared.connections.discard(self)
        self._shared.connections.add(socket)
        self._keep_task()
        self._flow.transport.set_protocol(socket)
        self._upgrade = None
        del self._parser, self._heads

    def _check_unfinished(self, added: int) -> None:
        """Limit the time and the size of a head that comes in pieces."""
        if self._idle_since is not None and self._unfinished_bytes == added:
            # The first piece; the rest of the head must arrive within the idle time.
            self._idle_since = self._loop.time()
        self._flow.count(self._unfinished_bytes - self._counted_head_bytes)
        self._counted_head_bytes = self._unfinished_bytes
        if self._unfinished_bytes > self._shared.max_header_bytes:
            self._refuse(HEAD_TOO_LARGE)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_lines.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._unfinished_bytes > self._shared.max_header_bytes:
            self._check_size()
        self._unfinished_bytes = 0
        lines, url = self._header_lines, self._url
        self._header_lines, self._url = [], b""
        path, raw_path, query = _address(url)
        method = self._parser.get_method().decode()
        if method == "CONNECT":
            # The parser takes what follows for another protocol, and this is no proxy.
            raise _Refused
        headers = dict(lines)
        request = SocketRequest(method, path, raw_path, query, lines, headers, flow=self._flow)
        if b"host" not in headers or len(headers) != len(lines):
            self._check_names(request)
        if b"transfer-encoding" in headers:
            _check_coding(headers[b"transfer-encoding"].strip().lower())
        if b"upgrade" in headers and self._parser.should_upgrade():
            version = self._parser.get_http_version()
            if not self._takes_upgrade(request, version):
                self._plain_head = _without_upgrade(method, url, version, lines)
                return
            self._upgrade = SocketUpgrade(self._shared, self._flow, self._hand_over)
            request.upgrade = self._upgrade
            request.keep_alive = False
        if not self._parser.should_keep_alive():
            request.keep_alive = False
            request.is_http_1_0 = self._parser.get_http_version() == "1.0"
        elif b"connection" in headers and self._parser.get_http_version() == "1.0":
            # An HTTP/1.0 client would need a keep-alive header in the response, so its connection
            # is closed.
            request.keep_alive = False
            request.is_http_1_0 = True
        if b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
            request.awaits_continue = not request.is_http_1_0
        self._incoming = request
        self._waiting.append(request)

    def _takes_upgrade(self, request: SocketRequest, version: str) -> bool:
        """RFC 6455, 4.2.1: GET, HTTP/1.1, without a body; and a WebSocket is served there."""
        headers = request.headers
        return (
            request.method == "GET"
            and version == "1.1"
            and headers[b"upgrade"].strip().lower() == b"websocket"
            and b"transfer-encoding" not in headers
            and headers.get(CONTENT_LENGTH, b"0") == b"0"
            and self._shared.takes_websocket(request.path)
        )

    def _check_names(self, request: SocketRequest) -> None:
        """RFC 9112, 3.2: a request has one Host header, which only HTTP/1.0 may leave out."""
        names = [name for name, _ in request.header_lines if name in _ONCE]
        is_nameless = b"host" not in names and self._parser.get_http_version() == "1.1"
        if is_nameless or len(names) != len(set(names)):
            raise _Refused

    def _check_size(self) -> None:
        """The bytes that were read may hold more than the head, so count the head alone."""
        size = len(self._url) + sum(len(n) + len(v) + 4 for n, v in self._header_lines)
        if size > self._shared.max_header_bytes:
            raise _Refused(HEAD_TOO_LARGE)

    def on_body(self, data: bytes) -> None:
        self._unfinished_bytes = 0
        if self._incoming is not None:
            self._incoming.take(data)

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        if self._header_lines:
            # Trailers of a chunked body, which the gateway does not use.
            self._header_lines = []
        if self._incoming is not None:
            self._incoming.complete()
            self._incoming = None

    def _serve_next(self) -> None:
        self._idle_since = None
        self._served = self._waiting.popleft()
        if self._task is None:
            self._task = self._shared.background.start(self._serve_all(), name="connection")
        elif (awaited := self._awaits_request) is not None and not awaited.done():
            awaited.set_result(None)

    async def _serve_all(self) -> None:
        flow, shared = self._flow, self._shared
        while True:
            request = self._served
            if request is None:
                if flow.is_lost:
                    return
                self._awaits_request = self._loop.create_future()
                await self._awaits_request
                continue
            response = SocketResponse(flow, request, shared.date)
            try:
                await shared.handler(request, response)
                if not response.has_begun and not request.is_broken:
                    raise RuntimeError("the request was not answered")
            except Disconnected:
                pass
            except Exception:  # noqa: BLE001 - logged; the client learns nothing of it
                _log.exception("request failed")
                if not response.has_begun:
                    await response.answer(500, b"Internal Server Error", content_type=b"text/plain")
            except BaseException:
                flow.close()
                raise
            request.finish()
            if response.has_begun and not (response.is_complete and request.keep_alive):
                flow.close()
            elif flow.is_congested:
                await flow.drain()
            self._served = None
            self._go_on()

    def _go_on(self) -> None:
        """After a response: serve the next request, wait for one, or close."""
        if self._flow.is_lost:
            return
        if self._waiting:
            self._serve_next()
            if self._waiting:
                return
            self._flow.count(-self._waiting_bytes)
            self._waiting_bytes = 0
        elif self._last_words or self._flow.has_ended:
            self._flow.write(self._last_words)
            self._flow.close()
        else:
            self._idle_since = self._loop.time()
        if not self._flow.is_reading:
            self._flow.resume_reading()

    def _refuse(self, answer: bytes) -> None:
        """Refuse bytes that are not HTTP, after the responses to the requests before them."""
        self._flow.stop_reading()
        self._last_words = answer
        if self._incoming is not None:
            self._incoming.finish()
            self._incoming = None
        if self._served is None and not self._waiting:
            self._go_on()

    def close_if_idle(self, now: float, *, unread_s: float) -> None:
        """Close a connection that waits for a request or for the rest of its head. Drop a client
        that sends its body too slowly, does not read its response, or has left without closing."""
        if self._idle_since is not None and self._idle_since <= now - self._shared.keep_alive_s:
            self._flow.close()
        if self._served is not None:
            self._served.expire_before(now - self._shared.body_timeout_s)
        self._flow.abort_if_stuck_since(now - unread_s, now)
        if self._flow.has_ended:
            self._flow.abort_if_reset()

    def abort(self) -> None:
        self._flow.abort()

    def shutdown(self) -> None:
        """Close the connection after the request that is being served, because the server stops."""
        if self._served is None:
            self._flow.close()
            return
        self._served.keep_alive = False
        self._keep_task()

    def _keep_task(self) -> None:
        if self._task is not None:
            self._shared.tasks.add(self._task)
            self._task.add_done_callback(self._shared.tasks.discard)


def _check_coding(codings: bytes) -> None:
    """RFC 9112, 6.1 and 6.3: `chunked` comes last, and the gateway knows no other coding.

    The parser accepts any list that ends with `chunked`, and the agent would get a body that is
    still encoded.
    """
    if codings != b"chunked":
        is_last = codings.rpartition(b",")[2].strip() == b"chunked"
        raise _Refused(UNKNOWN_CODING if is_last else BAD_REQUEST)


# Cached, because most requests have one of a few addresses.
@lru_cache(maxsize=256)
def _address(url: bytes) -> tuple[str, bytes, bytes]:
    """The decoded path, the path as it came, and the query of an address."""
    if url.startswith(b"/") and url.find(b"#") < 0:
        raw_path, _, query = url.partition(b"?")
    else:
        # RFC 9112, 3.2.2: absolute form, with scheme and host.
        parsed = httptools.parse_url(url)
        raw_path, query = parsed.path or b"/", parsed.query or b""
    path = raw_path.decode()
    return unquote(path) if "%" in path else path, raw_path, query


def _without_upgrade(method: str, url: bytes, version: str, lines: list[Header]) -> bytes:
    kept = [b"%b: %b\r\n" % line for line in lines if line[0] not in (b"connection", b"upgrade")]
    start = f"{method} ".encode() + url + f" HTTP/{version}\r\n".encode()
    return b"%b%b\r\n" % (start, b"".join(kept))
