"""Requests in bytes, and handlers that show what was made of them."""

import json

from tests.sockets.peer import Peer

from trunkline.model.errors import (
    PayloadTooLarge,
    RequestTimedOut,
    TooManyRequests,
    Unavailable,
)
from trunkline.protocol.errors import wire
from trunkline.server.http import Request, Response

LIMIT = 1 << 20


def post(body: bytes = b"", *lines: str, path: str = "/", version: str = "1.1") -> bytes:
    headers = "".join(f"{line}\r\n" for line in ("Host: here", *lines))
    head = f"POST {path} HTTP/{version}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


async def echo(request: Request, response: Response) -> None:
    """What was understood of the request."""
    body = await request.body(limit=LIMIT)
    told = {
        "method": request.method,
        "path": request.path,
        "query": request.query.decode("latin-1"),
        "headers": [
            (name + b"=" + value).decode("latin-1") for name, value in request.header_lines
        ],
        "body": body.decode("latin-1"),
    }
    await response.answer(200, json.dumps(told).encode())


async def count_bytes(request: Request, response: Response) -> None:
    try:
        body = await request.body(limit=LIMIT)
    except PayloadTooLarge:
        await response.answer(413, b"too large")
    else:
        await response.answer(200, b"%d" % len(body))


async def keep(request: Request, response: Response) -> None:
    """Read the body in the name of who sends it, and answer as the gateway does."""
    request.caller = request.header(b"x-caller") or ""
    try:
        body = await request.body(limit=64 * LIMIT)
        size = int(request.header(b"x-answer") or 0)
        request.release()
        await response.answer(200, b"x" * size or b"%d" % len(body))
    except (RequestTimedOut, TooManyRequests, Unavailable) as error:
        status = wire(error).http
        retry = [] if isinstance(error, RequestTimedOut) else [(b"retry-after", b"5")]
        await response.answer(status, error.message.encode(), headers=retry)


async def never(request: Request, response: Response) -> None:
    raise AssertionError("nothing to serve")


async def told(peer: Peer) -> dict[str, object]:
    status, _, body = await peer.response()
    assert status == 200, body
    answer: dict[str, object] = json.loads(body)
    return answer
