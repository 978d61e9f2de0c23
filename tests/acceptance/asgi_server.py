"""`asgi_server`: an ASGI application on uvicorn, in the event loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The signals belong to the process of the test.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.is_ready.set()


@asynccontextmanager
async def asgi_server(
    app: ASGIApp, *, port: int = 0, max_message_bytes: int = 16 * 1024 * 1024
) -> AsyncIterator[int]:
    """The port that it listens on."""
    config = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_max_size=max_message_bytes,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    listening = socket.create_server(("127.0.0.1", port))
    serving = asyncio.create_task(server.serve([listening]))
    ready = asyncio.create_task(server.is_ready.wait())
    try:
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        yield listening.getsockname()[1]
    finally:
        ready.cancel()
        server.should_exit = True
        await serving
