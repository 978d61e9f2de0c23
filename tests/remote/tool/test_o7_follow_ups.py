"""O-7: watch, status and cancel."""

from typing import Any

import pytest
from tests.remote.tool.world import SUPPORT, artifact, card, made, moved, supported, task

from trunkline.model.values import TaskState
from trunkline.remote.errors import PeerRefused, StreamEnded

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED
UNAVAILABLE = "streaming updates are not available for task task-1; retry with action=status"


async def test_o7_watch_follows_until_the_task_ends() -> None:
    world = supported(
        subscribe=[task(WORKING), made(artifact("x")), moved(COMPLETED), moved(WORKING)]
    )
    result = await world(action="watch", task_id="task-1")
    assert world.peers.requests() == ["card", "subscribe"]
    assert len(result["raw"]["events"]) == len(world.updates) == 3
    assert result["summary"]["continuation"]["task"]["status"] == "completed"


@pytest.mark.parametrize("state", [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED])
async def test_o7_watch_returns_when_the_task_asks(state: TaskState) -> None:
    """D7: a stream that stays open at a question does not keep the caller."""
    world = supported(subscribe=[task(WORKING), moved(state, "Which one?"), moved(WORKING)])
    result = await world(action="watch", task_id="task-1")
    assert result["summary"]["message_text"] == "Which one?"
    assert len(result["raw"]["events"]) == 2


async def test_o7_watch_of_an_agent_that_does_not_stream_asks_nobody() -> None:
    world = supported(card=card(streaming=False))
    result = await world(action="watch", task_id="task-1")
    assert world.peers.requests() == ["card"]
    assert result["error"] == {
        "code": "A2A_SDK_ERROR",
        "message": UNAVAILABLE,
        "details": {
            "task_id": "task-1",
            "target_url": SUPPORT,
            "target_alias": "support",
            "streaming_supported": False,
            "suggested_action": "status",
        },
    }


@pytest.mark.parametrize(
    "refusal",
    [
        PeerRefused("This operation is not supported", code=-32004),
        PeerRefused("no", reason="UNSUPPORTED_OPERATION"),
    ],
)
async def test_o7_a_peer_that_cannot_subscribe_is_reported_alike(refusal: Exception) -> None:
    world = supported(subscribe=[refusal])
    result = await world(action="watch", task_id="task-1")
    assert result["error"]["message"] == UNAVAILABLE
    assert result["error"]["details"]["suggested_action"] == "status"


async def test_o7_any_other_refusal_is_the_peer_s_own() -> None:
    world = supported(subscribe=[PeerRefused("Task not found", code=-32001)])
    result = await world(action="watch", task_id="task-1")
    assert result["error"]["message"] == "Task not found"
    assert result["error"]["details"]["rpcCode"] == -32001


async def test_o7_watch_of_a_stream_without_events() -> None:
    result = await supported(subscribe=[])(action="watch", task_id="task-1")
    assert result["error"]["message"] == "stream ended without watch events"


async def test_o7_watch_that_breaks_says_what_it_saw() -> None:
    world = supported(subscribe=[task(WORKING), StreamEnded("the stream was cut")])
    result = await world(action="watch", task_id="task-1")
    assert result["error"]["message"] == "the stream was cut"
    details = result["error"]["details"]
    assert details["partial_event_count"] == 1
    assert details["suggested_action"] == "status"
    assert details["continuation"]["task"]["status"] == "working"


@pytest.mark.parametrize(
    ("given", "asked"), [({}, None), ({"history_length": 0}, 0), ({"history_length": 2}, 2)]
)
async def test_o7_status_asks_for_history_only_if_told(
    given: dict[str, Any], asked: int | None
) -> None:
    world = supported(get=task(WORKING))
    result = await world(action="status", task_id="task-1", **given)
    assert world.peers.asked[-1].value == ("task-1", asked)
    assert result["summary"]["continuation"]["task"]["status"] == "working"


async def test_o7_cancel() -> None:
    world = supported(cancel=task(TaskState.CANCELED))
    result = await world(action="cancel", task_id="task-1")
    assert world.peers.asked[-1].value == "task-1"
    assert result["summary"]["continuation"]["task"]["can_cancel"] is False


@pytest.mark.parametrize(
    ("action", "method", "answer"),
    [
        ("status", "get", task(id="other")),
        ("cancel", "cancel", task(id="other")),
        ("watch", "subscribe", [task(id="other")]),
    ],
)
async def test_bad_input_a_peer_that_answers_for_another_task(
    action: str, method: str, answer: Any
) -> None:
    world = supported(**{method: answer})
    result = await world(action=action, task_id="task-1")
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == ('the peer answered with task "other", asked for "task-1"')
