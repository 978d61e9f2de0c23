"""Requests of hosts that poll, as `PollingHosts` reads and answers them: a body, a number, a
response."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from trunkline.ports.authenticator import Headers
from trunkline.ports.websocket import ABNORMAL, MAX_REASON_BYTES
from trunkline.protocol.relay.close_codes import BAD_FRAME, TOO_LARGE, Close
from trunkline.protocol.relay.polling import CONTENT_TYPE, MAX_BATCH_BYTES

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_MAX_NUMBER: Final = 2**53 - 1


class Refused(Exception):
    """The request cannot be served. The body of the response says so as the close of a connection
    does."""

    def __init__(self, status: int, code: int, reason: str, *, retry_after_s: int = 0) -> None:
        super().__init__(reason)
        self.status = status
        self.close = Close(code, short(reason))
        self.retry_after_s = retry_after_s


class Reply(Struct, frozen=True):
    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"


def batch_reply(batch: bytes) -> Reply:
    return Reply(batch, content_type=CONTENT_TYPE)


def number(scope: Scope, name: str) -> int:
    """A number in the query. Raises Refused."""
    text = parse_qs(scope["query_string"].decode("latin-1")).get(name, [""])[-1]
    if text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= _MAX_NUMBER:
        return int(text)
    raise Refused(400, BAD_FRAME, f"the query has no number {name}")


async def body_of(receive: Receive, headers: Headers) -> bytes:
    """Raises Refused for a body that is too large or not complete."""
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced[:17]) > MAX_BATCH_BYTES:
        raise _too_large()
    pieces: list[bytes] = []
    size, has_more = 0, True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, ABNORMAL, "the body is not complete")
        pieces.append(message.get("body", b""))
        size, has_more = size + len(pieces[-1]), message.get("more_body", False)
        if size > MAX_BATCH_BYTES:
            raise _too_large()
    return b"".join(pieces)


def _too_large() -> Refused:
    return Refused(413, TOO_LARGE, f"the body has more than {MAX_BATCH_BYTES} bytes")


def short(text: str) -> str:
    """The reason of a close, which is as short as that of a WebSocket."""
    return text.encode("ascii", "replace")[:MAX_REASON_BYTES].decode()


async def send_refusal(send: Send, refused: Refused) -> None:
    more = []
    if refused.retry_after_s:
        more.append((b"retry-after", b"%d" % refused.retry_after_s))
    if refused.status == 401:
        more.append((b"www-authenticate", b'Bearer realm="trunkline"'))
    await send_reply(send, Reply(msgspec.json.encode(refused.close), refused.status), *more)


async def send_reply(send: Send, reply: Reply, *more: tuple[bytes, bytes]) -> None:
    headers = [
        # The next request to the same address has another answer.
        (b"cache-control", b"no-store"),
        (b"content-type", reply.content_type.encode()),
        (b"content-length", b"%d" % len(reply.body)),
        *more,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
