"""Peers that misbehave, seen by the tool: an envelope within its limit, never an exception."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.acceptance.raw_peer import (
    STREAM,
    TASK,
    Asked,
    Handler,
    RawPeer,
    event,
    raw_peer,
    result,
)
from tests.acceptance.remote import free_port
from tests.acceptance.test_remote_bad_peers import (
    BAD_ANSWERS,
    LARGE,
    drips,
    endless,
    says_nothing,
    writes,
)
from tests.acceptance.test_remote_faults import QuickClock

from trunkline.clock import SystemClock, Uuid4Ids
from trunkline.remote import Agents, Limits
from trunkline.remote.tool import MemoryHandles, RemoteAgentTool, parse_config

TEXT = [{"kind": "text", "text": "hi"}]
REQUESTS: dict[str, dict[str, Any]] = {
    "send": {"action": "send", "parts": TEXT},
    "followed": {"action": "send", "parts": TEXT, "follow_updates": True},
    "required": {"action": "send", "parts": TEXT, "task_requirement": "required"},
    "awaited": {"action": "send", "parts": TEXT, "wait_timeout_ms": 400},
    "watch": {"action": "watch", "task_id": "t"},
    "status": {"action": "status", "task_id": "t"},
    "cancel": {"action": "cancel", "task_id": "t"},
}


@asynccontextmanager
async def tool_at(url: str, **defaults: int) -> AsyncIterator[RemoteAgentTool]:
    targets = [{"alias": "peer", "baseUrl": url, "default": True}]
    config = parse_config({"enabled": True, "targets": targets, "defaults": defaults})
    async with Agents(limits=Limits(attempts=1, reconnects=1), clock=QuickClock()) as peers:
        handles, clock = MemoryHandles(), SystemClock()
        yield RemoteAgentTool(config, peers=peers, handles=handles, clock=clock, ids=Uuid4Ids())


@asynccontextmanager
async def peer_and_tool(
    handler: Handler, *, has_card: bool = True, **defaults: int
) -> AsyncIterator[tuple[RawPeer, RemoteAgentTool]]:
    async with raw_peer(handler, has_card=has_card) as peer:
        if has_card:
            peer.card["capabilities"] = {"streaming": True}
        async with tool_at(peer.url, **defaults) as tool:
            yield peer, tool


def error_of(envelope: dict[str, Any], action: str) -> dict[str, Any]:
    assert (envelope["ok"], envelope["operation"]) == (False, "remote_agent")
    assert envelope["action"] == action
    error: dict[str, Any] = envelope["error"]
    assert error["message"]
    assert "Traceback" not in json.dumps(envelope)
    return error


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_an_answer_that_makes_no_sense(name: str) -> None:
    handler, reason = BAD_ANSWERS[name]
    async with peer_and_tool(handler) as (_, tool):
        for request in REQUESTS.values():
            error = error_of(await tool(request), request["action"])
            assert error["code"] == "A2A_SDK_ERROR"
            assert error["details"]["reason"] == reason
            assert ("capability_diagnostics" in error["details"]) == (request["action"] == "send")


@pytest.mark.parametrize("name", [name for name in BAD_ANSWERS if name != "not-a2a"])
async def test_a_card_that_makes_no_sense(name: str) -> None:
    handler, reason = BAD_ANSWERS[name]
    if reason in ("BAD_ANSWER", "WRONG_TYPE") and name != "compressed":
        reason = "BAD_CARD"
    async with peer_and_tool(handler, has_card=False) as (peer, tool):
        error = error_of(await tool(REQUESTS["send"]), "send")
        assert (error["code"], error["details"]["reason"]) == ("A2A_SDK_ERROR", reason)
        listed = await tool({"action": "list_targets"})
        assert listed["ok"]
        (entry,) = listed["summary"]["targets"]
        # Nothing is known of it, so that every list of the card is empty.
        assert entry["peer_card"] == {
            "capabilities": {},
            "default_input_modes": [],
            "default_output_modes": [],
            "skills": [],
            "additional_interfaces": [],
        }
        assert entry["last_refresh_error"]["code"] == "A2A_SDK_ERROR"
        assert all(asked.method == "GET" for asked in peer.asked), "nothing was sent to it"


async def test_a_card_of_30_mb_without_a_length() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + LARGE
    async with peer_and_tool(writes(data, closes=True), has_card=False) as (_, tool):
        error = error_of(await tool(REQUESTS["status"]), "status")
        assert error["details"]["reason"] == "TOO_LARGE"


@pytest.mark.parametrize("handler", [drips, says_nothing], ids=["drips", "silent"])
@pytest.mark.parametrize("has_card", [True, False], ids=["call", "card"])
async def test_a_peer_that_takes_too_long(handler: Handler, has_card: bool) -> None:
    async with peer_and_tool(handler, has_card=has_card, timeoutMs=300) as (_, tool):
        for request in REQUESTS.values():
            error = error_of(await tool(request), request["action"])
            assert (error["code"], error["message"]) == ("A2A_SDK_ERROR", "request timed out")
            assert error["details"]["reason"] == "TIMEOUT"


@pytest.mark.parametrize("name", ["followed", "watch"])
async def test_a_stream_without_end_says_how_to_go_on(name: str) -> None:
    request = REQUESTS[name]
    async with peer_and_tool(endless, timeoutMs=5000, maxStreamMs=300) as (_, tool):
        error = error_of(await tool(request), request["action"])
    assert error["message"] == "the stream reached its overall time limit"
    details = error["details"]
    assert (details["reason"], details["task_id"]) == ("STREAM_LIMIT", "t")
    assert details["partial_event_count"] > 1
    assert details["continuation"]["task"]["can_watch"] is True


async def test_a_stream_with_too_many_events() -> None:
    async with peer_and_tool(endless, maxStreamEvents=20) as (_, tool):
        error = error_of(await tool(REQUESTS["followed"]), "send")
    assert error["message"] == "the stream brought more than 20 events"


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"", "STREAM_CUT"),
        (b'data: {"jsonrpc":"2.0","id', "STREAM_CUT"),
        (b"data: {garbage\n\n", "BAD_ANSWER"),
        (b"data: <html>\n\n", "BAD_ANSWER"),
        (b'data: {"jsonrpc":"2.0","id":"x","result":{}}\n\n', "BAD_ANSWER"),
    ],
    ids=["cut", "cut-within", "garbage", "html", "wrong-id"],
)
async def test_a_stream_that_breaks_says_what_it_saw(tail: bytes, reason: str) -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}) + tail)
        await writer.drain()
        writer.close()

    async with peer_and_tool(handle) as (_, tool):
        updates: list[Any] = []
        error = error_of(await tool(REQUESTS["followed"], on_update=updates.append), "send")
    details = error["details"]
    assert (error["code"], details["reason"]) == ("A2A_SDK_ERROR", reason)
    assert (details["task_id"], details["suggested_action"]) == ("t", "status")
    assert details["partial_event_count"] == len(updates) == 1
    assert details["task_handle"] == details["continuation"]["task"]["task_handle"]


async def test_an_answer_about_another_task() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.rpc == "SubscribeToTask":
            writer.write(STREAM + event(asked, {"task": TASK}))
        else:
            writer.write(result(asked, TASK))

    async with peer_and_tool(handle) as (_, tool):
        for action in ("status", "cancel", "watch"):
            error = error_of(await tool({"action": action, "task_id": "mine"}), action)
            assert error["details"]["reason"] == "BAD_ANSWER"
            assert "another task" in error["message"]


async def test_nobody_there() -> None:
    async with tool_at(f"http://127.0.0.1:{free_port()}") as tool:
        for request in REQUESTS.values():
            error = error_of(await tool(request), request["action"])
            # After five of them it is left alone for a while.
            assert error["details"]["reason"] in ("CONNECTION_FAILED", "CIRCUIT_OPEN")
        (entry,) = (await tool({"action": "list_targets"}))["summary"]["targets"]
        assert entry["last_refresh_error"]["message"]
