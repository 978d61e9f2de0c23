"""The gateway in uvicorn: a bounded parser, and an end that lets work finish."""

import asyncio
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trunkline.server.application import Application

BACKLOG = 2048
_TOO_LARGE_TEXT = b"The head of the request is too large."
_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_TOO_LARGE_TEXT), _TOO_LARGE_TEXT)
)


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def bounded_protocol(max_header_bytes: int) -> type[asyncio.Protocol]:
    """uvicorn's HTTP parser takes heads of any size; this one gives up."""

    class BoundedHttp(HttpToolsProtocol):
        _head_bytes = 0
        _in_head = True

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head_bytes += len(data)
            super().data_received(data)
            if self._in_head and self._head_bytes > max_header_bytes:
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()

        def on_message_begin(self) -> None:
            self._in_head = True
            self._head_bytes = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._in_head = True
            self._head_bytes = 0
            super().on_message_complete()

    return BoundedHttp


class Listener(uvicorn.Server):
    def __init__(
        self,
        app: Application,
        *,
        max_header_bytes: int,
        on_started: Callable[[], None],
        on_stopping: Callable[[], Awaitable[None]],
    ) -> None:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=bounded_protocol(max_header_bytes),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Nothing here asks for the client's address, and the middleware costs 3 µs.
            proxy_headers=False,
            backlog=BACKLOG,
            # Streams and runs were told before; what is left then is not ours to wait for.
            timeout_graceful_shutdown=5,
            timeout_keep_alive=75,
        )
        super().__init__(config)
        self._on_started = on_started
        self._on_stopping = on_stopping

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
