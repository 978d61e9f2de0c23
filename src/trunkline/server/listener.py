"""The process as a server: its socket, its signals, and an end that lets work finish.

uvicorn does what is the same for every server; the connections are ours.
"""

import asyncio
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any, cast

import uvicorn

from trunkline.server.connection import Connection, Handler, Shared

BACKLOG = 2048
KEEP_ALIVE_S = 75.0


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class Listener(uvicorn.Server):
    def __init__(
        self,
        handler: Handler,
        *,
        max_header_bytes: int,
        on_started: Callable[[], None],
        on_stopping: Callable[[], Awaitable[None]],
    ) -> None:
        self._shared = Shared(handler, max_header_bytes=max_header_bytes, keep_alive_s=KEEP_ALIVE_S)
        config = uvicorn.Config(
            # Never called: the connections hand requests to the handler.
            handler,
            loop="uvloop",
            http=cast(type[asyncio.Protocol], self._connect),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            # Streams and runs were told before; what is left then is not ours to wait for.
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        # What its shutdown closes and waits for.
        self.server_state.connections = cast(Any, self._shared.connections)
        self.server_state.tasks = self._shared.tasks
        self._on_started = on_started
        self._on_stopping = on_stopping

    def _connect(self, **_: Any) -> Connection:
        return Connection(self._shared)

    async def on_tick(self, counter: int) -> bool:
        # Called ten times a second.
        if counter % 10 == 0:
            self._shared.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
            self._shared.close_idle(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal once more when it has stopped, and that would end
        # the process before the store is closed, with the exit code of an accident.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        for number in caught:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # While runs finish, callers with an open connection are still answered.
        await self._on_stopping()
        await super().shutdown(sockets=sockets)
