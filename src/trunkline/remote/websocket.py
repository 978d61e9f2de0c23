"""A WebSocket to a peer: text frames within limits, and errors of ours."""

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final

import aiohttp
from yarl import URL

from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, PeerUnreachable, RemoteError
from trunkline.version import VERSION

_CLOSE_S: Final = 2.0
_TOO_BIG: Final = aiohttp.WSCloseCode.MESSAGE_TOO_BIG
_ENDED: Final = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED)


class SocketClosed(PeerUnreachable):
    """The socket is closed. The peer gave `code` and the text `told`; 1006 if it gave no code."""

    def __init__(self, code: int, told: str = "") -> None:
        super().__init__("the connection was closed", reason="CONNECTION_LOST")
        self.code = code
        self.told = told


class WebSocket:
    """An open socket for one reader at a time. The caller of `open_websocket` closes it."""

    def __init__(
        self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse
    ) -> None:
        self._session = session
        self._socket = socket

    async def receive(self) -> str:
        """The next text frame. Raises SocketClosed, or BadPeerAnswer for any other frame."""
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data)
        if message.type is aiohttp.WSMsgType.CLOSE:
            raise SocketClosed(int(message.data), str(message.extra or ""))
        if message.type in _ENDED:
            raise SocketClosed(self._socket.close_code or 1006)
        if message.type is aiohttp.WSMsgType.ERROR:
            if getattr(message.data, "code", 0) == _TOO_BIG:
                raise BadPeerAnswer("a frame is larger than allowed", reason="TOO_LARGE")
            raise SocketClosed(self._socket.close_code or 1006)
        raise BadPeerAnswer("a frame is no text", reason="WRONG_TYPE")

    async def send(self, text: str) -> None:
        """Returns when the frame is on its way. Raises SocketClosed."""
        try:
            await self._socket.send_str(text)
        except (aiohttp.ClientError, OSError, RuntimeError):
            raise SocketClosed(self._socket.close_code or 1006) from None

    async def close(self) -> None:
        try:
            await self._socket.close()
        finally:
            await self._session.close()


async def open_websocket(
    url: str,
    *,
    connect_s: float,
    max_frame_bytes: int,
    heartbeat_s: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> WebSocket:
    """A socket to `ws://` or `wss://`. Raises PeerUnreachable, PeerTimeout or BadPeerAnswer.

    A peer that does not answer a ping within half of `heartbeat_s` counts as gone.
    """
    session = aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"trunkline/{VERSION}"},
        timeout=aiohttp.ClientTimeout(total=connect_s),
        trace_configs=[_without_redirects()],
    )
    try:
        socket = await session.ws_connect(
            URL(url, encoded=True),
            headers=headers,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
            heartbeat=heartbeat_s,
            max_msg_size=max_frame_bytes,
        )
    except BaseException as error:
        await session.close()
        if isinstance(error, aiohttp.ClientError | TimeoutError | OSError | ValueError):
            # The cause may hold the request with its headers.
            raise _translated(error) from None
        raise
    return WebSocket(session, socket)


def _without_redirects() -> aiohttp.TraceConfig:
    async def refuse(
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestRedirectParams,
    ) -> None:
        # The operator chose the URL, and not the address that the peer redirects to.
        raise BadPeerAnswer("the address redirects; use the url it redirects to", reason="REDIRECT")

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config


def _translated(error: Exception) -> RemoteError:
    match error:
        case TimeoutError():
            return PeerTimeout("connecting took too long", reason="CONNECT_TIMEOUT", is_unsent=True)
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return PeerUnreachable(
                "the certificate is not accepted, or TLS failed",
                reason="TLS_FAILED",
                is_unsent=True,
            )
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            why = os.strerror(number).lower() if number else "it does not answer"
            return PeerUnreachable(f"cannot connect: {why}", is_unsent=True)
        case aiohttp.WSServerHandshakeError():
            return BadPeerAnswer(
                f"no WebSocket is opened there (status {error.status})", reason="NOT_WEBSOCKET"
            )
        case aiohttp.ClientConnectionError() | OSError():
            return PeerUnreachable("the connection broke off", reason="CONNECTION_LOST")
        case aiohttp.ClientResponseError():
            return BadPeerAnswer("what answers there is no HTTP", reason="NOT_HTTP")
        case _:
            return BadPeerAnswer("the url is not valid", reason="BAD_URL")
