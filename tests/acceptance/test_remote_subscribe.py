"""How a subscription of our client begins and when it is over, against peers byte by byte."""

import asyncio
from typing import Any

import pytest
from tests.acceptance.raw_peer import (
    CHUNKED,
    TASK,
    Asked,
    Handler,
    RawPeer,
    chunk,
    event,
    piece,
    raw_peer,
    result,
    status,
)
from tests.acceptance.remote import Sleepless, collected, folded, state_of

from trunkline.model.values import Task, TaskState
from trunkline.remote import connect
from trunkline.remote.tool import open_remote_agent

END = b"0\r\n\r\n"
WORKING = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}
ABOUT = {"taskId": "t", "contextId": "c"}


def at(second: int, state: str = "working", text: str = "") -> dict[str, Any]:
    own: dict[str, Any] = {"state": state, "timestamp": f"2026-01-01T00:00:{second:02}Z"}
    if text:
        parts = [{"kind": "text", "text": text}]
        own["message"] = {"kind": "message", "messageId": text, "role": "agent", "parts": parts}
    return own


def moved(status: dict[str, Any], *, final: bool = False) -> dict[str, Any]:
    return ABOUT | {"kind": "status-update", "status": status, "final": final}


def streams(*events: object) -> Handler:
    """Every stream has these events and then ends as it should."""

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        frames = b"".join(event(asked, one) for one in events)
        writer.write(CHUNKED + (chunk(frames) if frames else b"") + END)

    return handle


def speaks_0_3(peer: RawPeer) -> None:
    peer.card["supportedInterfaces"] = [peer.interface(protocolVersion="0.3")]


def calls(peer: RawPeer) -> list[str]:
    return [asked.rpc for asked in peer.asked if asked.method == "POST"]


async def test_a_task_that_nobody_works_on_is_one_snapshot_at_once() -> None:
    """A peer that shows the task and closes has told all: asked once more, without a pause."""
    clock = Sleepless()
    async with (
        raw_peer(streams({"task": TASK})) as peer,
        connect(peer.url, clock=clock) as agent,
    ):
        items = await collected(agent.subscribe("t"))
    assert [state_of(item) for item in items] == [TaskState.WORKING]
    assert calls(peer) == ["SubscribeToTask"] * 2
    assert clock.slept == []


async def test_a_task_of_0_3_that_nobody_works_on_is_one_snapshot_at_once() -> None:
    clock = Sleepless()
    async with raw_peer(streams(WORKING)) as peer:
        speaks_0_3(peer)
        async with connect(peer.url, clock=clock) as agent:
            items = await collected(agent.subscribe("t"))
    assert [state_of(item) for item in items] == [TaskState.WORKING]
    assert calls(peer) == ["tasks/resubscribe"] * 2
    assert clock.slept == []


async def test_the_tool_is_told_of_it_too() -> None:
    async with raw_peer(streams({"task": TASK})) as peer:
        peer.card["capabilities"] = {"streaming": True}
        plugin = {"enabled": True, "targets": [{"alias": "peer", "baseUrl": peer.url}]}
        async with open_remote_agent(plugin, clock=Sleepless()) as tool:
            told = await tool({"action": "watch", "target_alias": "peer", "task_id": "t"})
    assert told["ok"], told
    assert [one["kind"] for one in told["raw"]["events"]] == ["task"]
    assert told["summary"]["continuation"]["task"]["status"] == "working"


async def test_a_stream_of_nothing_is_over_at_once() -> None:
    clock = Sleepless()
    async with raw_peer(streams()) as peer, connect(peer.url, clock=clock) as agent:
        assert await collected(agent.subscribe("t")) == []
    assert calls(peer) == ["SubscribeToTask"] * 2
    assert clock.slept == []


async def test_a_stream_that_ends_early_goes_on_while_there_is_news() -> None:
    """The end of one connection proves nothing while the task moves."""
    texts = iter(["1", "12", "123"])

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        text = next(texts, "")
        if text:
            artifact = {"artifactId": "a", "parts": [{"text": text}]}
            task = {"task": TASK | {"artifacts": [artifact]}}
            writer.write(CHUNKED + chunk(event(asked, task)) + END)
            return
        frames = event(asked, piece("4")) + event(asked, status("COMPLETED"))
        writer.write(CHUNKED + chunk(frames) + END)

    async with raw_peer(handle) as peer, connect(peer.url, clock=Sleepless()) as agent:
        items = await collected(agent.subscribe("t"))
    assert folded(items) == "1234"
    assert state_of(items[-1]) is TaskState.COMPLETED


async def test_a_snapshot_of_0_3_is_the_one_of_the_stream() -> None:
    """By the time the task itself could be asked for, the stream is behind it."""
    asked_for: list[str] = []

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        asked_for.append(asked.rpc)
        if asked.rpc == "tasks/get":
            writer.write(result(asked, WORKING | {"status": at(3, text="third")}))
            return
        events = [
            WORKING | {"status": at(1, "submitted")},
            moved(at(2, text="second")),
            moved(at(3, text="third")),
            moved(at(4, "completed"), final=True),
        ]
        writer.write(CHUNKED + chunk(b"".join(event(asked, one) for one in events)) + END)

    async with raw_peer(handle) as peer:
        speaks_0_3(peer)
        async with connect(peer.url) as agent:
            items = await collected(agent.subscribe("t"))
    times = [item.status.timestamp[17:19] for item in items if hasattr(item, "status")]
    assert times == ["01", "02", "03", "04"]
    assert asked_for == ["tasks/resubscribe"]


@pytest.mark.parametrize("has_snapshot", [False, True], ids=["none", "late"])
async def test_a_silent_stream_of_0_3_is_preceded_by_the_task(has_snapshot: bool) -> None:
    """Whoever watches a silent peer is shown where the task stands, and nothing older after."""
    is_shown = asyncio.Event()

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.rpc == "tasks/get":
            writer.write(result(asked, WORKING | {"status": at(3, text="third")}))
            return
        writer.write(CHUNKED)
        await writer.drain()
        await is_shown.wait()
        older = [WORKING | {"status": at(1, "submitted")}, moved(at(2, text="second"))]
        events = [
            *(older if has_snapshot else []),
            moved(at(3, text="third")),
            moved(at(4, "completed"), final=True),
        ]
        writer.write(chunk(b"".join(event(asked, one) for one in events)) + END)

    async with raw_peer(handle) as peer:
        speaks_0_3(peer)
        async with connect(peer.url) as agent:
            items = []
            async for item in agent.subscribe("t"):
                items.append(item)
                is_shown.set()
    assert isinstance(items[0], Task)
    times = [item.status.timestamp[17:19] for item in items if hasattr(item, "status")]
    assert times == ["03", "04"]
