"""Sessions: what an agent learns of the conversation before its turn."""

import pytest
from tests.runtime.world import BOB, World, world

from trunkline.model.errors import StoreUnusable, Unavailable
from trunkline.model.values import TaskState, text_of
from trunkline.ports.backend import Session
from trunkline.ports.records import Change
from trunkline.stores.memory import MemoryStore


def session(w: World) -> Session:
    """That of the turn that began last."""
    last = w.scripted.turns[-1].session
    assert last is not None
    return last


async def told(w: World, **options: int) -> list[str]:
    return [text_of(message.parts) for message in await session(w).transcript(**options)]


async def test_d03_a_context_is_one_conversation() -> None:
    async with world() as w:
        await w.send("say one", context="c")
        await w.send("say two", context="c")
        await w.send("say three", context="other")
        await w.send("say now", context="c")
        assert await told(w) == ["say one", "one", "say two", "two"]
        assert session(w).key.endswith(":c")


async def test_a_first_message_has_no_past() -> None:
    async with world() as w:
        await w.send("say one")
        assert await told(w) == []


async def test_d04_without_a_context_each_message_is_on_its_own() -> None:
    async with world() as w:
        first = await w.send("say one")
        second = await w.send("say two")
        assert first.context_id != second.context_id
        assert await told(w) == []


@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound", "openclaw-design"])
async def test_d04_a_context_that_is_made_is_named_after_its_task(preset_name: str) -> None:
    async with world(preset_name=preset_name) as w:
        task = await w.submit("say one")
        assert task.context_id == task.id
        # So both ways to name the session, by context and by task, give the same key.
        assert session(w).key.endswith(f":{task.id}")
        await w.ended(task.id)
        await w.submit("say two", context=task.context_id)
        assert await told(w) == ["say one", "one"]


async def test_i8_direct_replies_are_part_of_the_conversation() -> None:
    async with world(direct=True) as w:
        await w.ask("reply one", context="c")
        await w.clock.advance(1)
        await w.send("say two", context="c")
        await w.clock.advance(1)
        await w.ask("reply three", context="c")
        await w.clock.advance(1)
        await w.ask("reply now", context="c")
        assert await told(w) == [
            "reply one", "one", "say two", "two", "reply three", "three",
        ]  # fmt: skip
        assert len(await w.listed()) == 1


async def test_what_waits_in_the_queue_has_not_been_said() -> None:
    async with world() as w:
        await w.send("say one", context="c")
        first = await w.submit("wait a; say two", context="c")
        await w.submit("say three", context="c")
        assert await told(w) == ["say one", "one"]
        w.gates.open("a")
        await w.ended(first.id)


async def test_the_messages_of_the_task_itself_are_its_history() -> None:
    async with world() as w:
        await w.send("say before", context="c")
        task = await w.send("ask which", context="c")
        await w.send("say this", task=task.id)
        assert await told(w) == ["say before", "before"]
        assert [text_of(m.parts) for m in w.scripted.turns[-1].history] == ["ask which", "which"]


async def test_only_as_much_as_is_asked_for_and_the_latest() -> None:
    async with world() as w:
        for number in range(60):
            await w.send(f"say {number}", context="c")
            await w.clock.advance(1)
        await w.send("say now", context="c")
        assert await told(w, limit=3) == ["58", "say 59", "59"]
        assert len(await told(w, limit=119)) == 119
        assert await told(w, limit=0) == []


async def test_two_callers_with_the_same_context_are_two_sessions() -> None:
    async with world(direct=True) as w:
        await w.ask("reply secret", context="c")
        await w.send("say secret", context="c")
        key = session(w).key
        await w.service.send(w.agent, BOB, w.request("say hello", context="c"))
        assert await told(w) == []
        assert session(w).key != key


async def test_d05_client_sessions_span_contexts() -> None:
    async with world(direct=True, context_mode="client") as w:
        await w.send("say one", context="a")
        await w.clock.advance(1)
        await w.ask("reply two", context="b")
        await w.clock.advance(1)
        await w.send("say now", context="c")
        assert await told(w) == ["say one", "one", "reply two", "two"]
        key = session(w).key
        await w.send("say again", context="d")
        assert session(w).key == key


async def test_d05_a_task_can_be_a_session_of_its_own() -> None:
    async with world(context_mode="task") as w:
        await w.send("say one", context="c")
        task = await w.send("say two", context="c")
        assert await told(w) == []
        assert session(w).key.endswith(task.id)


async def test_the_mapping_has_the_ids_of_the_turn() -> None:
    async with world(preset_name="openclaw-design") as w:
        task = await w.send("say one", context="c")
        context = session(w).context()
        assert (context.a2a_task_id, context.a2a_context_id) == (task.id, "c")
        assert context.session_key == "agent:agent:a2a:c"
        assert context.sender_id == "alice"


class Forgetful(MemoryStore):
    async def change(self, *changes: Change) -> None:
        raise StoreUnusable("the disk is full")


async def test_a_reply_that_cannot_be_kept_is_not_given() -> None:
    async with world(direct=True, store=Forgetful()) as w:
        with pytest.raises(Unavailable):
            await w.ask("reply one")
        # And the context is not blocked.
        assert (await w.send("say two")).status.state is TaskState.COMPLETED
