"""A server with a WebSocket mount at `/ws`, and its clients: a real one, and one in bytes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.sockets.handlers import echo
from tests.sockets.peer import DEADLINE_S, Peer, Server, passes, serving
from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import Opcode

from trunkline.ports.websocket import WebSocket, WebSocketClosed, WebSocketMount
from trunkline.server.http import Request, Response
from trunkline.server.websocket import WebSocketEndpoint
from trunkline.server.websocket_connection import WebSocketConnection

# RFC 6455, 1.3.
KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
HANDSHAKE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    f"Sec-WebSocket-Key: {KEY}",
    "Sec-WebSocket-Version: 13",
)


class SocketServer:
    """Requests to other paths than `/ws` are answered with what was understood of them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.shared = server.shared
        self.budget = server.budget

    def connect(self, path: str = "/ws", **options: Any) -> AbstractAsyncContextManager[Any]:
        """A client of the library."""
        return connect(f"ws://127.0.0.1:{self.server.port}{path}", compression=None, **options)

    async def upgraded(self, *, reads: bool = True, early: bytes = b"") -> Peer:
        """A client in bytes, after the handshake."""
        peer = await self.server.peer(reads=reads)
        peer.send(get("/ws", *HANDSHAKE) + early)
        status, headers = await peer.head()
        assert status == 101
        assert headers["Sec-WebSocket-Accept"] == ACCEPT
        return peer

    def sockets(self) -> list[WebSocketConnection]:
        return [one for one in self.shared.connections if isinstance(one, WebSocketConnection)]

    def only_socket(self) -> WebSocketConnection:
        (socket,) = self.sockets()
        return socket

    def after(self, seconds: float) -> None:
        """Have the server look at its connections as if so much time had passed."""
        self.shared.close_idle(asyncio.get_running_loop().time() + seconds)

    async def others_are_served(self) -> None:
        """Somebody else gets an answer, over HTTP and over a WebSocket."""
        peer = await self.server.peer()
        peer.send(get("/other"))
        status, _, body = await peer.response()
        assert status == 200
        assert b'"path": "/other"' in body
        peer.close()


@asynccontextmanager
async def websockets(
    handler: Callable[[WebSocket], Awaitable[None]], *, server: Any = None, **mount: Any
) -> AsyncIterator[SocketServer]:
    mounted = WebSocketEndpoint(WebSocketMount(handler=handler, **mount))

    def serve(request: Request, response: Response) -> Awaitable[None]:
        is_mounted = request.path.startswith("/ws")
        return mounted(request, response) if is_mounted else echo(request, response)

    async with serving(serve, **(server or {})) as made:
        made.shared.takes_websocket = lambda path: path.startswith("/ws")
        yield SocketServer(made)
    assert made.budget.held_bytes == 0
    assert made.budget._by_caller == {}


async def repeat(socket: WebSocket) -> None:
    async for message in socket:
        await socket.send(message)


class Recorded:
    """A handler that notes what it hears, up to the end."""

    def __init__(self) -> None:
        self.messages: list[str | bytes] = []
        self.may_read = asyncio.Event()
        self.closes: list[WebSocketClosed] = []

    async def __call__(self, socket: WebSocket) -> None:
        await self.may_read.wait()
        try:
            while True:
                self.messages.append(await socket.receive())
        except WebSocketClosed as closed:
            self.closes.append(closed)

    async def end(self) -> tuple[int, str]:
        await until(lambda: bool(self.closes))
        [closed] = self.closes
        return closed.code, closed.reason


def get(path: str, *lines: str, version: str = "1.1") -> bytes:
    headers = "".join(f"{line}\r\n" for line in ("Host: here", *lines))
    return f"GET {path} HTTP/{version}\r\n{headers}\r\n".encode("latin-1")


def frame(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    """With the same mask always, for the names of tests."""
    mask = b"\x01\x02\x03\x04"
    size = len(data)
    short = min(size, 126) if size < 65536 else 127
    long = b"" if size < 126 else size.to_bytes(2 if size < 65536 else 8)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    return bytes([fin << 7 | opcode, 0x80 | short]) + long + mask + masked


async def closed(client: ClientConnection) -> tuple[int | None, str | None]:
    await asyncio.wait_for(client.wait_closed(), DEADLINE_S)
    return client.close_code, client.close_reason


async def close_of(peer: Peer) -> tuple[int, str]:
    """The close frame that comes next, and the end of the connection after it."""
    data = await peer.rest()
    assert data[0] == 0x88, data[:100]
    assert len(data) == 2 + data[1]
    return int.from_bytes(data[2:4]), data[4:].decode()


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_true():
            await passes()
