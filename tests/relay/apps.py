"""ASGI applications of a host, which do what a test tells them."""

import asyncio
from typing import Any

import msgspec
from msgspec import Struct, field


class Told:
    """Answers each request with what it has understood of it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body, has_more = body + message["body"], message["more_body"]
        told = {
            "method": scope["method"],
            "path": scope["path"],
            "raw_path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": {name.decode(): value.decode("latin-1") for name, value in scope["headers"]},
            "size": len(body),
            "body": body[:100].decode("latin-1"),
        }
        data = msgspec.json.encode(told)
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": data})


class Script(Struct):
    """A request under way, whose answer a test gives piece by piece."""

    scope: Any
    pieces: "asyncio.Queue[tuple[bytes, bool]]" = field(default_factory=asyncio.Queue)
    # Whether the client has left.
    is_left: bool = False
    # The pieces that the relay has taken.
    sent: int = 0

    def say(self, data: bytes, *, is_last: bool = False) -> None:
        self.pieces.put_nowait((data, is_last))


class Scripted:
    def __init__(self, *, content_length: bytes = b"") -> None:
        """Streams of events; with a length, other answers, which begin with their first piece."""
        self.requests: list[Script] = []
        self._head = (
            (b"content-length", content_length)
            if content_length
            else (b"content-type", b"text/event-stream")
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        script = Script(scope)
        self.requests.append(script)
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [self._head]})
        leaving = asyncio.get_running_loop().create_task(receive())
        is_last = False
        try:
            while not is_last:
                piece = asyncio.get_running_loop().create_task(script.pieces.get())
                await asyncio.wait({piece, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    piece.cancel()
                    script.is_left = True
                    return
                data, is_last = piece.result()
                await send({"type": "http.response.body", "body": data, "more_body": not is_last})
                script.sent += 1
        finally:
            leaving.cancel()
