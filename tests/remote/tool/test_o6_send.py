"""O-6: what a send puts on the wire, and what becomes of the answer."""

from typing import Any

import msgspec
import pytest
from tests.remote.tool.world import (
    HELLO,
    SUPPORT,
    World,
    artifact,
    card,
    continuation,
    document,
    made,
    message,
    moved,
    skill,
    supported,
    target,
    task,
)

from trunkline.model.calls import AuthenticationInfo, TaskPushNotificationConfig
from trunkline.model.values import Part, TaskState
from trunkline.remote.errors import PeerRefused, PeerUnreachable, StreamEnded

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED
REQUIRED: dict[str, Any] = {"action": "send", "parts": HELLO, "task_requirement": "required"}
FOLLOWED: dict[str, Any] = {"action": "send", "parts": HELLO, "follow_updates": True}


async def test_o6_the_message_on_the_wire() -> None:
    world = supported(send=message("hi"))
    result = await world(
        action="send",
        parts=[
            {"kind": "text", "text": "t", "metadata": {"m": 1}},
            {"kind": "file", "bytes": "aGk=", "name": "a.txt", "mime_type": "text/plain"},
            {"kind": "file", "uri": "https://x/y", "bytes": "aGk="},
            {"kind": "data", "data": {"d": 1}},
        ],
        metadata={"ticket_id": "INC-42"},
        history_length=3,
        accepted_output_modes=["text/plain"],
        push_notification_config={
            "url": "https://hook.example",
            "id": "p",
            "token": "t",
            "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "c"},
        },
    )
    assert result["ok"]
    sent = world.peers.sent()
    assert sent.message.message_id == "id-000001"
    assert sent.message.role == "ROLE_USER"
    assert sent.message.parts == (
        Part(text="t", metadata={"m": 1}),
        Part(raw=b"hi", filename="a.txt", media_type="text/plain"),
        Part(url="https://x/y"),  # the uri wins
        Part(data={"d": 1}),
    )
    assert sent.metadata == {"ticket_id": "INC-42"}
    assert sent.configuration is not None
    assert sent.configuration.history_length == 3
    assert sent.configuration.accepted_output_modes == ("text/plain",)
    assert sent.configuration.return_immediately is False
    assert sent.configuration.task_push_notification_config == TaskPushNotificationConfig(
        url="https://hook.example",
        id="p",
        token="t",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="c"),
    )


async def test_o6_a_given_message_id_is_kept() -> None:
    world = supported(send=message("hi"))
    await world(action="send", parts=HELLO, message_id="mine")
    assert world.peers.sent().message.message_id == "mine"


@pytest.mark.parametrize(("given", "immediately"), [({}, False), ({"blocking": False}, True)])
async def test_o6_blocking_is_the_default(given: dict[str, Any], immediately: bool) -> None:
    world = supported(send=message("hi"))
    await world(action="send", parts=HELLO, **given)
    configuration = world.peers.sent().configuration
    assert configuration is not None
    assert configuration.return_immediately is immediately


@pytest.mark.parametrize(
    ("given", "sent"), [({}, ("text/html",)), ({"accepted_output_modes": []}, ())]
)
async def test_o6_output_modes_of_the_call_override_the_policy(
    given: dict[str, Any], sent: tuple[str, ...]
) -> None:
    world = World(document(target(default=True), policy={"acceptedOutputModes": ["text/html"]}))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", message("hi"))
    await world(action="send", parts=HELLO, **given)
    configuration = world.peers.sent().configuration
    assert configuration is not None
    assert configuration.accepted_output_modes == sent


async def test_o6_what_the_card_does_not_offer_is_sent_all_the_same() -> None:
    world = supported(card=card(input_modes=("image/png",), output_modes=()), send=message("hi"))
    result = await world(action="send", parts=HELLO, accepted_output_modes=["video/mp4"])
    assert result["ok"]


async def test_o6_a_required_task_is_asked_for_at_once_whatever_blocking_says() -> None:
    world = supported(send=task(SUBMITTED))
    result = await world(**REQUIRED, blocking=True)
    assert result["summary"]["continuation"]["task"]["status"] == "submitted"
    configuration = world.peers.sent().configuration
    assert configuration is not None
    assert configuration.return_immediately is True


@pytest.mark.parametrize("follow", [False, True])
async def test_o6_a_message_is_not_the_task_that_was_required(follow: bool) -> None:
    world = supported(send=message("hi", context_id="ctx-1", message_id="m-9"))
    result = await world(**REQUIRED, follow_updates=follow)
    assert result["error"]["code"] == "TASK_REQUIRED_BUT_MESSAGE_RETURNED"
    assert result["error"]["message"] == (
        'task_requirement="required" expected a Task response, but the peer returned only a Message'
    )
    details = result["error"]["details"]
    assert details["context_id"] == "ctx-1"
    assert details["message_id"] == "m-9"
    assert details["response_kind"] == "message"


