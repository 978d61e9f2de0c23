"""The subset of HTTP/1.1 that the fake model needs: one request per connection."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from msgspec import Struct

_BODY_BYTES = 64 * 1024 * 1024


class Incoming(Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class BadRequest(ValueError):
    """The client sent bytes that are no HTTP request."""


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Incoming | None:
    """The request, or None when the client closed without one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequest("the request line is not one")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Incoming(words[0], words[1].partition("?")[0], headers, await _body(reader, headers))


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    try:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await _chunks(reader)
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= _BODY_BYTES:
            raise BadRequest("the body is too large")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise BadRequest("the body is cut off, or its length is wrong") from error


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        _ = await reader.readexactly(2)
        if len(body) > _BODY_BYTES:
            raise BadRequest("the body is too large")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return bytes(body)


class Reply:
    """The answer to one request: whole, or begun and sent in pieces."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def whole(
        self, status: int, content_type: str, body: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        headers = {"Content-Length": str(len(body))} | dict(more or {})
        self._writer.write(_head(status, content_type, headers) + body)
        await self._writer.drain()

    def begin(self, content_type: str) -> None:
        headers = {"Transfer-Encoding": "chunked", "Cache-Control": "no-cache"}
        self._writer.write(_head(200, content_type, headers))

    async def piece(self, data: bytes) -> None:
        if data:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


def _head(status: int, content_type: str, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    named = {"Content-Type": content_type, "Connection": "close"} | dict(headers)
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")
