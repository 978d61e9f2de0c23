"""The inbound report and refused requests, over HTTP, as owners and strangers meet them."""

from typing import Any

from tests.hub.audit_world import sound
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.hub.audit_reading import AuditReader
from trunkline.hub.audit_rows import Line


async def flushed(world: HubWorld) -> list[Line]:
    hub = world.gateway.hub
    assert hub is not None
    await hub.audit.writer.flush()
    await sound(hub.changes.store)
    return [line async for _, line, _ in AuditReader(hub.changes.store).stored()]


async def report(world: HubWorld, agent: dict[str, Any], *, query: str = "") -> dict[str, Any]:
    await flushed(world)
    answer = await world.call("GET", f"/agents/{agent['id']}/inbound", by="acme", query=query)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()
    return found


async def test_h_24_h_25_the_report_has_the_shape_of_the_hub() -> None:
    async with hub_world() as world:
        agent = await world.create()
        assert (await world.send("acme/echo", by="carol")).status == 200
        assert (await world.send("acme/echo", by="reader", method="GetTask")).status == 200
        found = await report(world, agent)
        recent = found.pop("recent")
        *before, today = found.pop("daily")
        assert (before[0]["date"], len(before)) == ("2025-06-09", 6)
        assert {day["total"] for day in before} == {0}
        assert today == {
            "date": "2025-06-15",
            "total": 1,
            "ok": 1,
            "denied": 0,
            "avgLatencyMs": 0,
        }
        assert found == {
            "window": {"days": 7, "since": "2025-06-09T00:00:00.000Z"},
            "summary": {
                "total": 1,
                "ok": 1,
                "denied": 0,
                "avgLatencyMs": 0,
                "distinctAskers": 1,
            },
            "topAskers": [{"login": "carol", "count": 1, "lastAt": "2025-06-15T15:06:40.000Z"}],
        }
        ((call),) = recent
        assert call.pop("routeId").count("-") == 4
        assert call == {
            "ts": "2025-06-15T15:06:40.000Z",
            "askerLogin": "carol",
            "ok": True,
            "latencyMs": 0,
            "question": None,
            "deniedReason": None,
        }


async def test_only_those_who_manage_an_agent_see_who_calls_it() -> None:
    async with hub_world() as world:
        agent = await world.create(visibility="private")
        path = f"/agents/{agent['id']}/inbound"
        unknown = await world.call("GET", "/agents/agt_unknown/inbound", by="carol")
        for by, status in (("operator", 200), ("acme", 200), ("dave", 403), ("", 401)):
            assert (await world.call("GET", path, by=by)).status == status
        hidden = await world.call("GET", path, by="carol")
        assert (hidden.status, hidden.body) == (404, unknown.body)


async def test_the_days_of_a_report_are_bounded() -> None:
    async with hub_world() as world:
        agent = await world.create()
        assert (await report(world, agent, query="days=30"))["window"]["days"] == 30
        for days in ("0", "31", "x", "-1"):
            path = f"/agents/{agent['id']}/inbound"
            answer = await world.call("GET", path, by="acme", query=f"days={days}")
            assert answer.status == 400
            assert b"days" in answer.body


async def test_refused_credentials_are_rows_and_anonymous_ones_are_public() -> None:
    async with hub_world() as world:
        agent = await world.create()
        await world.send("acme/echo", by="nobody")
        await world.send("acme/echo", by="reader", method="ListTasks")
        await world.call("GET", "/agents/x/inbound", by="nobody")
        rows = [row for row in await flushed(world) if row.kind == "refusal"]
        assert [(row.who, row.agent, row.operation, row.reason) for row in rows] == [
            ("", "acme/echo", "", "unauthenticated"),
            ("", "", "GET /api/v1/agents/x/inbound", "unauthenticated"),
        ]
        found = await report(world, agent)
        assert found["topAskers"][0]["login"] == "(public)"
        assert found["summary"] | {"distinctAskers": 0} == {
            "total": 1,
            "ok": 0,
            "denied": 1,
            "avgLatencyMs": None,
            "distinctAskers": 0,
        }


async def test_a_private_agent_is_no_secret_to_its_own_audit() -> None:
    async with hub_world() as world:
        agent = await world.create(visibility="private")
        assert (await world.send("acme/echo", by="carol")).status == 404
        found = await report(world, agent)
        assert [each["deniedReason"] for each in found["recent"]] == ["not_found"]


async def test_each_change_of_the_hub_is_a_row_with_the_one_who_made_it() -> None:
    async with hub_world() as world:
        agent = await world.create()
        path = f"/agents/{agent['id']}"
        answer = await world.call("PATCH", path, {"status": "draft"}, by="acme")
        assert answer.status == 200
        assert (await world.call("DELETE", path, by="dave")).status in (403, 404)
        rows = [row for row in await flushed(world) if row.kind == "change"]
        assert [(row.who, row.action) for row in rows] == [
            ("user:operator", "create_agent"),
            ("user:acme", "change_agent"),
        ]
        assert len({row.subject for row in rows}) == 1
