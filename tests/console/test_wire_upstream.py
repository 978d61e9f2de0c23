"""Both wires of an agent whose backend is another gateway: ours, and the one to that gateway."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.hub.registry_world import Callers, HubWorld, hub_world, settings
from tests.sockets.conftest import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories
from tests.sockets.peer import serving

from trunkline.app.gateway import Gateway, build
from trunkline.hub.agent_views import configured_id
from trunkline.server.http import Request, Response
from trunkline.testing import FakeClock

ECHO: dict[str, Any] = {"name": "Echo", "backend": {"kind": "echo"}}
SECRET = "sesame-open-7f3a9"


@asynccontextmanager
async def pair(**backend: Any) -> AsyncIterator[HubWorld]:
    """A gateway whose agent `acme/front` is the agent `acme/echo` of another gateway."""
    upstream: Gateway | None = None

    async def serve(request: Request, response: Response) -> None:
        assert upstream is not None
        await upstream.application.serve(request, response)

    async with serving(serve) as server:
        url = f"http://127.0.0.1:{server.port}"
        upstream = build(
            settings(agents={"acme/echo": ECHO}),
            base_url=url,
            clock=FakeClock(),
            authenticators=(Callers(),),
        )
        await upstream.open()
        table = {
            "kind": "a2a",
            "url": f"{url}/api/a2a/v1/agents/acme/echo",
            "headers": {"Authorization": "Bearer dave", "X-Team-Secret": SECRET},
            "on_unreachable": "fail",
        }
        front = {"acme/front": {"name": "Front", "backend": table | backend}}
        try:
            async with hub_world(agents=front) as world:
                yield world
        finally:
            await upstream.close()


async def records(world: HubWorld, query: str = "") -> list[dict[str, Any]]:
    answer = await world.call("GET", "/wire", query=query)
    assert answer.status == 200, answer.body
    summaries = answer.json()["items"]
    found = [await world.call("GET", f"/wire/{each['id']}") for each in summaries]
    return [each.json() for each in found]


async def record(world: HubWorld, handle: str) -> None:
    answer = await world.call("PUT", f"/wire/agents/{configured_id(handle)}", {"on": True})
    assert answer.status == 200, answer.body


async def test_both_wires_are_recorded_and_the_upstream_request_names_its_parent() -> None:
    async with pair() as world:
        await record(world, "acme/front")
        answer = await world.send("acme/front", by="operator")
        assert answer.status == 200
        task = answer.json()["result"]["task"]
        found = await records(world)
        served = [each for each in found if each["side"] == "server"]
        sent = [each for each in found if each["side"] == "client"]
        assert [(each["operation"], each["binding"]) for each in served] == [
            ("SendMessage", "jsonrpc")
        ]
        assert served[0]["taskId"] == task["id"]
        assert served[0]["contextId"] == task["contextId"]
        (call,) = [each for each in sent if each["httpMethod"] == "POST"]
        assert call["parent"] == served[0]["id"]
        assert (call["taskId"], call["contextId"]) == (task["id"], task["contextId"])
        assert call["agent"] == "acme/front"
        assert call["status"] == 200
        assert call["frames"], call
        assert SECRET not in json.dumps(found)
        assert "dave" not in json.dumps(sent)
        print(json.dumps(found, indent=1))
