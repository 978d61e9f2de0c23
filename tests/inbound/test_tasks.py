"""Errors about tasks, and the order of checks, as an OpenClaw has them (inbound.md I-6)."""

from typing import Any

import pytest
from tests.bindings.shapes import Json
from tests.bindings.world import World
from tests.inbound.peer import Peer, inbound_world, user

from trunkline.testing import settle

FILE: Json = {"kind": "file", "file": {"uri": "https://example.com/a.png", "mimeType": "image/png"}}
NO_FILES = (
    "message.parts[{}].kind=file is not supported; "
    "inbound A2A requests only accept text and data parts."
)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {"id": "nobody"}),
        ("tasks/cancel", {"id": "nobody"}),
        ("message/send", {"message": user("hi", taskId="nobody")}),
    ],
)
async def test_i6_an_unknown_task(method: str, params: Json) -> None:
    async with inbound_world() as world:
        error = await Peer(world).error(method, params)
    assert error == {"code": -32001, "message": "Task not found: nobody"}


@pytest.mark.parametrize(
    ("script", "state"),
    [("say hi", "completed"), ("fail no", "failed"), ("refuse no", "rejected")],
)
async def test_i6_a_message_to_an_ended_task(script: str, state: str) -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send(script)
        error = await peer.error("message/send", {"message": user("hi", taskId=task["id"])})
    assert error == {
        "code": -32600,
        "message": f"Task {task['id']} is in a terminal state ({state}) and cannot be modified.",
    }


async def test_i6_a_message_to_a_task_of_another_context() -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("ask which?", contextId="a")
        sent = user("hi", id="m-2", taskId=task["id"], contextId="b")
        error = await peer.error("message/send", {"message": sent})
    assert error == {
        "code": -32600,
        "message": f"Task {task['id']} is bound to contextId a, not b.",
    }


async def test_i6_cancel_that_comes_too_late() -> None:
    async with inbound_world(cancel_terminal="error") as world:
        peer = Peer(world)
        task = await peer.send("say hi")
        error = await peer.error("tasks/cancel", {"id": task["id"]})
    assert error == {"code": -32002, "message": f"Task not cancelable: {task['id']}"}


@pytest.mark.parametrize("index", [0, 1])
async def test_i6_a_file_part_is_refused_by_its_place(index: int) -> None:
    parts: list[Json | str] = ["hi", "there"]
    parts.insert(index, FILE)
    async with inbound_world() as world:
        error = await Peer(world).error("message/send", {"message": user(*parts)})
        assert not world.agent.turns
    assert error == {"code": -32602, "message": NO_FILES.format(index)}


ENDED = "Task {} is in a terminal state (completed) and cannot be modified."
# Each message has all faults from its own to the last one; the first is the one that is told.
FAULTS: list[tuple[Json, str]] = [
    ({"parts": [FILE], "messageId": "", "taskId": "nobody"}, NO_FILES.format(0)),
    ({"messageId": "", "taskId": "nobody"}, "message.messageId is required."),
    ({"messageId": None, "taskId": "nobody"}, "message.messageId is required."),
    ({"taskId": "nobody", "contextId": "b"}, "Task not found: nobody"),
    ({"contextId": "b"}, "Task {} is bound to contextId a, not b."),
    ({}, ENDED),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
@pytest.mark.parametrize("blank", [False, True], ids=["with content", "without"])
async def test_i6_the_order_of_checks_and_no_history_before_they_are_passed(
    fault: Json, message: str, blank: bool
) -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("say hi", contextId="a")
        sent = user("" if blank else "again", id="m-2", taskId=task["id"]) | fault
        error = await peer.error("message/send", {"message": sent})
        assert error["message"] == message.format(task["id"])
        assert await history_of(peer, task) == ["say hi", "hi"]
        assert len(world.agent.turns) == 1


async def test_i6_a_refused_message_leaves_a_waiting_task_as_it_was() -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("ask which?", contextId="a")
        for fault in ({"parts": [FILE]}, {"messageId": ""}, {"contextId": "b"}):
            sent = user("again", id="m-2", taskId=task["id"]) | fault
            await peer.error("message/send", {"message": sent})
        assert await history_of(peer, task) == ["ask which?", "which?"]
        assert (await peer.result("tasks/get", {"id": task["id"]}))["status"]["state"] == (
            "input-required"
        )


async def history_of(peer: Peer, task: Json) -> list[str]:
    found = await peer.result("tasks/get", {"id": task["id"], "historyLength": 9})
    return [message["parts"][0]["text"] for message in found["history"]]


async def test_i6_the_five_methods_work() -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        asked = await peer.send("ask which?", contextId="c")
        assert asked["status"]["state"] == "input-required"
        going_on = await peer.send("say this", id="m-2", taskId=asked["id"])
        assert (going_on["id"], going_on["status"]["state"]) == (asked["id"], "completed")
        events = await peer.stream("message/stream", {"message": user("say hi", id="m-3")})
        assert '"state":"completed"' in events[-1]["data"]
        assert (await peer.result("tasks/get", {"id": asked["id"]}))["id"] == asked["id"]
        hanging = await started(world, peer)
        canceled = await peer.result("tasks/cancel", {"id": hanging})
        assert canceled["status"]["state"] == "canceled"


async def started(world: World, peer: Peer) -> str:
    params: dict[str, Any] = {
        "message": user("hang", id="m-9", contextId="other"),
        "configuration": {"blocking": False},
    }
    task = await peer.result("message/send", params)
    await settle()
    task_id: str = task["id"]
    return task_id


@pytest.mark.parametrize("configuration", [{}, {"blocking": True}, None])
async def test_i7_a_blocking_send_waits_for_the_end_of_the_run(configuration: Json | None) -> None:
    params: Json = {"message": user("say hi")}
    if configuration is not None:
        params["configuration"] = configuration
    async with inbound_world() as world:
        task = await Peer(world).result("message/send", params)
    assert task["status"]["state"] == "completed"
    assert [message["role"] for message in task["history"]] == ["user", "agent"]


async def test_i7_a_question_ends_a_blocking_send() -> None:
    async with inbound_world() as world:
        task = await Peer(world).send("ask which?")
    assert task["status"]["state"] == "input-required"


async def test_i7_a_send_that_does_not_block_returns_the_first_committed_task() -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        params = {"message": user("wait go\nsay hi"), "configuration": {"blocking": False}}
        task = await peer.result("message/send", params)
        assert task["status"]["state"] == "submitted"
        assert [message["messageId"] for message in task["history"]] == ["m-1"]
        assert "artifacts" not in task
        world.agent.gates.open("go")
        await settle()
        later = await peer.result("tasks/get", {"id": task["id"]})
    assert later["status"]["state"] == "completed"


async def test_i7_a_push_configuration_is_ignored() -> None:
    push = {"url": "https://example.com/hook"}
    params = {"message": user("say hi"), "configuration": {"pushNotificationConfig": push}}
    async with inbound_world() as world:
        task = await Peer(world).result("message/send", params)
    assert task["status"]["state"] == "completed"