async def test_o6_followed_updates_are_streamed() -> None:
    world = supported(stream=[task(SUBMITTED), made(artifact("x")), moved(COMPLETED)])
    result = await world(**FOLLOWED)
    assert world.peers.requests() == ["card", "stream"]
    assert [one["kind"] for one in result["raw"]["events"]] == [
        "task",
        "artifact-update",
        "status-update",
    ]


@pytest.mark.parametrize("streaming", [False, None])
async def test_o6_an_agent_that_does_not_stream_gets_one_blocking_send(
    streaming: bool | None,
) -> None:
    world = supported(card=card(streaming=streaming), send=task(COMPLETED))
    result = await world(**FOLLOWED)
    assert world.peers.requests() == ["card", "send"]
    configuration = world.peers.sent().configuration
    assert configuration is not None
    assert configuration.return_immediately is False
    assert len(result["raw"]["events"]) == len(world.updates) == 1


async def test_o6_a_stream_of_nothing_is_an_error() -> None:
    result = await supported(stream=[])(**FOLLOWED)
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == "stream ended without events"


async def test_o6_required_and_followed_creates_then_subscribes() -> None:
    first = task(SUBMITTED)
    world = supported(send=first, subscribe=[first, moved(WORKING), moved(COMPLETED)])
    result = await world(**REQUIRED, follow_updates=True)
    assert world.peers.requests() == ["card", "send", "subscribe"]
    # The subscription begins with the task that was told already.
    assert [one["kind"] for one in result["raw"]["events"]] == [
        "task",
        "status-update",
        "status-update",
    ]
    assert [one["raw"] for one in world.updates] == result["raw"]["events"]


@pytest.mark.parametrize("streaming", [False, None])
async def test_o6_required_and_followed_without_streams_is_the_task(
    streaming: bool | None,
) -> None:
    """There is nothing to subscribe to; the task can be asked for by `status`."""
    world = supported(card=card(streaming=streaming), send=task(SUBMITTED))
    result = await world(**REQUIRED, follow_updates=True)
    assert world.peers.requests() == ["card", "send"]
    assert result["ok"]
    assert [one["kind"] for one in result["raw"]["events"]] == ["task"]
    assert len(world.updates) == 1
    found = result["summary"]["continuation"]["task"]
    assert (found["status"], found["can_status"]) == ("submitted", True)


async def test_o6_the_first_event_is_not_skipped_when_it_is_news() -> None:
    world = supported(send=task(SUBMITTED), subscribe=[task(WORKING), moved(COMPLETED)])
    result = await world(**REQUIRED, follow_updates=True)
    assert len(result["raw"]["events"]) == 3


@pytest.mark.parametrize("state", [COMPLETED, TaskState.FAILED, TaskState.INPUT_REQUIRED])
async def test_o6_a_task_that_ended_or_asks_at_once_is_not_followed(state: TaskState) -> None:
    world = supported(send=task(state))
    result = await world(**REQUIRED, follow_updates=True)
    assert result["ok"]
    assert world.peers.requests() == ["card", "send"]
    assert len(world.updates) == 1


async def test_o6_a_subscription_without_news_is_an_error() -> None:
    first = task(SUBMITTED)
    result = await supported(send=first, subscribe=[first])(**REQUIRED, follow_updates=True)
    assert result["error"]["message"] == "stream ended without watch events"


@pytest.mark.parametrize(
    "fault", [StreamEnded("the stream was cut"), PeerRefused("no", code=-32603)]
)
async def test_o6_a_failure_after_creation_says_how_to_go_on(fault: Exception) -> None:
    world = supported(send=task(SUBMITTED), subscribe=[moved(WORKING, "on it"), fault])
    result = await world(**REQUIRED, follow_updates=True)
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    details = result["error"]["details"]
    assert details["task_id"] == "task-1"
    assert details["context_id"] == "ctx-1"
    assert details["suggested_action"] == "status"
    assert details["partial_event_count"] == 2
    assert details["latest_event_summary"] == world.updates[-1]["summary"]
    assert details["capability_diagnostics"]["requested_input_modes"] == ["text/plain"]
    world.peers.says(SUPPORT, "get", task(COMPLETED), task(COMPLETED))
    assert (await world(action="status", task_handle=details["task_handle"]))["ok"]
    assert (await world(action="status", continuation=details["continuation"]))["ok"]


async def test_o6_a_message_in_a_continued_task_keeps_the_task() -> None:
    world = supported(stream=[message("noted", context_id="ctx-1")])
    given = continuation(task={"task_id": "task-1"}, conversation={"context_id": "ctx-1"})
    result = await world(**FOLLOWED, continuation=given)
    assert result["summary"]["response_kind"] == "message"
    found = result["summary"]["continuation"]["task"]
    assert found["task_id"] == "task-1"
    assert "status" not in found


