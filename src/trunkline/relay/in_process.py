"""`call`: a request to an ASGI application of this process, with its whole answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

from msgspec import Struct

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class Answer(Struct, frozen=True):
    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class _Call:
    def __init__(self, body: bytes) -> None:
        self.status = 500
        self.headers: Mapping[bytes, bytes] = {}
        self.pieces: list[bytes] = []
        self._body: bytes | None = body

    async def receive(self) -> Message:
        if self._body is None:
            # The caller stays until the answer is whole; a call that is given up is cancelled.
            await asyncio.get_running_loop().create_future()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.lower(): value for name, value in message["headers"]}
        else:
            self.pieces.append(message.get("body", b""))


async def call(
    app: App,
    method: str,
    path: str,
    *,
    headers: Mapping[bytes, bytes],
    body: bytes = b"",
) -> Answer:
    """Cancelling it is how the caller leaves."""
    made = _Call(body)
    lines = [*headers.items()]
    if body:
        lines.append((b"content-length", b"%d" % len(body)))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": quote(path).encode("ascii"),
        "query_string": b"",
        "root_path": "",
        "headers": lines,
        "client": None,
        "server": None,
    }
    await app(scope, made.receive, made.send)
    return Answer(made.status, made.headers, b"".join(made.pieces))
