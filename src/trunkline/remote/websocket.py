"""`WebSocket`: a client's connection to a peer, with messages within limits."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
)
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.wire_log import ClientTap, Direction, Exchange, HeaderLines, Recorder, Start
from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, PeerUnreachable, RemoteError
from trunkline.remote.http import Guard, Network
from trunkline.remote.http.connector import dial, system_trust
from trunkline.remote.http.request import Origin
from trunkline.version import VERSION

_CLOSE_S: Final = 2.0
# A socket may stay open for days, so after this many messages it goes on in another record.
MAX_RECORDED_MESSAGES: Final = 400
# RFC 6455, 7.4.1: no error; the message was too large; the connection ended without a close frame.
_NORMAL: Final = 1000
_TOO_BIG: Final = 1009
_ABNORMAL: Final = 1006
# At DEBUG the library logs every header and message, and those hold credentials.
_log = logging.getLogger("trunkline.remote.websocket")
_log.setLevel(logging.WARNING)


class SocketClosed(PeerUnreachable):
    """The socket is closed. The peer gave `code` and the text `told`; 1006 if it gave no code."""

    def __init__(self, code: int, told: str = "") -> None:
        super().__init__("the connection was closed", reason="CONNECTION_LOST")
        self.code = code
        self.told = told


class UpgradeRefused(BadPeerAnswer):
    """The peer answers with another status than that of a WebSocket."""

    def __init__(self, status: int, *, retry_after_s: float | None) -> None:
        super().__init__(f"no WebSocket is opened there (status {status})", reason="NOT_WEBSOCKET")
        self.status = status
        self.retry_after_s = retry_after_s


class WebSocket:
    """An open socket for one reader at a time. The caller of `open_websocket` closes it."""

    def __init__(
        self, connection: ClientConnection, url: str = "", tap: ClientTap | None = None
    ) -> None:
        """`tap` is that of the agent whose backend uses the socket."""
        self._connection = connection
        self._tap = tap
        self._url = url
        self._exchange: Exchange | None = None
        self._messages = 0

    @property
    def subprotocol(self) -> str | None:
        """The one that the peer has chosen of those that it was offered."""
        return self._connection.subprotocol

    async def receive(self) -> str:
        """The next message, a text. Raises SocketClosed, or BadPeerAnswer for any other."""
        frame = await self.receive_any()
        if isinstance(frame, str):
            return frame
        raise BadPeerAnswer("a frame is not a text", reason="WRONG_TYPE")

    async def receive_any(self) -> str | bytes:
        """The next message. Raises SocketClosed, or BadPeerAnswer for one that is too large."""
        try:
            message = await self._connection.recv()
            if self._tap is not None and self._tap.recorder is not None:
                self._record(self._tap.recorder, self._tap.agent, message, "in")
            return message
        except ConnectionClosed as closed:
            self._end_record(closed)
            # A peer that closes with this code got too large a message; we answer with its code.
            sent = None if closed.rcvd_then_sent else closed.sent
            if sent is not None and sent.code == _TOO_BIG:
                raise BadPeerAnswer("a frame is larger than allowed", reason="TOO_LARGE") from None
            raise _closed(closed) from None

    async def send(self, message: str | bytes) -> None:
        """Returns when the message is on its way. Raises SocketClosed."""
        if self._tap is not None and self._tap.recorder is not None:
            self._record(self._tap.recorder, self._tap.agent, message, "out")
        try:
            await self._connection.send(message)
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def close(self, code: int = _NORMAL, reason: str = "") -> None:
        await self._connection.close(code, reason)
        self._end_record(None)

    def _record(
        self, recorder: Recorder, agent: str, message: str | bytes, direction: Direction
    ) -> None:
        """Record a message. The turn that it belongs to is known of those that turns send: they
        share the socket, and one reader takes the messages for all."""
        if self._exchange is None or self._messages >= MAX_RECORDED_MESSAGES:
            self._end_record(None)
            self._exchange = self._begin_record(recorder, agent)
        if self._exchange is None:
            return
        self._messages += 1
        if direction == "out":
            path = CALL_PATH.get()
            self._exchange.take_message(
                message, direction, task_id=path.task_id, parent=path.wire_id
            )
        else:
            self._exchange.take_message(message, direction)

    def _begin_record(self, recorder: Recorder, agent: str) -> Exchange | None:
        request, response = self._connection.request, self._connection.response
        exchange = recorder.begin(
            Start(
                side="client",
                agent=agent,
                binding="websocket",
                http_method="GET",
                url=self._url,
                peer=urlsplit(self._url).netloc.rpartition("@")[2],
                headers=[] if request is None else _lines(request.headers),
            )
        )
        if exchange is not None and response is not None:
            exchange.begin_response(response.status_code, _lines(response.headers))
        return exchange

    def _end_record(self, closed: ConnectionClosed | None) -> None:
        exchange, self._exchange, self._messages = self._exchange, None, 0
        if exchange is not None:
            told = None if closed is None else closed.rcvd
            exchange.end("" if told is None else f"The peer closed it: {told.code} {told.reason}")


def _lines(headers: Headers) -> HeaderLines:
    return [
        (name.encode("latin-1", "replace"), value.encode("utf-8", "replace"))
        for name, value in headers.raw_items()
    ]


def _closed(closed: ConnectionClosed) -> SocketClosed:
    told = closed.rcvd
    return SocketClosed(_ABNORMAL) if told is None else SocketClosed(told.code, told.reason)


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        # The operator chose the URL, and not the address that the peer redirects to.
        return exc


async def open_websocket(
    url: str,
    *,
    connect_s: float,
    max_frame_bytes: int,
    heartbeat_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    public_only: bool = False,
    subprotocols: Sequence[str] = (),
    tap: ClientTap | None = None,
) -> WebSocket:
    """A socket to `ws://` or `wss://`. Raises PeerUnreachable, PeerTimeout, BadPeerAnswer or
    AddressRefused.

    A peer that does not answer a ping within half of `heartbeat_s` counts as gone. With
    `public_only`, the url must lead to public addresses.
    """
    try:
        async with asyncio.timeout(connect_s):
            connection = await _connected(
                url,
                public_only=public_only,
                additional_headers=headers,
                subprotocols=[Subprotocol(name) for name in subprotocols] or None,
                user_agent_header=f"trunkline/{VERSION}",
                compression=None,
                open_timeout=None,
                ping_interval=heartbeat_s,
                ping_timeout=None if heartbeat_s is None else heartbeat_s / 2,
                close_timeout=_CLOSE_S,
                max_size=max_frame_bytes,
                logger=_log,
            )
    except (InvalidURI, InvalidHandshake, OSError, ValueError) as error:
        # The cause may hold the request with its headers.
        raise _translated(error) from None
    return WebSocket(connection, url, tap)


async def _connected(url: str, *, public_only: bool, **options: Any) -> ClientConnection:
    uri = parse_uri(url)
    origin = Origin(uri.secure, uri.host, uri.port)
    guard = Guard(configured=frozenset({origin}), public_only=public_only)
    sock = await dial(origin, guard, Network())
    try:
        tls = system_trust() if uri.secure else None
        return await _Connect(url, sock=sock, ssl=tls, **options)
    except BaseException:
        sock.close()
        raise


def _translated(error: Exception) -> RemoteError:
    match error:
        case TimeoutError(errno=None):
            return PeerTimeout("connecting took too long", reason="CONNECT_TIMEOUT", is_unsent=True)
        case ssl.SSLError():
            return PeerUnreachable(
                "the certificate is not accepted, or TLS failed",
                reason="TLS_FAILED",
                is_unsent=True,
            )
        case OSError():
            if isinstance(error, socket.gaierror):
                why = error.strerror
            else:
                # Python appends the address to the reason, in a form that is hard to read.
                why = os.strerror(error.errno) if error.errno else ""
            return PeerUnreachable(
                f"cannot connect: {(why or 'it does not answer').lower()}", is_unsent=True
            )
        case InvalidStatus():
            status = error.response.status_code
            if 300 <= status < 400:
                return BadPeerAnswer(
                    "the address redirects; use the url it redirects to", reason="REDIRECT"
                )
            after = error.response.headers.get("Retry-After", "")
            is_number = after.isascii() and after.isdigit()
            return UpgradeRefused(status, retry_after_s=float(after) if is_number else None)
        case InvalidMessage():
            if isinstance(error.__cause__, EOFError | OSError):
                return PeerUnreachable("the connection broke off", reason="CONNECTION_LOST")
            return BadPeerAnswer("what answers there is no HTTP", reason="NOT_HTTP")
        case InvalidHandshake():
            return BadPeerAnswer("what answers there is no WebSocket", reason="NOT_WEBSOCKET")
        case _:
            return BadPeerAnswer("the url is not valid", reason="BAD_URL")
