"""A peer that answers on a socket with exactly the bytes a test wants."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TypeAlias

from trunkline.remote import Limits
from trunkline.remote.http import Answer, Guard, HttpClient, Response, build_request

# One request that was read whole, and where to answer it.
Handler: TypeAlias = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
CALM = Limits()


# A connection as it is, for what no request comes of.
Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    def __init__(self, handler: Handler, serve: Serve | None = None) -> None:
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []
        self._handler = handler
        self._serve = serve or self._answer
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._serving.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await _request(reader):
            self.requests.append(request)
            await self._handler(request, writer)
            await writer.drain()

    async def end(self) -> None:
        serving = [*self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def peer(
    handler: Handler,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    serve: Serve | None = None,
) -> AsyncIterator[Peer]:
    one = Peer(handler, serve)
    server = await asyncio.start_server(one.serve, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    named = f"[{host}]" if ":" in host else host
    one.url = f"{'https' if tls else 'http'}://{named}:{port}/rpc"
    try:
        yield one
    finally:
        server.close()
        await one.end()


def says(data: bytes, *, closes: bool = False) -> Handler:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if closes:
            await writer.drain()
            writer.close()

    return handle


def answer(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks) + end


async def fetch(
    http: HttpClient,
    url: str,
    method: str = "POST",
    *,
    body: bytes | None = b"{}",
    limits: Limits = CALM,
    max_bytes: int = 1024 * 1024,
) -> Answer:
    return await http.fetch(build_request(method, url, {}, body), limits, max_bytes=max_bytes)


async def opened(
    http: HttpClient,
    url: str,
    method: str = "POST",
    *,
    limits: Limits = CALM,
    within_s: float = 30.0,
) -> Response:
    return await http.open(build_request(method, url, {}, b"{}"), limits, within_s=within_s)


async def read(opened: Response) -> bytes:
    whole = []
    while chunk := await opened.chunk():
        whole.append(chunk)
    return b"".join(whole)


@asynccontextmanager
async def client(tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpClient]:
    http = HttpClient(Guard(allow_private=True), tls=tls)
    try:
        yield http
    finally:
        await http.close()


def raw(serve: Serve) -> AbstractAsyncContextManager[Peer]:
    """A peer that need not even wait for a request."""
    return peer(says(b""), serve=serve)
