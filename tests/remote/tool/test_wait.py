"""Item 3, O-10: a send that waits for the task, and WAIT_TIMEOUT."""

import asyncio
from typing import Any

import pytest
from tests.remote.tool.world import (
    HELLO,
    SUPPORT,
    World,
    artifact,
    card,
    made,
    message,
    moved,
    supported,
    task,
)

from trunkline.model.values import TaskState
from trunkline.remote.errors import PeerRefused, PeerUnreachable, RemoteError, StreamEnded
from trunkline.testing import settle

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED
WAIT: dict[str, Any] = {"action": "send", "parts": HELLO, "wait_timeout_ms": 5000}


async def waited(world: World, *steps: float, **more: Any) -> dict[str, Any]:
    work = asyncio.gather(world(**WAIT, **more))
    for step in steps:
        await world.clock.advance(step)
    assert work.done()
    return (await work)[0]


async def test_wait_a_task_that_is_done_is_not_waited_for() -> None:
    world = supported(send=task(COMPLETED))
    assert (await waited(world, 0))["ok"]
    assert world.peers.requests() == ["card", "send"]


async def test_wait_a_message_is_the_answer() -> None:
    result = await waited(supported(send=message("hi")), 0)
    assert result["summary"]["message_text"] == "hi"


async def test_wait_by_stream() -> None:
    events = [task(WORKING), made(artifact("a")), moved(COMPLETED)]
    world = supported(send=task(WORKING), subscribe=events)
    result = await waited(world, 0, blocking=True)
    assert world.peers.requests() == ["card", "send", "subscribe"]
    configuration = world.peers.sent().configuration
    assert configuration is not None
    assert configuration.return_immediately is True
    # One task, with all that came in pieces.
    assert result["raw"]["kind"] == "task"
    assert result["raw"]["status"]["state"] == "completed"
    assert result["raw"]["artifacts"][0]["parts"] == [{"kind": "text", "text": "a"}]
    assert result["summary"]["message_text"] == "a"
    assert [one["raw"]["kind"] for one in world.updates] == [
        "task",
        "artifact-update",
        "status-update",
    ]


@pytest.mark.parametrize(
    "subscription",
    [[task(WORKING)], [StreamEnded("cut")], PeerRefused("no", code=-32004)],
    ids=["ends early", "breaks", "refused"],
)
async def test_wait_by_polling_when_the_stream_does_not_tell(subscription: Any) -> None:
    world = supported(send=task(WORKING), subscribe=subscription)
    world.peers.says(SUPPORT, "get", task(WORKING), task(TaskState.INPUT_REQUIRED, said="Which?"))
    result = await waited(world, 0.5, 0.75)
    assert world.peers.requests() == ["card", "send", "subscribe", "get", "get"]
    assert result["summary"]["message_text"] == "Which?"
    assert result["summary"]["continuation"]["task"]["status"] == "input-required"


@pytest.mark.parametrize(
    "fault", [PeerUnreachable("restarting"), PeerRefused("lost", reason="AGENT_LOST", status=502)]
)
async def test_wait_by_polling_when_the_agent_does_not_stream(fault: RemoteError) -> None:
    world = supported(card=card(streaming=False), send=task(WORKING))
    world.peers.says(SUPPORT, "get", fault, task(COMPLETED))
    assert (await waited(world, 0.5, 0.75))["ok"]
    assert world.peers.requests() == ["card", "send", "get", "get"]


async def test_wait_ends_when_the_task_is_gone() -> None:
    world = supported(card=card(streaming=False), send=task(WORKING))
    world.peers.says(SUPPORT, "get", PeerRefused("Task not found", code=-32001))
    result = await waited(world, 0.5)
    assert result["error"]["message"] == "Task not found"


@pytest.mark.parametrize("streaming", [True, False])
async def test_wait_timeout_is_real(streaming: bool) -> None:
    world = supported(card=card(streaming=streaming), send=task(WORKING))
    world.peers.says(SUPPORT, "subscribe", [asyncio.Event()])
    world.peers.says(SUPPORT, "get", *[task(WORKING)] * 20)
    result = await waited(world, 4.9, 0.1)
    assert result["error"]["code"] == "WAIT_TIMEOUT"
    assert result["error"]["message"] == "the task neither ended nor paused within 5000 ms"
    details = result["error"]["details"]
    assert details["task_id"] == "task-1"
    assert details["suggested_action"] == "status"
    assert details["suggested_actions"] == ["watch", "status"]
    assert details["continuation"]["task"]["status"] == "working"
    assert "cancel" not in world.peers.requests()
    world.peers.says(SUPPORT, "get", task(COMPLETED))
    assert (await world(action="status", continuation=details["continuation"]))["ok"]


async def test_wait_can_be_aborted_and_cancels_if_told() -> None:
    world, signal = supported(send=task(WORKING), cancel=task(TaskState.CANCELED)), asyncio.Event()
    world.peers.says(SUPPORT, "subscribe", [asyncio.Event()])
    work = asyncio.gather(world(**WAIT, cancel_on_abort=True, signal=signal))
    await settle()
    signal.set()
    result = (await work)[0]
    assert result["error"]["details"]["remote_task_canceled"] is True


async def test_wait_before_the_send_is_answered_is_a_plain_timeout() -> None:
    world = supported(send=asyncio.Event())
    result = await waited(world, 1, timeout_ms=1000)
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == "request timed out"
