"""Calls of agents to agents at a gateway with a hub: rights, budgets, audit and the report."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hub.audit_world import sound
from tests.hub.registry_world import CALLERS, HubWorld, hub_world, team

from trunkline.hub.audit_reading import AuditReader
from trunkline.hub.audit_rows import Line
from trunkline.hub.inbound import Inbound
from trunkline.model.principal import Grant, Principal

CODE = """\
from trunkline import agent


@agent
async def editor(turn):
    name = "acme/" + turn.text.split()[-1]
    if turn.text.startswith("batch"):
        return await turn.call_batch([{"agent": name, "input": "go"}] * 2)
    return await turn.call(name, turn.text)


@agent
async def asker(turn):
    return await turn.call("acme/researcher", "slowly", wait=False)


@agent
async def researcher(turn):
    if turn.text == "slowly":
        await turn.canceled()
    return "found"
"""


@pytest.fixture(autouse=True)
def erin(monkeypatch: pytest.MonkeyPatch) -> None:
    """She may call the editor alone."""
    known = Principal(id="user:erin", grants=(Grant("acme/editor"),))
    monkeypatch.setitem(CALLERS, "erin", known)


def agents(folder: Path, **researcher: Any) -> dict[str, Any]:
    found = team(folder, CODE, "editor", "researcher")
    found["acme/researcher"] |= researcher
    return found


async def asked(world: HubWorld, text: str = "ask researcher", *, by: str) -> dict[str, Any]:
    """What the editor got when it called another agent in the name of this caller."""
    answer = await world.ask("acme/editor", text, by=by)
    assert answer.status == 200, answer.body
    task = json.loads(answer.body)["result"]["task"]
    (part,) = task["artifacts"][0]["parts"]
    found: dict[str, Any] = part["data"]
    return found


async def rows(world: HubWorld) -> list[Line]:
    hub = world.gateway.hub
    assert hub is not None
    await hub.audit.writer.flush()
    await sound(hub.changes.store)
    return [line async for _, line, _ in AuditReader(hub.changes.store).stored()]


async def test_a_call_has_the_rights_of_the_caller_and_no_more(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        assert (await asked(world, by="operator"))["output"] == "found"
        refused = await asked(world, by="erin")
        assert refused["status"] == "forbidden"
        assert refused["error"]["code"] == "policy_denied"


async def test_a_call_is_a_row_of_the_audit_with_the_agent_that_asked(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        await asked(world, by="operator")
        await asked(world, by="erin")
        attempts = [row for row in await rows(world) if row.kind == "attempt"]
        assert [(row.agent, row.who, row.asked_by) for row in attempts] == [
            ("acme/editor", "user:operator", ""),
            ("acme/researcher", "user:operator", "acme/editor"),
            ("acme/editor", "user:erin", ""),
        ]
        (refusal,) = [row for row in await rows(world) if row.kind == "refusal"]
        assert (refusal.who, refusal.asked_by, refusal.reason) == (
            "user:erin",
            "acme/editor",
            "policy_denied",
        )


async def test_a_batch_is_a_row_of_the_audit_and_so_is_each_of_its_calls(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        assert (await asked(world, "batch researcher", by="operator"))["completedCount"] == 2
        refused = await asked(world, "batch researcher", by="erin")
        assert [each["error"]["code"] for each in refused["results"]] == ["policy_denied"] * 2
        attempts = [row for row in await rows(world) if row.kind == "attempt"]
        assert [(row.agent, row.who, row.asked_by) for row in attempts] == [
            ("acme/editor", "user:operator", ""),
            ("tool:agent_call_batch", "user:operator", "acme/editor"),
            ("acme/researcher", "user:operator", "acme/editor"),
            ("acme/researcher", "user:operator", "acme/editor"),
            ("acme/editor", "user:erin", ""),
            ("tool:agent_call_batch", "user:erin", "acme/editor"),
        ]
        refusals = [row for row in await rows(world) if row.kind == "refusal"]
        assert [(row.agent, row.reason) for row in refusals] == [
            ("acme/researcher", "policy_denied")
        ] * 2


async def test_the_report_names_the_agent_that_asked(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        await asked(world, by="operator")
        await rows(world)
        hub = world.gateway.hub
        assert hub is not None
        inbound = Inbound(world.clock)
        inbound.store = hub.changes.store
        report = await inbound.report("acme/researcher", days=1)
        assert [(each.login, each.count) for each in report.top_askers] == [("acme/editor", 1)]


async def test_a_call_spends_the_budget_of_the_called_agent(tmp_path: Path) -> None:
    limited = agents(tmp_path, limits={"daily_budget_queries": 1})
    async with hub_world(agents=limited) as world:
        assert (await asked(world, by="operator"))["status"] == "completed"
        over = await asked(world, by="operator")
        assert over["status"] == "error"
        assert over["error"]["code"] == "budget_exhausted"


async def test_a_private_agent_is_not_there_for_callers_that_may_not_call_it(
    tmp_path: Path,
) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        await world.create(slug="secret", visibility="private")
        hidden = await asked(world, "ask secret", by="erin")
        unknown = await asked(world, "ask nobody", by="erin")
        assert hidden["status"] == unknown["status"] == "not_found"
        assert (
            hidden["error"]["message"].replace("secret", "nobody") == (unknown["error"]["message"])
        )


async def test_the_calls_of_an_agent_that_is_deleted_are_discarded(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        backend = {"kind": "python", "target": f"{tmp_path / 'team.py'}:asker"}
        created = await world.create(slug="asker", backend=backend)
        await world.ask("acme/asker", "ask", by="operator")
        counts = world.gateway.routing.routing.counts
        assert (counts.begun, counts.ended["discarded"]) == (1, 0)
        answer = await world.call("DELETE", f"/agents/{created['id']}")
        assert answer.status in (200, 204)
        assert counts.ended["discarded"] == 1


async def test_a_call_takes_the_claim_of_the_called_agent(tmp_path: Path) -> None:
    """It works for one caller at a time, whoever asks in the name of whom."""
    async with hub_world(agents=agents(tmp_path, limits={"claim": True}, busy="fail")) as world:
        backend = {"kind": "python", "target": f"{tmp_path / 'team.py'}:asker"}
        await world.create(slug="asker", backend=backend)
        await world.ask("acme/asker", "ask", by="operator")
        other = await asked(world, by="acme")
        assert (other["status"], other["error"]["code"]) == ("error", "busy")
        counts = world.gateway.routing.routing.counts
        assert dict(counts.ended) == {"error": 1}
