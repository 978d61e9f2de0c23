"""`V1World`: the relay of a gateway in this process, its clients, and agents of protocol v1."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Answer, Http
from tests.bindings.world import KEYS
from tests.relay.gateways import RelayedWorld, open_relayed_world, relay_settings
from tests.relay.v1_agent import CARD, V1Agent
from tests.relay.wire import TextEnd

from trunkline.config.secret import Secret
from trunkline.ports.websocket import WebSocketClosed
from trunkline.settings.auth import ApiKey
from trunkline.settings.relay_server import RelayServerSettings
from trunkline.testing import settle

NAME = "old"
PATH = f"/t/acme/a2a/{NAME}"
URL = f"https://relay.example{PATH}"
AGENT_TOKEN = "the-token-of-the-older-agent"
READER = "the-reader-may-only-get-tasks"


class EndSocket:
    """The agent's end, as a socket of the library that agents use."""

    def __init__(self, end: TextEnd) -> None:
        self.end = end

    @property
    def close_code(self) -> int | None:
        return None if self.end.closed is None else self.end.closed.code

    async def send(self, message: str) -> None:
        await self.end.send(message)

    def __aiter__(self) -> "EndSocket":
        return self

    async def __anext__(self) -> str | bytes:
        try:
            return await self.end.receive()
        except WebSocketClosed:
            raise StopAsyncIteration from None

    async def close(self) -> None:
        await self.end.close()


class V1World:
    def __init__(self, world: RelayedWorld) -> None:
        self.world = world
        self.clock = world.clock

    @asynccontextmanager
    async def attach(self, *, card: Any = CARD) -> AsyncIterator[V1Agent]:
        end = await self.world.wire.connect_v1()
        socket = EndSocket(end)
        frame = {"type": "auth", "token": AGENT_TOKEN, "agent_card": card}
        await socket.send(json.dumps(frame))
        assert json.loads(await end.receive())["type"] == "auth_ok"
        agent = V1Agent(socket)
        serving = asyncio.get_running_loop().create_task(agent.serve())
        try:
            yield agent
        finally:
            await socket.close()
            await serving
            await settle()

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(600):
            await settle()
            if is_so():
                return
            await self.clock.advance(0.1)
        raise AssertionError("it does not happen within a minute")

    async def rpc(
        self,
        method: str,
        params: Any,
        *,
        key: str = KEYS["alice"],
        version: str = "",
        path: str = "",
    ) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"a2a-version": version} if version else {}
        answer = await self.post(path, body, key=key, **headers)
        return answer.json() | {"http": answer.status}

    def starting(self, method: str, params: Any, **options: Any) -> "asyncio.Task[Any]":
        """The same, under way."""
        return self.world.relay_tasks.start(self.rpc(method, params, **options), name="rpc")

    async def post(
        self, below: str, body: Any, *, key: str = KEYS["alice"], **headers: str
    ) -> Answer:
        request = Http(
            path=f"{PATH}{below}",
            headers={"authorization": f"Bearer {key}", "content-type": "application/json"}
            | {name.replace("_", "-"): value for name, value in headers.items()},
            body=body if isinstance(body, bytes) else json.dumps(body).encode(),
        )
        return await self.world.http.send(request)

    async def get(self, path: str, *, key: str = KEYS["alice"], version: str = "") -> Answer:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if version:
            headers["a2a-version"] = version
        return await self.world.http.send(Http(method="GET", path=path, headers=headers))

    async def task_in(self, id: str, state: str) -> Any:
        """The task, once it is in the state."""
        for _ in range(600):
            answer = await self.rpc("tasks/get", {"id": id})
            if "result" in answer and answer["result"]["status"]["state"] == state:
                return answer["result"]
            await self.clock.advance(0.1)
        raise AssertionError(f"the task is not {state} within a minute")

    async def events(self, method: str, params: Any) -> list[Any]:
        """All events of a stream, in A2A 0.3."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.post("", body, a2a_version="0.3")
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line.removeprefix("data: "))["result"] for line in lines]


@asynccontextmanager
async def open_v1_world(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[V1World]:
    plain = relay_settings()
    more = {
        "older": ApiKey(key=Secret(AGENT_TOKEN), attach=(f"acme/{NAME}",)),
        "reader": ApiKey(key=Secret(READER), grants={"acme/*": ("GetTask",)}),
    }
    at_relay = replace(
        plain,
        auth=replace(plain.auth, keys=plain.auth.keys | more),
        relay_server=RelayServerSettings(**{"wait_s": 0.0, **settings}),
    )
    async with open_relayed_world(monkeypatch, at_relay=at_relay) as world:
        yield V1World(world)


def message(text: str = "hi", **more: Any) -> dict[str, Any]:
    parts = [{"kind": "text", "text": text}]
    return {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": parts} | more}


def message_1_0(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]} | more}
