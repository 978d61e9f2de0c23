"""Which messages an OpenClaw takes, and what it says to one of nothing (inbound.md I-6)."""

from typing import Any

import pytest
from tests.bindings.shapes import Json
from tests.inbound.peer import Peer, inbound_world, preset_world, user

EMPTY = "The inbound A2A request did not contain any supported text or data parts."
NOTHING: dict[str, list[Any]] = {
    "no parts": [],
    "unknown kind": [{"kind": "video", "video": "x"}],
    "a part of 1.0": [{"text": "hi"}],
    "no kind": [{"type": "text", "text": "hi"}],
    "blank text": [{"kind": "text", "text": " \n\t"}],
    "empty text": [{"kind": "text", "text": ""}],
    "several": [{"kind": "text", "text": " "}, {"kind": "image"}, {"text": "hi"}],
}


def checked(reply: Json) -> Json:
    assert reply["kind"] == "message"
    assert reply["role"] == "agent"
    assert reply["parts"] == [{"kind": "text", "text": EMPTY}]
    assert reply["messageId"]
    assert "taskId" not in reply
    return reply


@pytest.mark.parametrize("parts", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("style", ["hybrid", "task-generating"])
async def test_i6_a_message_of_nothing_is_answered_and_makes_no_task(
    parts: list[Any], style: str
) -> None:
    async with preset_world("openclaw-inbound", agent_style=style, list_tasks="served") as world:
        peer = Peer(world)
        reply = checked(await peer.send(*parts, contextId="c"))
        assert reply["contextId"] == "c"
        assert not world.agent.turns
        assert (await peer.result("tasks/list", {"pageSize": 5}))["tasks"] == []


async def test_i6_a_message_of_nothing_gets_a_context() -> None:
    async with inbound_world() as world:
        assert checked(await Peer(world).send())["contextId"]


async def test_i6_a_message_of_nothing_does_not_wait_and_still_makes_no_task() -> None:
    params = {"message": user(), "configuration": {"blocking": False}}
    async with inbound_world() as world:
        checked(await Peer(world).result("message/send", params))


async def test_i6_a_stream_of_nothing_is_one_message() -> None:
    async with inbound_world() as world:
        [event] = await Peer(world).stream("message/stream", {"message": user()})
    assert EMPTY in event["data"]


async def test_i6_a_message_of_nothing_to_a_task_leaves_it_alone() -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("ask which?", contextId="c")
        assert checked(await peer.send(id="m-2", taskId=task["id"]))["contextId"] == "c"
        again = await peer.result("tasks/get", {"id": task["id"], "historyLength": 9})
    assert (again["status"], again["history"]) == (task["status"], task["history"])


async def test_i6_parts_of_an_unknown_kind_are_passed_over() -> None:
    async with inbound_world() as world:
        task = await Peer(world).send({"kind": "video"}, "say hi", {"text": "fail"})
        assert task["status"]["state"] == "completed"
        [turn] = world.agent.turns
    assert [part.text for part in turn.message.parts] == ["say hi"]


async def test_i6_data_is_content() -> None:
    async with inbound_world() as world:
        task = await Peer(world).send({"kind": "data", "data": {"a": 1}}, " ")
        assert len(world.agent.turns) == 1
    assert task["kind"] == "task"


async def test_i6_data_is_taken_whatever_the_card_says() -> None:
    async with inbound_world(input_modes=("text/plain",)) as world:
        await Peer(world).send({"kind": "data", "data": {"a": 1}})
        assert len(world.agent.turns) == 1


async def test_i6_the_role_agent_is_accepted() -> None:
    async with inbound_world() as world:
        task = await Peer(world).send("say hi", role="agent")
    assert task["status"]["state"] == "completed"
    assert task["history"][0]["role"] == "agent"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messageId": ""}, "message.messageId is required."),
        ({"messageId": None}, "message.messageId is required."),
        ({"role": "robot"}, 'message.role: unknown value "robot"; one of user, agent.'),
        ({"parts": "hi"}, "message.parts must be an array, got a string."),
        ({"parts": [{"kind": "text"}]}, None),
        ({"parts": [{"kind": "text", "text": 5}]}, None),
    ],
)
async def test_i6_what_is_wrong_with_a_message_is_named(fields: Json, message: str | None) -> None:
    async with inbound_world() as world:
        error = await Peer(world).error("message/send", {"message": user("hi") | fields})
    assert error["code"] == -32602
    assert error["message"] == message or "message.parts[0]" in error["message"]