async def test_o6_a_stream_may_begin_with_the_question_that_is_being_answered() -> None:
    asks = TaskState.INPUT_REQUIRED
    given = continuation(task={"task_id": "task-1"})
    answered = supported(stream=[task(asks), moved(WORKING), moved(COMPLETED)])
    result = await answered(**FOLLOWED, continuation=given)
    assert result["summary"]["continuation"]["task"]["status"] == "completed"
    # A question that comes later is a new one.
    again = supported(stream=[task(asks), moved(WORKING), moved(asks, "And now?"), moved(WORKING)])
    result = await again(**FOLLOWED, continuation=given)
    assert result["summary"]["message_text"] == "And now?"


async def test_o6_every_event_is_reported_with_all_so_far_and_one_handle() -> None:
    world = supported(
        stream=[
            task(SUBMITTED),
            made(artifact("a")),
            made(artifact("b"), append=True),
            moved(COMPLETED),
        ]
    )
    result = await world(**FOLLOWED)
    texts = [one["summary"].get("message_text") for one in world.updates]
    assert texts == [None, "a", "ab", "ab"]
    handles = {
        one["summary"]["continuation"]["task"]["task_handle"] for one in [*world.updates, result]
    }
    assert len(handles) == 1


async def test_o6_updates_may_be_awaited_and_may_fail() -> None:
    told: list[str] = []

    async def on_update(update: dict[str, Any]) -> None:
        told.append(update["raw"]["kind"])
        raise RuntimeError("the screen is gone")

    world = supported(stream=[task(SUBMITTED), moved(COMPLETED)])
    result = await world.tool(FOLLOWED, on_update=on_update)
    assert result["ok"]
    assert told == ["task"]


DIAGNOSED = card(
    input_modes=("text/plain",),
    output_modes=("Text/Plain",),
    skills=(skill("s", input_modes=("application/PDF",), output_modes=("image/png",)),),
)


async def test_o6_capability_diagnostics() -> None:
    world = supported(card=DIAGNOSED, send=PeerRefused("Incompatible content types", code=-32005))
    result = await world(
        action="send",
        parts=[
            *HELLO,
            {"kind": "data", "data": {}},
            {"kind": "file", "bytes": "aGk=", "mime_type": "Image/PNG", "name": "a.pdf"},
            {"kind": "file", "bytes": "aGk=", "name": "a.pdf"},
            {"kind": "file", "uri": "https://x/movie.mp4?x=1.txt"},
            {"kind": "file", "bytes": "aGk=", "name": "README"},
            {"kind": "file", "uri": "https://x/"},
        ],
        accepted_output_modes=["text/plain", "AUDIO/ogg"],
    )
    assert result["error"]["details"]["capability_diagnostics"] == {
        "requested_input_modes": [
            "text/plain",
            "application/json",
            "image/png",
            "application/pdf",
            "video/mp4",
            "unknown",
        ],
        "unknown_file_attachments": [5, 6],
        "advertised_input_modes": ["text/plain", "application/pdf"],
        "unsupported_input_modes": ["application/json", "image/png", "video/mp4"],
        "requested_output_modes": ["text/plain", "audio/ogg"],
        "advertised_output_modes": ["text/plain", "image/png"],
        "unsupported_output_modes": ["audio/ogg"],
    }


async def test_o6_diagnostics_use_the_modes_of_the_policy() -> None:
    world = World(document(target(default=True), policy={"acceptedOutputModes": ["text/html"]}))
    world.peers.says(SUPPORT, "card", PeerUnreachable("down"))
    result = await world(action="send", parts=HELLO)
    found = result["error"]["details"]["capability_diagnostics"]
    assert found["requested_output_modes"] == found["unsupported_output_modes"] == ["text/html"]
    assert found["advertised_input_modes"] == []


async def test_o6_diagnostics_come_with_failed_sends_only() -> None:
    world = supported(get=PeerRefused("Task not found", code=-32001))
    result = await world(action="status", task_id="x")
    assert "capability_diagnostics" not in result["error"]["details"]
    unresolved = await world(action="send", parts=HELLO, task_handle="rah_x")
    assert "capability_diagnostics" not in unresolved["error"]["details"]


async def test_o6_a_message_encodes_without_what_it_does_not_say() -> None:
    world = supported(send=message("hi"))
    await world(action="send", parts=HELLO)
    assert msgspec.json.decode(msgspec.json.encode(world.peers.sent())) == {
        "message": {
            "messageId": "id-000001",
            "role": "ROLE_USER",
            "parts": [{"text": "hello"}],
        },
        "configuration": {},
    }
