"""Requests and answers on plain ASGI."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from trunkline.model.errors import InvalidRequest, PayloadTooLarge

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]


class Disconnected(Exception):
    """The client left before its request was read."""


class Request:
    """One HTTP request; the headers are looked up, the body is read when asked for."""

    __slots__ = ("_receive", "headers", "method", "path", "query", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def header_list(self, *names: bytes) -> list[str]:
        """The comma-separated values of all headers with one of the names."""
        if not any(name in self.headers for name in names):
            return []
        values = (value for name, value in self.scope["headers"] if name in names)
        items = b",".join(values).decode("latin-1").split(",")
        return [item.strip() for item in items if item.strip()]

    def query_value(self, name: str) -> str | None:
        if not self.query:
            return None
        wanted = name.lower()
        for key, value in parse_qsl(self.query.decode("latin-1"), keep_blank_values=True):
            if key.lower() == wanted:
                return value
        return None

    async def body(self, *, limit: int) -> bytes:
        """Raises PayloadTooLarge as soon as the limit is passed or announced."""
        announced = self.headers.get(b"content-length")
        if announced is not None and announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return body
        chunks = [body]
        size = len(body)
        while message.get("more_body"):
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
        return b"".join(chunks)

    async def disconnected(self) -> None:
        """Wait until the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def hostname(self) -> str:
        host = (self.header(b"host") or "").strip().lower()
        if host.startswith("["):
            return host.partition("]")[0].removeprefix("[")
        return host.partition(":")[0]


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The request body is larger than {limit} bytes")


def sequence_of(text: str | None) -> int | None:
    """`Last-Event-ID`: the sequence of the last event that the client has."""
    if text is None or not text.strip():
        return None
    if not text.strip().isascii() or not text.strip().isdigit() or len(text.strip()) > 18:
        raise InvalidRequest(
            "Last-Event-ID must be the id of an event of this stream, which is a number"
        )
    return int(text)


async def answer(
    send: Send,
    status: int,
    body: bytes,
    *,
    content_type: bytes = b"application/json",
    headers: Iterable[Header] = (),
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", b"%d" % len(body)),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
