"""A client for an ASGI application that reads a response while it is being written.

httpx's ASGITransport hands out a response when it is complete, which a stream never is.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, field


class App(Protocol):
    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None: ...


class Http(Struct, kw_only=True):
    """A request. `path` is as it goes over the wire; `body` may come in pieces."""

    method: str = "POST"
    path: str
    query: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | list[bytes] = b""

    def scope(self) -> dict[str, Any]:
        query = self.query.encode() if isinstance(self.query, str) else self.query
        raw = quote(self.path, safe="/%:@!$&'()*+,;=~-._")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": unquote(self.path),
            "raw_path": raw.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in ({"host": "127.0.0.1"} | self.headers).items()
            ],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 80),
        }

    def chunks(self) -> Iterable[bytes]:
        return [self.body] if isinstance(self.body, bytes) else self.body


class Answer(Struct, kw_only=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Response:
    """A response under way. Leaving is what a client does that closes its connection."""

    def __init__(self, request: Http) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._request = [*request.chunks()]
        self._begun = asyncio.Event()
        self._left = asyncio.Event()
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def begun(self) -> None:
        await self._begun.wait()

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    def leave(self) -> None:
        self._left.set()

    async def run(self, app: App, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            # Also when the application fails before it answers.
            self._begun.set()
            self._chunks.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        # A reader that is cancelled leaves the rest to the next one.
        if self._request:
            chunk = self._request.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(self._request)}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        # Like uvicorn, which lets an application write to a client that left.
        if self._left.is_set():
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode("latin-1") for k, v in message["headers"]}
            self._begun.set()
            return
        # An empty piece is nothing on the wire.
        if body := message.get("body", b""):
            self._chunks.put_nowait(body)


class Asgi:
    def __init__(self, app: App) -> None:
        self.app = app

    async def send(self, request: Http) -> Answer:
        """The whole answer."""
        response = Response(request)
        await response.run(self.app, request.scope())
        body = b"".join([chunk async for chunk in response.chunks()])
        return Answer(status=response.status, headers=response.headers, body=body)

    @asynccontextmanager
    async def open(self, request: Http) -> AsyncIterator[Response]:
        """The answer as it comes; it has begun when the block is entered."""
        response = Response(request)
        loop = asyncio.get_running_loop()
        task = loop.create_task(response.run(self.app, request.scope()), name="request")
        try:
            await response.begun()
            yield response
        finally:
            response.leave()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
