"""History of a task as tasks/get gives it (inbound.md I-12, D10)."""

from typing import Any

import pytest
from tests.inbound.peer import Peer, inbound_world, user


@pytest.mark.parametrize(
    ("params", "shown"),
    [({}, []), ({"historyLength": 1}, ["hi"]), ({"historyLength": 9}, ["say hi", "hi"])],
)
async def test_i12_tasks_get_gives_as_much_history_as_asked_for(
    params: dict[str, Any], shown: list[str]
) -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("say hi")
        found = await peer.result("tasks/get", {"id": task["id"]} | params)
    assert [each["parts"][0]["text"] for each in found.get("history", [])] == shown


async def test_d10_a_length_of_0_is_no_history() -> None:
    """D10: the original gives all of it."""
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("say hi")
        found = await peer.result("tasks/get", {"id": task["id"], "historyLength": 0})
    assert "history" not in found


async def test_d10_send_minds_the_length_of_history() -> None:
    """D10: the original does not."""
    params = {"message": user("say hi"), "configuration": {"historyLength": 1}}
    async with inbound_world() as world:
        task = await Peer(world).result("message/send", params)
    assert [each["role"] for each in task["history"]] == ["agent"]


@pytest.mark.parametrize("length", [-1, "many", 1.5])
async def test_i12_a_length_that_is_none_is_named(length: Any) -> None:
    """The original gives no history and says nothing."""
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("say hi")
        error = await peer.error("tasks/get", {"id": task["id"], "historyLength": length})
    assert error["code"] == -32602
    assert error["message"].startswith("historyLength must ")
