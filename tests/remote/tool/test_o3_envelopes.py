"""O-3: envelopes and their summaries."""

from typing import Any

import pytest
from tests.remote.tool.world import (
    HELLO,
    SUPPORT,
    TARGET_JSON,
    artifact,
    card,
    made,
    message,
    moved,
    supported,
    task,
)

from trunkline.model.values import TERMINAL, Part, Role, TaskState
from trunkline.remote.errors import PeerUnreachable

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED


async def sent(answer: Any, **request: Any) -> dict[str, Any]:
    world = supported(send=answer)
    result = await world(action="send", parts=HELLO, **request)
    assert result["ok"], result
    return result


async def streamed(*events: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    world = supported(stream=list(events))
    result = await world(action="send", parts=HELLO, follow_updates=True)
    assert result["ok"], result
    return result, world.updates


async def test_o3_success_the_real_direct_send() -> None:
    answer = message("echo: hi", context_id="7767", message_id="c946")
    assert await sent(answer) == {
        "ok": True,
        "operation": "remote_agent",
        "action": "send",
        "summary": {
            "target_alias": "support",
            "target_name": "Support Agent",
            "target_url": SUPPORT,
            "streaming_supported": True,
            "response_kind": "message",
            "message_text": "echo: hi",
            "continuation": {
                "target": TARGET_JSON,
                "conversation": {"context_id": "7767", "can_send": True},
            },
        },
        "raw": {
            "kind": "message",
            "messageId": "c946",
            "role": "agent",
            "parts": [{"kind": "text", "text": "echo: hi"}],
            "contextId": "7767",
        },
    }


async def test_o3_the_real_task_continuation() -> None:
    result = await sent(task(TaskState.INPUT_REQUIRED, id="a74a", context_id="7907"))
    assert result["summary"]["continuation"] == {
        "target": TARGET_JSON,
        "task": {
            "task_id": "a74a",
            "task_handle": "rah_id-000002",
            "status": "input-required",
            "can_resume_send": True,
            "can_send": True,
            "can_status": True,
            "can_cancel": True,
            "can_watch": True,
        },
        "conversation": {"context_id": "7907", "can_send": True},
    }


async def test_o3_update_envelopes_hold_the_event() -> None:
    _, updates = await streamed(task(WORKING), moved(COMPLETED))
    assert [one["phase"] for one in updates] == ["update", "update"]
    assert list(updates[0]) == ["ok", "operation", "action", "phase", "summary", "raw"]
    assert updates[0]["raw"]["kind"] == "task"
    assert updates[1]["raw"] == {
        "kind": "status-update",
        "taskId": "task-1",
        "contextId": "ctx-1",
        "status": {"state": "completed"},
        "final": True,
    }


async def test_o3_failure() -> None:
    world = supported(send=PeerUnreachable("no connection"))
    result = await world(action="send", parts=HELLO)
    assert list(result) == ["ok", "operation", "action", "error"]
    assert (result["ok"], result["operation"], result["action"]) == (False, "remote_agent", "send")
    assert list(result["error"]) == ["code", "message", "details"]


async def test_o3_raw_of_each_action() -> None:
    world = supported(send=task(), get=task(), cancel=task(TaskState.CANCELED), subscribe=[task()])
    assert (await world(action="send", parts=HELLO))["raw"]["kind"] == "task"
    assert (await world(action="status", task_id="task-1"))["raw"]["kind"] == "task"
    cancel = await world(action="cancel", task_id="task-1")
    assert cancel["raw"]["status"] == {"state": "canceled"}
    watch = await world(action="watch", task_id="task-1")
    assert list(watch["raw"]) == ["events", "finalEvent"]
    listed = await world(action="list_targets")
    assert [entry["target"]["alias"] for entry in listed["raw"]] == ["support"]


async def test_o3_raw_is_one_shape_whatever_it_holds() -> None:
    parts = (
        Part(text="t"),
        Part(raw=b"hi", filename="a.txt", media_type="text/plain"),
        Part(url="https://x/y"),
        Part(data={"n": 1}),
    )
    answer = message("x")
    result = await sent(type(answer)(message_id="m", role=Role.AGENT, parts=parts))
    assert result["raw"]["parts"] == [
        {"kind": "text", "text": "t"},
        {"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGk="}},
        {"kind": "file", "file": {"uri": "https://x/y"}},
        {"kind": "data", "data": {"n": 1}},
    ]


async def test_o3_no_continuation_without_any_id() -> None:
    assert "continuation" not in (await sent(message("hi")))["summary"]


async def test_o3_a_task_without_context_has_no_conversation() -> None:
    continuation = (await sent(task(context_id="")))["summary"]["continuation"]
    assert set(continuation) == {"target", "task"}


@pytest.mark.parametrize("state", TaskState)
async def test_o3_what_can_be_done_follows_from_the_status(state: TaskState) -> None:
    """The README: can_watch is false on tasks that ended."""
    found = (await sent(task(state)))["summary"]["continuation"]["task"]
    is_open = state not in TERMINAL
    for name in ("can_resume_send", "can_send", "can_cancel", "can_watch"):
        assert found[name] is is_open, name
    assert found["can_status"] is True


