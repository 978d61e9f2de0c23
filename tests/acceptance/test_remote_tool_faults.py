"""Followed sends of the tool through a proxy that cuts, delays, doubles, drops and garbles."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.acceptance.conftest import Make
from tests.acceptance.fault_proxy import FaultProxy, fault_proxy
from tests.acceptance.remote import WAYS, free_port
from tests.acceptance.test_remote_faults import ALL, AT_ONCE, EXPECTED, PIECES, QuickClock

from trunkline.clock import SystemClock, Uuid4Ids
from trunkline.remote import Agents, Limits, Target
from trunkline.remote.tool import RemoteAgentTool, ToolConfig, open_handles

# Many failures are what this is about.
PATIENT = Limits(reconnects=30, attempts=10, circuit_failures=1000)
REQUEST = {
    "action": "send",
    "target_alias": "peer",
    "parts": [{"kind": "text", "text": f"stream {PIECES} every 0.003"}],
    "follow_updates": True,
}


@asynccontextmanager
async def troubled(
    make: Make, way: tuple[str, str], limits: Limits, *, seed: int
) -> AsyncIterator[tuple[RemoteAgentTool, FaultProxy]]:
    """The tool, and between it and a gateway the proxy."""
    async with fault_proxy(ALL, seed=seed) as proxy:
        port = str(free_port())
        config = f'[server]\npublic_url = "{proxy.url}"\nmax_streams_per_principal = 1000'
        make(config).start("--port", port)
        proxy.upstream = f"http://127.0.0.1:{port}"
        target = Target(alias="peer", url=proxy.url, transports=(way[0],), version=way[1])
        settings = ToolConfig(enabled=True, targets=(target,))
        store = open_handles(None, durable=False)
        async with Agents(limits=limits, clock=QuickClock()) as peers:
            clock = SystemClock()
            yield (
                RemoteAgentTool(settings, peers=peers, handles=store, clock=clock, ids=Uuid4Ids()),
                proxy,
            )
        await store.close()


Seen = tuple[dict[str, Any], list[Any]]


async def follow_many(tool: RemoteAgentTool, count: int) -> list[Seen]:
    room = asyncio.Semaphore(AT_ONCE)

    async def follow() -> Seen:
        updates: list[Any] = []
        async with room:
            return await tool(REQUEST, on_update=updates.append), updates

    return await asyncio.gather(*[follow() for _ in range(count)])


def folded(events: list[dict[str, Any]]) -> str:
    """The text that somebody sees who follows the events."""
    text = ""
    for event in events:
        if event["kind"] == "task":
            text = "".join(_text(one) for one in event.get("artifacts", ()))
        elif event["kind"] == "artifact-update":
            piece = _text(event["artifact"])
            text = text + piece if event.get("append") else piece
    return text


def _text(artifact: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in artifact["parts"])


def check(result: dict[str, Any], updates: list[Any]) -> None:
    """Every piece once and in order, one task, the end; and the caller saw all of it."""
    assert result["summary"]["message_text"] == EXPECTED
    assert result["summary"]["continuation"]["task"]["status"] == "completed"
    events = result["raw"]["events"]
    assert folded(events) == EXPECTED
    pieces = [_text(e["artifact"]) for e in events if e["kind"] == "artifact-update"]
    assert len(pieces) == len(set(pieces))
    assert len({event.get("taskId", event.get("id")) for event in events}) == 1
    assert len(updates) == len(events)
    # The last one is an update, or the task itself if it ended while there was no connection.
    assert result["raw"]["finalEvent"] == events[-1]
    assert all(not event.get("final") for event in events[:-1])


async def run(make: Make, way: tuple[str, str], count: int) -> None:
    async with troubled(make, way, PATIENT, seed=count) as (tool, proxy):
        for result, updates in await follow_many(tool, count):
            assert result["ok"], result
            check(result, updates)
        wanted = [name for name in vars(ALL) if getattr(ALL, name) and name != "lose"]
        assert [name for name in wanted if not proxy.done[name]] == []


@pytest.mark.parametrize("way", WAYS, ids=["-".join(way) for way in WAYS])
async def test_no_event_of_a_followed_send_is_lost_or_doubled(
    make: Make, way: tuple[str, str]
) -> None:
    await run(make, way, 25)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS, ids=["-".join(way) for way in WAYS])
async def test_no_event_of_a_thousand_followed_sends_is_lost_or_doubled(
    make: Make, way: tuple[str, str]
) -> None:
    await run(make, way, 250)


async def test_every_failure_is_an_envelope(make: Make) -> None:
    """With as little patience as there can be, so that many fail."""
    hasty = Limits(reconnects=0, attempts=1, circuit_failures=3)
    async with troubled(make, WAYS[0], hasty, seed=5) as (tool, _):
        results = await follow_many(tool, 60)
    failed = [result for result, _ in results if not result["ok"]]
    for result, updates in results:
        if result["ok"]:
            check(result, updates)
    assert len(failed) > 10
    for result in failed:
        assert (result["operation"], result["action"]) == ("remote_agent", "send")
        error = result["error"]
        assert error["code"] == "A2A_SDK_ERROR", error
        assert error["message"]
        assert "Error" not in error["message"], "the name of an exception"
