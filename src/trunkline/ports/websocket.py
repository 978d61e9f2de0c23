"""`WebSocket` and `WebSocketMount`: an open socket as its handler sees it, and what is served at a
path.

The server opens the sockets; features that use them import this module and not the server.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

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


class WebSocketClosed(Exception):
    """The socket is closed, with the code and the reason of the side that closed it first.

    The code is 1006 if the connection ended without a close frame.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class UpgradeRequest(Protocol):
    """The request that a WebSocket began with."""

    # The principal of the client, once a check has found it. The memory budget counts by it.
    caller: str

    @property
    def path(self) -> str: ...
    @property
    def query(self) -> bytes: ...
    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """Values by name in lower case."""
        ...

    @property
    def peer(self) -> str:
        """The address of the other side of the connection, maybe a proxy; empty if it has none."""
        ...

    def header(self, name: bytes) -> str | None: ...


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


def check_reason(reason: str) -> None:
    if len(reason.encode()) > MAX_REASON_BYTES:
        raise ValueError(f"the reason of a close has at most {MAX_REASON_BYTES} bytes")


class WebSocket(ABC):
    """An open socket for one reader at a time and any number of senders.

    `async for message in socket` ends when the socket is closed, whatever the code.
    """

    request: UpgradeRequest
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
        """Close the socket, and wait until it is closed. Does nothing to a closed one.

        Raises ValueError for a reason of more than 123 bytes.
        """

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
    headers: Sequence[tuple[bytes, bytes]] = ()


def offers(request: UpgradeRequest, subprotocols: Sequence[str]) -> bool:
    """Whether the client offers one of these subprotocols."""
    offered = (request.header(b"sec-websocket-protocol") or "").split(",")
    return not {name.strip() for name in offered}.isdisjoint(subprotocols)


SocketHandler: TypeAlias = Callable[[WebSocket], Awaitable[None]]
# Sees the request before the socket is opened, with its `Origin` and credentials; None accepts it.
Check: TypeAlias = Callable[[UpgradeRequest], Awaitable[Refusal | None]]


class WebSocketMount(Struct, frozen=True, kw_only=True, eq=False):
    """Each socket is handed to the handler, and closed when the handler returns.

    A handler that waits for something else than messages must notice by itself that its peer has
    left: `receive` and `send` raise WebSocketClosed. With `subprotocols`, a client must offer one
    of them; the first in this order is chosen. With `takes_no_subprotocol`, a client that offers
    none of them gets a socket without one.
    """

    handler: SocketHandler
    check: Check | None = None
    subprotocols: tuple[str, ...] = ()
    takes_no_subprotocol: bool = False
    limits: WebSocketLimits = WebSocketLimits()
