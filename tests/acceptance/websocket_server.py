"""`websocket_server`: a WebSocket server of the library, with the handler of a test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from websockets.asyncio.server import ServerConnection, serve

Handler: TypeAlias = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def websocket_server(handler: Handler) -> AsyncIterator[str]:
    """The url of a server that hands each of its sockets to the handler."""
    async with serve(handler, "127.0.0.1", 0, ping_interval=None, close_timeout=0.1) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/"
