"""`dial`: a connection to a relay."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from trunkline.ports.websocket import ABNORMAL, WebSocketClosed
from trunkline.protocol.relay.close_codes import FORBIDDEN, NOT_AUTHENTICATED
from trunkline.protocol.relay.frames import SUBPROTOCOL
from trunkline.protocol.relay.hop_credentials import SUBPROTOCOL as HOP_SUBPROTOCOL
from trunkline.protocol.relay.v1.frames import MAX_FRAME_BYTES
from trunkline.relay.carrier import Socket
from trunkline.remote.errors import RemoteError
from trunkline.remote.websocket import SocketClosed, UpgradeRefused, WebSocket, open_websocket

CONNECT_S: Final = 15.0
_CONNECT_NODE_S: Final = 3.0
# Below the times after which NATs and proxies forget a connection.
_HEARTBEAT_S: Final = 25.0
# A connection to the relay at a URL, with a token. Raises DialFailed.
Dial: TypeAlias = Callable[[str, str], Awaitable[Socket]]
_CODES: Final = {401: NOT_AUTHENTICATED, 403: FORBIDDEN}
_REFUSALS: Final = {
    401: "the relay does not know the token",
    403: "the token may not attach agents",
}
# With these a relay says when to come back.
_PAUSES: Final = {
    429: "the relay takes no more attempts for now (429)",
    503: "the relay is stopping or full (503)",
}
# A filter may drop the connection while it is made. One that reads TLS shows a certificate of its
# own, for HTTP as well.
_FILTERED: Final = frozenset({"CONNECT_TIMEOUT"})


class DialFailed(Exception):
    """There is no connection. `code` is that with which a session would be closed. It `may_pass`
    as plain HTTP where it failed as a WebSocket only because the network lets none pass."""

    def __init__(
        self,
        message: str,
        *,
        code: int = ABNORMAL,
        retry_after_s: float = 0.0,
        may_pass: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after_s = retry_after_s
        self.may_pass = may_pass


class DialedSocket:
    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def subprotocol(self) -> str | None:
        return self._socket.subprotocol

    async def receive(self) -> str | bytes:
        try:
            return await self._socket.receive_any()
        except RemoteError as error:
            raise _closed(error) from None

    async def send(self, message: str | bytes) -> None:
        try:
            await self._socket.send(message)
        except RemoteError as error:
            raise _closed(error) from None

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code, reason)


def _closed(error: RemoteError) -> WebSocketClosed:
    if isinstance(error, SocketClosed):
        return WebSocketClosed(error.code, error.told)
    return WebSocketClosed(ABNORMAL, error.message)


async def dial(url: str, token: str) -> DialedSocket:
    """A connection that offers protocol v2. Raises DialFailed."""
    return await _open(
        url, headers={"Authorization": f"Bearer {token}"}, subprotocols=(SUBPROTOCOL,)
    )


async def dial_v1(url: str, _: str) -> DialedSocket:
    """A connection for protocol v1, whose token goes into its first frame. Raises DialFailed."""
    return await _open(url, headers={}, subprotocols=())


async def dial_node(url: str, credential: str) -> DialedSocket:
    """A connection to another relay node of the same store. Raises DialFailed."""
    return await _open(
        url,
        headers={"Authorization": credential},
        subprotocols=(HOP_SUBPROTOCOL,),
        connect_s=_CONNECT_NODE_S,
    )


async def _open(
    url: str,
    *,
    headers: Mapping[str, str],
    subprotocols: Sequence[str],
    connect_s: float = CONNECT_S,
) -> DialedSocket:
    try:
        socket = await open_websocket(
            url,
            connect_s=connect_s,
            # Sessions of protocol v2 take less, and check it themselves.
            max_frame_bytes=MAX_FRAME_BYTES,
            heartbeat_s=_HEARTBEAT_S,
            headers=headers,
            subprotocols=subprotocols,
        )
    except UpgradeRefused as refused:
        texts = _REFUSALS if refused.retry_after_s is None else _REFUSALS | _PAUSES
        raise DialFailed(
            texts.get(refused.status, refused.message),
            code=_CODES.get(refused.status, ABNORMAL),
            retry_after_s=refused.retry_after_s or 0.0,
            # A relay that is full says when to come back. Proxies answer with 403 as well.
            may_pass=refused.status != 401 and refused.retry_after_s is None,
        ) from None
    except RemoteError as error:
        # Without an address to connect to, HTTP fares no better.
        is_dead = error.is_unsent and error.reason not in _FILTERED
        raise DialFailed(error.message, may_pass=not is_dead) from None
    return DialedSocket(socket)
