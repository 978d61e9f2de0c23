"""A client of an OpenClaw: 0.3 over JSON-RPC, and the bytes as they come."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.bindings.asgi import Answer, Http
from tests.bindings.shapes import Json
from tests.bindings.world import KEYS, World, open_world

from trunkline.settings.profiles import PRESETS

PATH = "/a2a/jsonrpc"


@asynccontextmanager
async def preset_world(preset: str, **changes: Any) -> AsyncIterator[World]:
    """A scripted agent with the preset, and some keys set on top of it."""
    async with open_world(**(PRESETS[preset] | changes)) as world:
        yield world


@asynccontextmanager
async def inbound_world(**changes: Any) -> AsyncIterator[World]:
    """As the preset, but every message makes a task."""
    async with preset_world(
        "openclaw-inbound", **({"agent_style": "task-generating"} | changes)
    ) as world:
        yield world


def user(*parts: Json | str, id: str = "m-1", **fields: Any) -> Json:
    shown = [{"kind": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"kind": "message", "messageId": id, "role": "user", "parts": shown} | fields


class Peer:
    def __init__(self, world: World, principal: str = "alice", path: str = PATH) -> None:
        self._world = world
        self._path = path
        self._headers = {
            "content-type": "application/json",
            "authorization": f"Bearer {KEYS[principal]}",
        }

    async def post(self, body: bytes, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Http(path=self._path, headers=self._headers | named, body=body)
        return await self._world.http.send(request)

    async def call(self, method: str, params: Any = None, **envelope: Any) -> Answer:
        """`params` may be None for a request without any."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method} | envelope
        if params is not None:
            body["params"] = params
        return await self.post(msgspec.json.encode(body))

    async def result(self, method: str, params: Any) -> Any:
        answer = await self.call(method, params)
        body = answer.json()
        assert (answer.status, set(body)) == (200, {"jsonrpc", "id", "result"}), body
        return body["result"]

    async def error(self, method: str, params: Any = None, **envelope: Any) -> Json:
        return error_in(await self.call(method, params, **envelope))

    async def send(self, *parts: Json | str, **fields: Any) -> Any:
        return await self.result("message/send", {"message": user(*parts, **fields)})

    async def stream(self, method: str, params: Any) -> list[Json]:
        """All events of a stream that ends by itself, each as its fields."""
        return events_in(await self.call(method, params))


def error_in(answer: Answer) -> Json:
    """The error of an answer, which comes with HTTP 200 like everything of JSON-RPC."""
    body = answer.json()
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert set(body) == {"jsonrpc", "id", "error"}, body
    error: Json = body["error"]
    return error


def events_in(answer: Answer) -> list[Json]:
    assert answer.headers["content-type"] == "text/event-stream", answer.body
    frames = [frame for frame in answer.body.decode().split("\n\n") if frame]
    return [dict(line.split(": ", 1) for line in frame.split("\n")) for frame in frames]
