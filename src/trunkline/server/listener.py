"""The gateway in uvicorn: a bounded parser, and an end that lets work finish."""

import asyncio
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

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


class JoinedWrites(asyncio.Transport):
    """A transport that sends all that is written in one pass of the loop in one go.

    uvicorn writes the head of an answer and its body one by one. Two system calls, and
    two wake-ups of the client, took a fifth of the CPU of a small answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes | bytearray | memoryview] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._pending = []
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + sum(map(len, self._pending))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()


def bounded_protocol(max_header_bytes: int) -> type[asyncio.Protocol]:
    """uvicorn's HTTP parser takes heads of any size; this one gives up."""

    class BoundedHttp(HttpToolsProtocol):
        _head_bytes = 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            joined = JoinedWrites(cast(asyncio.Transport, transport), self.loop)
            super().connection_made(joined)

        def data_received(self, data: bytes) -> None:
            cycle = self.cycle
            HttpToolsProtocol.data_received(self, data)
            if self.cycle is not cycle or getattr(cycle, "more_body", False):
                # A head was completed, or this was a piece of a body.
                self._head_bytes = 0
                return
            self._head_bytes += len(data)
            if self._head_bytes > max_header_bytes:
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()

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
