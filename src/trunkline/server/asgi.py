"""ASGI, both ways: our requests for an ASGI application, and an ASGI server's for us."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from trunkline.model.errors import RequestTimedOut
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Request, Response

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiRequest(Request):
    """A request that an ASGI server hands in."""

    __slots__ = ("_receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(
            scope["method"],
            scope["path"],
            scope.get("raw_path"),
            scope["query_string"],
            scope["headers"],
        )
        self.scope = scope
        self._receive = receive

    async def piece(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message.get("body", b""), message.get("more_body", False)

    async def disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


class AsgiResponse(Response):
    """A response by way of an ASGI server."""

    __slots__ = ("_send",)

    def __init__(self, send: Send) -> None:
        self.has_begun = False
        self._send = send

    async def answer(
        self,
        status: int,
        body: bytes,
        *,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        own = ((b"content-type", content_type), (CONTENT_LENGTH, b"%d" % len(body)))
        await self.begin(status, (*own, *headers))
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        self.has_begun = True
        await self._send(
            {"type": "http.response.start", "status": status, "headers": list(headers)}
        )

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})


async def serve_with(app: App, request: Request, response: Response) -> None:
    """Let an ASGI application answer a request of ours."""
    has_more = True

    async def receive() -> Message:
        nonlocal has_more
        if has_more:
            try:
                body, has_more = await request.piece()
            except (Disconnected, RequestTimedOut):
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": body, "more_body": has_more}
        await request.disconnected()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            await response.begin(message["status"], headers)
            if not any(name.lower() == CONTENT_LENGTH for name, _ in headers):
                # A stream, whose reader wants to know at once that it is open.
                await response.write(b"")
            return
        if body := message.get("body", b""):
            await response.write(body)
        if not message.get("more_body", False):
            await response.end()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.raw_path,
        "query_string": request.query,
        "root_path": "",
        "headers": list(request.header_lines),
        "client": None,
        "server": None,
    }
    await app(scope, receive, send)
