"""Requests as an ASGI server would hand them in, and answers as it would get them."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from msgspec import Struct, field

from trunkline.server.asgi import AsgiRequest, Receive, Scope
from trunkline.server.http import Header


def asgi_call(
    *messages: dict[str, Any],
    method: str = "POST",
    path: str = "/",
    query: bytes = b"",
    headers: Iterable[Header] = (),
) -> tuple[Scope, Receive]:
    """A request whose body comes as these messages; then the client has left."""
    waiting = list(messages)

    async def receive() -> MutableMapping[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": list(headers),
    }
    return scope, receive


def request(*messages: dict[str, Any], **parts: Any) -> AsgiRequest:
    return AsgiRequest.of(*asgi_call(*messages, **parts))


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


class Answer(Struct):
    """What was sent: an ASGI `send` that remembers."""

    messages: list[MutableMapping[str, Any]] = field(default_factory=list)

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        status = self.messages[0]["status"]
        assert isinstance(status, int)
        return status

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])
