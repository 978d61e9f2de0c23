"""A gateway with an agent of the preset `hub`, called over a real socket as seed 003 calls it."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
from msgspec import Struct
from tests.bindings.world import HANDLE, KEYS, World, open_world
from tests.sockets.peer import DEADLINE_S, passes, serving

from trunkline.background import BackgroundTasks
from trunkline.settings.profiles import PRESETS

RPC = f"/api/a2a/v1/agents/{HANDLE}"
CARD = f"{RPC}/agent-card.json"


class Hub(Struct, frozen=True):
    world: World
    http: httpx.AsyncClient

    async def post(
        self,
        body: bytes | dict[str, Any],
        *,
        caller: str = "alice",
        headers: dict[str, str] | None = None,
        path: str = RPC,
    ) -> httpx.Response:
        """A request with the headers of the seed's samples and no others; an empty caller has no
        credential."""
        sent = {"Content-Type": "application/json"} | (headers or {})
        if caller:
            sent["Authorization"] = f"Bearer {KEYS[caller]}"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post(path, content=data, headers=sent)

    async def call(
        self, method: str, params: dict[str, Any], *, caller: str = "alice", **options: Any
    ) -> dict[str, Any]:
        """The whole answer to a request, in its envelope."""
        answer = await self.post(envelope(method, params), caller=caller, **options)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        found: dict[str, Any] = answer.json()
        assert found["jsonrpc"] == "2.0"
        assert found["id"] == "client-1"
        return found

    async def send(self, text: str, **options: Any) -> Any:
        return (await self.call("SendMessage", question(text), **options))["result"]

    async def get(self, task_id: str, **options: Any) -> dict[str, Any]:
        return await self.call("GetTask", {"id": task_id}, **options)

    async def stream(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """The events of a stream that is nothing but lines of data, each with a JSON object, and
        signs of life."""
        answer = await self.post(envelope("SendStreamingMessage", question(text)), **options)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        frames = answer.text.replace(": keep-alive\n\n", "").split("\n\n")
        assert frames.pop() == ""
        assert all(frame.startswith("data: {") and "\n" not in frame for frame in frames)
        return [json.loads(frame.removeprefix("data: ")) for frame in frames]

    @asynccontextmanager
    async def opened(
        self, method: str, params: dict[str, Any]
    ) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of a stream while it is open."""
        headers = {"Authorization": f"Bearer {KEYS['alice']}"}
        body = envelope(method, params)
        async with self.http.stream("POST", RPC, json=body, headers=headers) as answer:
            yield answer.aiter_lines()

    async def turns(self, count: int) -> None:
        """Wait until the agent has got so many messages."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.world.agent.turns) < count:
                await passes()

    def soon(self, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        return BackgroundTasks("test").start(call, name="call")

    async def answered(self, call: "asyncio.Task[Any]") -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return await call


@asynccontextmanager
async def open_hub(**options: Any) -> AsyncIterator[Hub]:
    async with (
        open_world(**(PRESETS["hub"] | options)) as world,
        serving(world.gateway.application.serve) as server,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{server.port}", timeout=DEADLINE_S, trust_env=False
        ) as http,
    ):
        yield Hub(world, http)


def envelope(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": "client-1"}


def question(text: str, *, id: str = "m1", **more: Any) -> dict[str, Any]:
    """The parameters of the seed's samples, all of which use the same id."""
    return {"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]} | more}
