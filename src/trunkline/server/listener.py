"""The gateway in uvicorn: a bounded parser, and an end that lets work finish."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trunkline.model.errors import ConfigError
from trunkline.server.application import Application

BACKLOG = 2048
_TOO_LARGE_TEXT = b"The head of the request is too large."
_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_TOO_LARGE_TEXT), _TOO_LARGE_TEXT)
)


def listen(host: str, port: int) -> socket.socket:
    """Raises ConfigError that says who is in the way and what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {reason}. Another program may use the port; "
            "choose one with --port (0 takes any free one), or another --host."
        ) from None


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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # While runs finish, callers with an open connection are still answered.
        await self._on_stopping()
        await super().shutdown(sockets=sockets)
