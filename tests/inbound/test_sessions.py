"""Which session a message over HTTP belongs to, and who its sender is (inbound.md I-13)."""

from typing import Any

import pytest
from tests.bindings.world import World, open_world
from tests.inbound.peer import Peer, inbound_world, preset_world

from trunkline.model.session import MsgContext
from trunkline.settings.profiles import PRESETS


def context_of(world: World, turn: int = -1) -> MsgContext:
    """What the host of the agent was told in that turn."""
    session = world.agent.turns[turn].session
    assert session is not None
    return session.context()


async def test_i13_the_sender_is_who_the_key_stands_for() -> None:
    async with preset_world("openclaw-inbound") as world:
        metadata = {"clientId": "bob"}
        await Peer(world).send("say hi", contextId="c", metadata=metadata)
        context = context_of(world)
    assert (context.from_, context.sender_id) == ("a2a:alice", "alice")
    assert context.command_authorized
    assert context.message_sid == "m-1"
    # Who it says it is has no other use than to be read.
    assert context.sender_name == "bob"
    assert any("bob" in note for note in context.untrusted_context)


async def test_i13_who_has_no_key_gives_no_commands() -> None:
    """The original authorizes everybody."""
    async with open_world(anonymous="loopback", **PRESETS["openclaw-inbound"]) as world:
        client = world.client("jsonrpc-0.3", "")
        await client.send("say hi")
        context = context_of(world)
    assert not context.command_authorized
    assert context.sender_id == "@anonymous"


async def test_i13_a_context_is_a_session_and_no_context_is_a_new_one() -> None:
    async with preset_world("openclaw-inbound") as world:
        peer = Peer(world)
        replies = [await peer.send("say hi", **ids) for ids in CONTEXTS]
        keys = [context_of(world, turn).session_key for turn in range(len(CONTEXTS))]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    # The context that was made is in the answer, and a way back.
    assert len({reply["contextId"] for reply in replies}) == 4


CONTEXTS: list[dict[str, Any]] = [
    {"contextId": "a"},
    {"contextId": "a"},
    {"contextId": "b"},
    {},
    {},
]


async def test_i13_a_continuation_stays_in_the_session_of_its_task() -> None:
    async with inbound_world() as world:
        peer = Peer(world)
        task = await peer.send("ask which?")
        await peer.send("say this", id="m-2", taskId=task["id"])
        before, after = context_of(world, 0), context_of(world, 1)
    assert before.session_key == after.session_key
    assert after.message_thread_id == before.message_thread_id == task["id"]
    assert (before.message_sid, after.message_sid) == ("m-1", "m-2")


@pytest.mark.parametrize("preset", PRESETS)
async def test_i13_nobody_outside_learns_the_name_of_a_session(preset: str) -> None:
    changes: dict[str, Any] = {"agent_style": "task-generating", "history_default": "all"}
    dialect = "jsonrpc-1.0" if preset in ("standard", "hub") else "jsonrpc-0.3"
    async with preset_world(preset, **changes) as world:
        client = world.client(dialect)
        # As the original, the preset ends an artifact by a chunk without parts.
        client.checks_answers = preset != "openclaw-inbound"
        async with client.stream("say hi; tool grep") as stream:
            events = await stream.rest()
        task_id = events[0].value["id"]
        key = context_of(world).session_key
        assert key.startswith("agent:scripted:a2a:")
        shown = str([event.raw for event in events]) + str(await client.get(task_id))
    assert key not in shown


async def test_d32_the_history_of_a_task_is_its_own() -> None:
    async with preset_world("openclaw-design") as world:
        peer = Peer(world)
        await peer.send("say one", contextId="c")
        two = await peer.send("say two", id="m-2", contextId="c")
        found = await peer.result("tasks/get", {"id": two["id"]})
        last = await peer.result("tasks/get", {"id": two["id"], "historyLength": 1})
    texts = [message["parts"][0]["text"] for message in found["history"]]
    assert texts == ["say two", "two"]
    assert [message["parts"][0]["text"] for message in last["history"]] == ["two"]