async def test_o3_an_agent_that_does_not_stream_cannot_be_watched() -> None:
    world = supported(card=card(streaming=False), send=task(WORKING))
    result = await world(action="send", parts=HELLO)
    assert result["summary"]["streaming_supported"] is False
    assert result["summary"]["continuation"]["task"]["can_watch"] is False
    assert result["summary"]["continuation"]["task"]["can_cancel"] is True


async def test_o3_there_are_no_flat_ids_in_the_summary() -> None:
    summary = (await sent(task()))["summary"]
    assert not {"task_id", "context_id", "status", "task_handle"} & set(summary)
    assert not [name for name in summary if name.startswith("can_")]


async def test_o3_message_text_of_a_message_joins_its_texts() -> None:
    assert (await sent(message("one", "two")))["summary"]["message_text"] == "one\n\ntwo"


async def test_o3_message_text_of_a_task_is_its_artifacts_and_its_last_word() -> None:
    answer = task(COMPLETED, said="done", artifacts=(artifact("a", "b"), artifact("c", id="a-2")))
    assert (await sent(answer))["summary"]["message_text"] == "a\n\nb\n\nc\n\ndone"


async def test_o3_a_last_word_that_repeats_the_artifact_is_said_once() -> None:
    answer = task(COMPLETED, said="same", artifacts=(artifact("same"),))
    assert (await sent(answer))["summary"]["message_text"] == "same"


async def test_o3_message_text_falls_back_to_what_the_agent_said_in_the_last_turn() -> None:
    history = (
        message("first question", role=Role.USER),
        message("first answer"),
        message("second question", role=Role.USER),
        message("second answer"),
    )
    assert (await sent(task(history=history)))["summary"]["message_text"] == "second answer"


async def test_o3_a_task_that_says_nothing_has_no_text() -> None:
    assert "message_text" not in (await sent(task()))["summary"]


async def test_o3_artifacts_in_the_summary() -> None:
    answer = task(artifacts=(artifact("report", name="Report", metadata={"k": 1}),))
    assert (await sent(answer))["summary"]["artifacts"] == [
        {
            "name": "Report",
            "parts": [{"kind": "text", "text": "report"}],
            "metadata": {"k": 1},
            "artifact_id": "a-1",
        }
    ]


async def test_o3_response_kind_is_task_when_any_event_is_of_a_task() -> None:
    result, _ = await streamed(message("hi"), moved(COMPLETED))
    assert result["summary"]["response_kind"] == "task"


async def test_o3_response_kind_is_message_for_exactly_one() -> None:
    one, _ = await streamed(message("hi"))
    several, _ = await streamed(message("hi"), message("again"))
    assert one["summary"]["response_kind"] == "message"
    assert "response_kind" not in several["summary"]
    assert several["summary"]["message_text"] == "again"


async def test_o3_a_task_event_replaces_the_artifacts() -> None:
    result, _ = await streamed(
        task(WORKING, artifacts=(artifact("old"),)),
        task(COMPLETED, artifacts=(artifact("new", id="a-2"),)),
    )
    assert result["summary"]["message_text"] == "new"


async def test_o3_appended_chunks_are_one_text() -> None:
    result, updates = await streamed(
        task(WORKING),
        made(artifact("Hel", metadata={"v": 1, "w": 1})),
        made(artifact("lo", metadata={"v": 2}), append=True),
        made(artifact("!"), append=True),
        moved(COMPLETED),
    )
    assert [one["summary"].get("message_text") for one in updates] == [
        None,
        "Hel",
        "Hello",
        "Hello!",
        "Hello!",
    ]
    assert result["summary"]["artifacts"] == [
        {
            "parts": [{"kind": "text", "text": "Hello!"}],
            # Replaced by the chunk that had any, not merged.
            "metadata": {"v": 2},
            "artifact_id": "a-1",
        }
    ]


async def test_o3_an_artifact_that_is_not_appended_replaces_the_one_of_its_id() -> None:
    result, _ = await streamed(made(artifact("draft")), made(artifact("final")), moved(COMPLETED))
    assert result["summary"]["message_text"] == "final"


async def test_o3_an_append_to_an_unknown_artifact_begins_it() -> None:
    result, _ = await streamed(made(artifact("lo"), append=True), moved(COMPLETED))
    assert result["summary"]["message_text"] == "lo"


async def test_o3_the_status_is_that_of_the_last_event_with_one() -> None:
    result, updates = await streamed(
        task(TaskState.SUBMITTED), moved(WORKING), made(artifact("x")), moved(COMPLETED)
    )
    states = [one["summary"]["continuation"]["task"]["status"] for one in updates]
    assert states == ["submitted", "working", "working", "completed"]
    assert result["raw"]["finalEvent"] == result["raw"]["events"][-1] == updates[-1]["raw"]


async def test_o3_what_a_task_says_while_it_works_is_no_part_of_its_answer() -> None:
    _, updates = await streamed(
        moved(WORKING, "thinking"),
        made(artifact("The answer")),
        moved(WORKING, "checking"),
        moved(COMPLETED),
    )
    assert [one["summary"].get("message_text") for one in updates] == [
        "thinking",
        "The answer",
        "The answer",
        "The answer",
    ]
