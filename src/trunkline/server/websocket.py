"""`WebSocket` and `WebSocketMount`: an open socket as its handler sees it, and a mount that opens
sockets."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from trunkline.server.http import Disconnected, Header, Request, Response

# RFC 6455, 7.4.1.
NORMAL = 1000
GOING_AWAY = 1001
ABNORMAL = 1006
INVALID_DATA = 1007
TOO_BIG = 1009
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013
# A control frame has up to 125 bytes, and the code of a close frame takes two (RFC 6455, 5.5).
MAX_REASON_BYTES = 123


class WebSocketClosed(Disconnected):
    """The socket is closed, with the code and the reason of the side that closed it first.

    The code is 1006 if the connection ended without a close frame.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class WebSocketLimits(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds."""

    max_message_bytes: int = 1024 * 1024
    max_frame_bytes: int = 1024 * 1024
    # The messages that may wait for the handler; beyond them the gateway reads no more from the
    # peer.
    max_waiting_messages: int = 32
    max_waiting_bytes: int = 64 * 1024
    # Time for the check of a mount.
    handshake_s: float = 10.0
    # A silent peer is pinged after `ping_s`, and counts as gone after `pong_s` more.
    ping_s: float = 20.0
    pong_s: float = 20.0
    # Time for the peer to answer a close frame.
    close_s: float = 2.0


class WebSocket(ABC):
    """An open socket for one reader at a time and any number of senders.

    `async for message in socket` ends when the socket is closed, whatever the code.
    """

    request: Request
    # The address of the peer; empty where it is not known.
    peer: str
    # The subprotocol that the mount has chosen.
    subprotocol: str | None

    @abstractmethod
    async def receive(self) -> str | bytes:
        """The next message. Raises WebSocketClosed after the last one."""

    @abstractmethod
    async def send(self, message: str | bytes) -> None:
        """Write a message; waits while the peer is behind.

        Raises WebSocketClosed, and for a message over 64 KiB also TooManyRequests or Unavailable
        where the memory budget has no room.
        """

    @abstractmethod
    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Close the socket, and wait until it is closed. Does nothing to a closed one."""

    def __aiter__(self) -> "WebSocket":
        return self

    async def __anext__(self) -> str | bytes:
        try:
            return await self.receive()
        except WebSocketClosed:
            raise StopAsyncIteration from None


class Refusal(Struct, frozen=True):
    """The response to a client that gets no WebSocket."""

    status: int
    text: str
    headers: Sequence[Header] = ()


class Upgrade(ABC):
    """The ability of a request to become a WebSocket."""

    # The address of the client; empty where it is not known.
    peer: str = ""

    @abstractmethod
    async def open(
        self, request: Request, subprotocols: Sequence[str], limits: WebSocketLimits
    ) -> WebSocket | Refusal:
        """Answer the handshake. Raises Disconnected if the client has left."""


SocketHandler: TypeAlias = Callable[[WebSocket], Awaitable[None]]
# Sees the request before the socket is opened, with its `Origin` and credentials; None accepts it.
Check: TypeAlias = Callable[[Request], Awaitable[Refusal | None]]

# RFC 9110, 15.5.22, and RFC 6455, 4.4: what the client must use.
UPGRADE_HEADERS: Sequence[Header] = (
    (b"upgrade", b"websocket"),
    (b"connection", b"upgrade"),
    (b"sec-websocket-version", b"13"),
)
_UPGRADE_REQUIRED = Refusal(
    426,
    "A WebSocket is opened here: send GET with Upgrade: websocket and Connection: Upgrade.\n",
    UPGRADE_HEADERS,
)
_TOO_SLOW = Refusal(503, "The check of the request took too long; try again.\n")


class WebSocketMount(Struct, frozen=True, kw_only=True, eq=False):
    """Hands each socket to the handler, and closes it when the handler returns.

    With `subprotocols`, a client must offer one of them; the first in this order is chosen.
    """

    handler: SocketHandler
    check: Check | None = None
    subprotocols: tuple[str, ...] = ()
    limits: WebSocketLimits = WebSocketLimits()

    async def __call__(self, request: Request, response: Response) -> None:
        opened = await self._open(request)
        if isinstance(opened, Refusal):
            await response.answer(
                opened.status,
                opened.text.encode(),
                content_type=b"text/plain; charset=utf-8",
                headers=opened.headers,
            )
            return
        response.has_begun = True
        try:
            await self.handler(opened)
        except Disconnected:
            pass
        except Exception:
            await opened.close(INTERNAL_ERROR, "internal error")
            raise
        await opened.close()

    async def _open(self, request: Request) -> WebSocket | Refusal:
        if request.upgrade is None:
            return _UPGRADE_REQUIRED
        if self.check is not None:
            try:
                async with asyncio.timeout(self.limits.handshake_s):
                    refusal = await self.check(request)
            except TimeoutError:
                return _TOO_SLOW
            if refusal is not None:
                return refusal
        return await request.upgrade.open(request, self.subprotocols, self.limits)
