"""The routes of the wire log and of faults: for operators, with pages, a search and a download."""

import json
from typing import Any

import pytest
from tests.console.wire_world import ECHO, inject, records, summaries, switch
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.hub.agent_views import configured_id
from trunkline.model.findings import Finding

AGENTS: dict[str, Any] = {"acme/echo": ECHO, "acme/other": ECHO}
ID = configured_id("acme/echo")


async def send(world: HubWorld, text: str, handle: str = "acme/echo") -> Any:
    answer = await world.ask(handle, text, by="operator")
    assert answer.status == 200, answer.body
    return answer.json()["result"]["task"]


async def test_an_operator_switches_the_recording_on_and_off() -> None:
    async with hub_world(agents=AGENTS) as world:
        answer = await world.call("GET", "/wire/settings")
        assert answer.json() == {
            "agents": [
                {"id": ID, "handle": "acme/echo", "on": False, "until": None},
                {
                    "id": configured_id("acme/other"),
                    "handle": "acme/other",
                    "on": False,
                    "until": None,
                },
            ],
            "bytes": 0,
            "maxBytes": 32 * 1024 * 1024,
            "records": 0,
            "dropped": 0,
        }
        on = await switch(world, "acme/echo", minutes=10)
        assert on == {
            "id": ID,
            "handle": "acme/echo",
            "on": True,
            "until": "2025-06-15T15:16:40.000Z",
        }
        await send(world, "hello")
        await send(world, "hello", "acme/other")
        assert [each["agent"] for each in await summaries(world)] == ["acme/echo"]
        now = (await world.call("GET", "/wire/settings")).json()
        assert now["records"] == 1
        assert 2000 < now["bytes"] < 20_000
        assert (await switch(world, "acme/echo", on=False))["on"] is False
        await send(world, "hello")
        assert len(await summaries(world)) == 1
        assert (await world.call("DELETE", "/wire")).status == 204
        assert await summaries(world) == []
        now = (await world.call("GET", "/wire/settings")).json()
        assert (now["records"], now["bytes"]) == (0, 0)


async def test_pages_filters_and_search() -> None:
    async with hub_world(agents=AGENTS) as world:
        await switch(world, "acme/echo")
        await switch(world, "acme/other")
        tasks = [await send(world, f"text number {n}") for n in range(5)]
        await send(world, "Needle in a haystack", "acme/other")
        first = (await world.call("GET", "/wire", query="limit=4")).json()
        assert len(first["items"]) == 4
        after = first["nextAfter"]
        rest = (await world.call("GET", "/wire", query=f"limit=4&after={after}")).json()
        assert rest["nextAfter"] is None
        ids = [each["id"] for each in (*first["items"], *rest["items"])]
        assert ids == sorted(ids)
        assert len(ids) == 6
        (found,) = await summaries(world, f"taskId={tasks[2]['id']}")
        assert found["taskId"] == tasks[2]["id"]
        (found,) = await summaries(world, "q=nEEdle%20in")
        assert found["agent"] == "acme/other"
        assert len(await summaries(world, "agent=acme/echo")) == 5
        assert len(await summaries(world, "side=client")) == 0
        assert len(await summaries(world, "q=no.such.text")) == 0
        for query in ("limit=0", "limit=501", "side=both", "after=%2F"):
            assert (await world.call("GET", "/wire", query=query)).status == 400, query


async def test_a_download_holds_all_records_of_a_task() -> None:
    async with hub_world(agents=AGENTS) as world:
        await switch(world, "acme/echo")
        task = await send(world, "hello")
        await send(world, "hello")
        answer = await world.call("GET", "/wire/export", query=f"taskId={task['id']}")
        assert answer.headers["content-disposition"].startswith("attachment")
        session = answer.json()
        assert (session["format"], session["tasks"]) == ("trunkline-session.1", [])
        assert session["gateway"] == "https://gateway.example"
        (record,) = session["records"]
        full = (await world.call("GET", f"/wire/{record['id']}")).json()
        assert record | {"findings": full["findings"]} == full
        assert len((await world.call("GET", "/wire/export")).json()["records"]) == 2
        empty = (await world.call("GET", "/wire/export", query="agent=no/body")).json()
        assert empty["records"] == []


