"""A peer that answers with exactly the bytes a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from msgspec import Struct


class Asked(Struct):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> Any:
        return json.loads(self.body)["id"]

    @property
    def rpc(self) -> str:
        return str(json.loads(self.body)["method"])


Handler: TypeAlias = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class RawPeer:
    """Serves a card, and has the handler of the test write the rest."""

    def __init__(self, handler: Handler) -> None:
        self.url = ""
        self.card: dict[str, Any] = {}
        self.asked: list[Asked] = []
        self.connections = 0
        self._handler = handler
        self._serving: set[asyncio.Task[None]] = set()

    def interface(self, path: str = "/rpc", **other: str) -> dict[str, str]:
        own = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": self.url + path}
        return own | other

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            while asked := await _read(reader):
                self.asked.append(asked)
                if asked.path == "/.well-known/agent-card.json" and self.card:
                    writer.write(response(json.dumps(self.card).encode()))
                else:
                    await self._handler(asked, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def end(self) -> None:
        """Whatever a handler still waits for."""
        serving = [*self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    line, *lines = head.decode("latin-1").split("\r\n")[:-2]
    headers = {k.lower(): v for k, v in (one.split(": ", 1) for one in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = line.split()
    return Asked(method, path, headers, body)


def response(body: bytes, *headers: str, status: str = "200 OK", kind: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind or 'application/json'}"]
    lines += [f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def result(asked: Asked, result: object) -> bytes:
    return response(json.dumps({"jsonrpc": "2.0", "id": asked.id, "result": result}).encode())


def event(asked: Asked, result: object, *fields: str) -> bytes:
    data = json.dumps({"jsonrpc": "2.0", "id": asked.id, "result": result})
    return "".join(f"{field}\n" for field in fields).encode() + f"data: {data}\n\n".encode()


# Ends with the connection, so whatever ends it ends the stream.
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


TASK: dict[str, Any] = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
DONE: dict[str, Any] = TASK | {"status": {"state": "TASK_STATE_COMPLETED"}}


def status(state: str) -> dict[str, Any]:
    own = {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}
    return {"statusUpdate": own}


def piece(text: str, *, append: bool = True) -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    own = {"taskId": "t", "contextId": "c", "artifact": artifact, "append": append}
    return {"artifactUpdate": own}


@asynccontextmanager
async def raw_peer(handler: Handler, *, has_card: bool = True) -> AsyncIterator[RawPeer]:
    peer = RawPeer(handler)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer.url = f"http://{host}:{port}"
    if has_card:
        peer.card = {"name": "Raw", "supportedInterfaces": [peer.interface()]}
    try:
        yield peer
    finally:
        server.close()
        await peer.end()
