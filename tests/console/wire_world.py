"""What an operator of a gateway with a hub does with the wire log."""

import json
from typing import Any, Final

from tests.bindings.asgi import Answer
from tests.hub.registry_world import HubWorld

from trunkline.hub.agent_views import configured_id

ECHO: Final[dict[str, Any]] = {"name": "Echo", "backend": {"kind": "echo"}}
SCRIPTED: Final[dict[str, Any]] = {"name": "Scripted", "backend": {"kind": "scripted"}}


async def switch(world: HubWorld, handle: str, **body: Any) -> Any:
    path = f"/wire/agents/{configured_id(handle)}"
    answer = await world.call("PUT", path, {"on": True} | body)
    assert answer.status == 200, answer.body
    return answer.json()


async def summaries(world: HubWorld, query: str = "") -> list[dict[str, Any]]:
    answer = await world.call("GET", "/wire", query=query)
    assert answer.status == 200, answer.body
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def records(world: HubWorld, query: str = "") -> list[dict[str, Any]]:
    found = []
    for each in await summaries(world, query):
        answer = await world.call("GET", f"/wire/{each['id']}")
        assert answer.status == 200, answer.body
        record = answer.json()
        assert {name: record[name] for name in each} == each
        found.append(record)
    return found


async def inject(world: HubWorld, handle: str, **fault: Any) -> Answer:
    return await world.call("PUT", f"/agents/{configured_id(handle)}/fault", fault)


def call_of(record: dict[str, Any]) -> Any:
    return json.loads(record["requestBody"]["text"])