ROUTES = [
    ("GET", "/wire", None),
    ("DELETE", "/wire", None),
    ("GET", "/wire/settings", None),
    ("GET", "/wire/export", None),
    ("GET", "/wire/some-id", None),
    ("PUT", f"/wire/agents/{ID}", {"on": True}),
    ("PUT", "/wire/agents/no-such-agent", {"on": True}),
    ("GET", f"/agents/{ID}/fault", None),
    ("PUT", f"/agents/{ID}/fault", {"delayMs": 1}),
    ("DELETE", f"/agents/{ID}/fault", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
@pytest.mark.parametrize(("by", "status"), [("", 401), ("acme", 403), ("carol", 403)])
async def test_the_routes_are_for_operators(
    method: str, path: str, body: object, by: str, status: int
) -> None:
    async with hub_world(agents=AGENTS) as world:
        answer = await world.call(method, path, body, by=by)
        assert answer.status == status
        assert world.gateway.wire.control.recordings == {}
        assert world.gateway.endpoints[0].tap is None


async def test_what_is_not_there() -> None:
    async with hub_world(agents=AGENTS) as world:
        assert (await world.call("GET", "/wire/no-such-record")).status == 404
        path = "/wire/agents/agt_00000000000000000000000000000000"
        assert (await world.call("PUT", path, {"on": True})).status == 404
        assert (await world.call("GET", "/agents/agt_0/fault")).status == 404
        for body in ({}, {"on": 1}, {"on": True, "minutes": 0}, {"on": True, "hours": 1}):
            answer = await world.call("PUT", f"/wire/agents/{ID}", body)
            assert answer.status == 400, body


async def test_an_agent_of_the_registry_by_its_id() -> None:
    async with hub_world() as world:
        created = await world.create(slug="echo")
        path = f"/wire/agents/{created['id']}"
        answer = await world.call("PUT", path, {"on": True})
        assert answer.json()["handle"] == "acme/echo"
        listed = (await world.call("GET", "/wire/settings")).json()["agents"]
        assert listed == [answer.json()]
        await send(world, "hello")
        (record,) = await records(world)
        assert record["agent"] == "acme/echo"
        assert record["principal"] == "user:operator"


async def test_findings_come_from_the_check_that_is_connected() -> None:
    async with hub_world(agents=AGENTS) as world:
        await switch(world, "acme/echo")
        await send(world, "hello")
        finding = Finding(rule="A2A 1.0 §3.1.2", severity="note", pointer="/params", text="so")
        world.gateway.wire.api.check = lambda record: [finding] if record.task_id else []
        (record,) = await records(world)
        assert record["findings"] == [
            {"rule": "A2A 1.0 §3.1.2", "severity": "note", "pointer": "/params", "text": "so"}
        ]


async def test_faults_are_refused_where_others_can_reach_the_gateway() -> None:
    server = {"host": "0.0.0.0"}
    auth = {"keys": {"ci": {"key": "a-key-that-is-long-enough"}}}
    async with hub_world(agents=AGENTS, server=server, auth=auth) as world:
        answer = await inject(world, "acme/echo", delayMs=10)
        assert answer.status == 403
        text = answer.json()["error"]["message"]
        assert "loopback" in text
        assert "0.0.0.0" in text
        assert world.gateway.endpoints[0].tap is None


async def test_a_fault_is_shown_replaced_and_ended() -> None:
    async with hub_world(agents=AGENTS) as world:
        none = {
            "on": False,
            "delayMs": 0,
            "cutAfterEvents": None,
            "duplicateEvery": 0,
            "until": None,
        }
        path = f"/agents/{ID}/fault"
        assert (await world.call("GET", path)).json() == none
        answer = await inject(world, "acme/echo", delayMs=10, cutAfterEvents=0)
        assert answer.json() == {
            "on": True,
            "delayMs": 10,
            "cutAfterEvents": 0,
            "duplicateEvery": 0,
            "until": "2025-06-15T15:07:40.000Z",
        }
        await world.clock.advance(30)
        await inject(world, "acme/echo", duplicateEvery=2, seconds=600)
        await world.clock.advance(31)
        shown = (await world.call("GET", path)).json()
        assert (shown["duplicateEvery"], shown["delayMs"]) == (2, 0)
        assert (await world.call("DELETE", path)).status == 204
        assert (await world.call("GET", path)).json() == none
        assert (await world.call("DELETE", path)).status == 204
        bad: tuple[dict[str, Any], ...] = (
            {},
            {"delayMs": -1},
            {"delayMs": 10, "seconds": 601},
            {"delayMs": 10, "seconds": 0},
            {"delayMs": 10**9},
            {"cutAfterEvents": -1},
            {"drop": True},
        )
        for fault in bad:
            assert (await inject(world, "acme/echo", **fault)).status == 400, fault
        assert json.loads((await world.call("GET", path)).body) == none
