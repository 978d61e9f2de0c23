"""The same request twice is one task."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from tests.runtime.world import SCOPE, World, next_morning, world

from trunkline.model.errors import IdempotencyConflict
from trunkline.model.values import Role, TaskState
from trunkline.ports.caller_records import request_key
from trunkline.ports.store import Append, Settled, Store
from trunkline.runtime.fanout import Opening
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle


async def test_one_key_is_one_task_however_often_and_when_it_is_sent() -> None:
    async with world() as w:
        sends = [w.soon(w.send("wait a; say one", key="k", id="m")) for _ in range(3)]
        await w.gates.reached("a")
        sends.append(w.soon(w.send("wait a; say one", key="k", id="m")))
        stream = await w.stream("wait a; say one", key="k", id="m")
        await settle()
        w.gates.open("a")
        first, *others = await asyncio.gather(*sends)
        assert all(other == first for other in others)
        await stream.all()
        assert await w.send("wait a; say one", key="k", id="m") == first
        late = await w.stream("wait a; say one", key="k", id="m")
        [opening] = await late.all()
        assert isinstance(opening, Opening)
        assert len(await w.listed()) == 1
        assert len(w.scripted.turns) == 1
        assert len(w.runtime.registry) == 0
        assert len(w.runtime.keys) == 0


async def test_a_stream_of_a_task_that_waits_for_input_ends() -> None:
    async with world() as w:
        asked = await w.send("ask size?", key="k", id="m")
        follower = await w.follow(asked.id)
        again = await w.stream("ask size?", key="k", id="m")
        await again.all()
        assert again.task_id == asked.id
        follower.close()


async def test_a_key_outlives_the_process(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one")
    await first.open()
    task = await first.submit("hang", key="k", id="m")
    await first.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as w:
        again = await w.send("hang", key="k", id="m", now=True)
        assert again.id == task.id
        with pytest.raises(IdempotencyConflict):
            await w.send("say other", key="k", id="m", now=True)


async def test_message_ids_are_keys_where_the_agent_says_so() -> None:
    async with world(deduplicate_messages=True) as w:
        task = await w.send("say one", id="m")
        assert (await w.send("say one", id="m")).id == task.id
        assert (await w.send("say one", id="n")).id != task.id
    async with world() as w:
        task = await w.send("say one", id="m")
        assert (await w.send("say one", id="m")).id != task.id


async def test_ended_tasks_are_pruned_and_their_keys_with_them() -> None:
    async with world(retention_s=100.0) as w:
        old = await w.send("say one", key="k", id="m")
        asked = await w.send("ask size?")
        await w.clock.advance(70)
        young = await w.send("say two")
        await w.clock.advance(70)
        assert {task.id for task in await w.listed()} == {asked.id, young.id}
        again = await w.send("say one", key="k", id="m")
        assert again.id != old.id
        assert again.status.state is TaskState.COMPLETED


async def test_a_second_message_with_a_key_finds_its_task_in_memory() -> None:
    async with world() as w:
        # What it says goes along with its message, so the task may settle in one commit.
        w.scripted.is_pure = True
        task = await w.send("ask one")
        first = w.soon(w.send("ask two", task=task.id, key="a"))
        second = w.soon(w.send("wait a; say done", task=task.id, key="b"))
        await w.gates.reached("a")
        await settle()
        assert w.runtime.registry.live(SCOPE, task.id) is not None
        assert (await w.cancel(task.id)).status.state is TaskState.CANCELED
        assert (await first).id == task.id
        assert (await second).status.state is TaskState.CANCELED
        assert len(w.runtime.registry) == 0


async def test_messages_with_keys_for_one_task_go_to_the_store_in_one_append() -> None:
    class Watched(MemoryStore):
        def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
            submitted.extend([append for append, _ in appends])
            super().submit(appends)

    submitted: list[Append] = []
    store = Watched()
    async with world(store=store) as w:
        task = await w.submit("wait a; say one")
        await w.gates.reached("a")
        submitted.clear()
        sends = [w.soon(w.submit("say more", task=task.id, key=key, id=key)) for key in "xyzx"]
        answers = await asyncio.gather(*sends)
        assert {answer.id for answer in answers} == {task.id}
        (append,) = submitted
        assert len(append.entries) == len(append.also) == 3
        w.gates.open("a")
        await w.ended(task.id)
        for key in "xyz":
            assert await w.store.record(request_key(SCOPE, f"key:{key}")) is not None
            again = await w.submit("say more", task=task.id, key=key, id=key)
            assert again.id == task.id
        own = [each for each in (await w.get(task.id)).history if each.role is Role.USER]
        assert [each.message_id for each in own[1:]] == ["x", "y", "z"]
        assert len(w.runtime.keys) == 0
