"""A store that says no: callers learn it, nothing hangs, and the gateway goes on."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.runtime.world import SCOPE, World, opened, said, world

from trunkline.model.errors import StoreError, StoreUnusable, TaskNotFound, Unavailable
from trunkline.model.events import Entry
from trunkline.model.values import TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.ports.store import Append, Settled
from trunkline.runtime.fanout import CutOff, Opening
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

SUBMITTED, WORKING, FAILED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.FAILED
COMPLETED, CANCELED = TaskState.COMPLETED, TaskState.CANCELED
FULL = StoreUnusable("no space left on the disk")


class FullStore(MemoryStore):
    """Refuses every append while the disk is full."""

    is_full = False

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if not self.is_full:
            super().submit(appends)
            return
        loop = asyncio.get_running_loop()
        for _, settled in appends:
            loop.call_soon(settled, FULL)


async def refused_run(w: World, store: FullStore) -> str:
    """A task whose run could not store its progress."""
    task = await w.submit("wait a; say lost; hang", context="c")
    await w.gates.reached("a")
    await settle()
    store.is_full = True
    w.gates.open("a")
    await settle()
    return task.id


async def test_a_full_disk_ends_the_run_and_tells_everybody() -> None:
    store = FullStore()
    async with world(store=store) as w:
        blocking = w.soon(w.send("wait a; say lost; hang", context="c"))
        await w.gates.reached("a")
        await settle()
        [task] = await w.listed()
        reader = await w.follow(task.id)
        store.is_full = True
        w.gates.open("a")
        with pytest.raises(Unavailable):
            await blocking
        await reader.all()
        opening, cut = reader.items
        assert isinstance(opening, Opening)
        assert opened(opening).status.state is WORKING
        assert cut == CutOff("the store is unavailable", 2)
        await settle()
        assert list(w.scripted.canceled) == [w.scripted.turns[0].run_id]
        assert not w.runtime.turns.running
        # Readers still see what is committed, and nothing else.
        assert await w.state(task.id) is WORKING
        with pytest.raises(Unavailable):
            await w.send("say more", context="c")
        store.is_full = False
        assert (await w.send("say more", context="c")).status.state is COMPLETED
        await w.clock.advance(2.1)
        ended = await w.ended(task.id)
        assert ended.status.state is FAILED
        assert "no space left on the disk" in said(ended)
        assert [entry.seq for entry in await w.journal(task.id)] == [1, 2, 3]
        assert len(w.runtime.registry) == 0


async def test_the_task_ends_whenever_the_store_recovers() -> None:
    store = FullStore()
    async with world(store=store) as w:
        task_id = await refused_run(w, store)
        await w.clock.advance(60)
        assert await w.state(task_id) is WORKING
        follower = await w.follow(task_id)
        await follower.read()
        store.is_full = False
        await w.clock.advance(2.1)
        assert (await w.get(task_id)).status.state is FAILED
        assert (await w.states(task_id)).count(FAILED) == 1
        follower.close()
        assert len(w.runtime.registry) == 0


async def test_a_follower_of_such_a_task_sees_its_end() -> None:
    store = FullStore()
    async with world(store=store) as w:
        task_id = await refused_run(w, store)
        follower = await w.follow(task_id)
        store.is_full = False
        await w.clock.advance(2.1)
        await follower.all()
        assert follower.seqs == [2, 3]


async def test_such_a_task_takes_no_message_and_can_be_canceled() -> None:
    store = FullStore()
    async with world(store=store) as w:
        task_id = await refused_run(w, store)
        with pytest.raises(Unavailable):
            await w.send("say more", task=task_id)
        with pytest.raises(Unavailable):
            await w.cancel(task_id)
        store.is_full = False
        with pytest.raises(Unavailable):
            await w.send("say more", task=task_id)
        assert (await w.cancel(task_id)).status.state is CANCELED
        await w.clock.advance(10)
        assert (await w.states(task_id))[-1] is CANCELED
        assert len(w.runtime.registry) == 0


async def test_a_task_that_could_not_be_created_is_not_there_and_its_key_is_free() -> None:
    store = FullStore()
    async with world(store=store) as w:
        store.is_full = True
        sends = [w.soon(w.send("say one", key="k", id="m", context="c")) for _ in range(2)]
        sends.append(w.soon(w.send("say two", context="c", now=True)))
        for answer in sends:
            with pytest.raises(Unavailable):
                await answer
        stream = await w.stream("say three", context="c")
        assert await stream.all() == [CutOff("the store is unavailable", 0)]
        shortened = await w.stream("say three", context="c", history_length=0)
        [cut] = await shortened.all()
        assert isinstance(cut, CutOff)
        assert not w.scripted.turns
        assert len(w.runtime.registry) == 0
        store.is_full = False
        task = await w.send("say one", key="k", id="m", context="c")
        assert task.status.state is COMPLETED
        assert [listed.id for listed in await w.listed()] == [task.id]


async def test_a_promotion_that_cannot_be_stored_ends_the_run() -> None:
    store = FullStore()
    async with world(store=store, direct=True) as w:
        store.is_full = True
        answer = w.soon(w.send("say one; hang", context="c"))
        stream = await w.stream("say two; hang", context="d")
        with pytest.raises(Unavailable):
            await answer
        assert await stream.all() == [CutOff("the store is unavailable", 0)]
        store.is_full = False
        assert (await w.send("say three", context="c")).status.state is COMPLETED
        assert len(w.runtime.registry) == 0


async def test_an_answer_that_could_not_be_stored_leaves_the_question_open() -> None:
    store = FullStore()
    async with world(store=store) as w:
        asked = await w.send("ask size?")
        store.is_full = True
        with pytest.raises(Unavailable):
            await w.send("say XL", task=asked.id)
        with pytest.raises(Unavailable):
            await w.cancel(asked.id)
        await w.clock.advance(10)
        store.is_full = False
        await w.clock.advance(10)
        assert await w.get(asked.id) == asked
        assert (await w.send("say XL", task=asked.id)).status.state is COMPLETED


async def test_a_last_commit_that_is_refused_is_told_to_nobody() -> None:
    store = FullStore()
    async with world(store=store) as w:
        blocking = w.soon(w.send("wait a; say one", context="c"))
        await w.gates.reached("a")
        await settle()
        [task] = await w.listed()
        store.is_full = True
        w.gates.open("a")
        with pytest.raises(Unavailable):
            await blocking
        store.is_full = False
        await w.clock.advance(2.1)
        assert (await w.states(task.id)) == [SUBMITTED, WORKING, FAILED]


async def test_the_queue_goes_on_behind_a_run_that_was_refused() -> None:
    store = FullStore()
    async with world(store=store) as w:
        task = await w.submit("wait a; say lost", context="c")
        behind = await w.submit("wait b; say kept", context="c")
        await w.gates.reached("a")
        await settle()
        store.is_full = True
        w.gates.open("a")
        await w.gates.reached("b")
        store.is_full = False
        w.gates.open("b")
        await w.clock.advance(2.1)
        assert (await w.ended(task.id)).status.state is FAILED
        assert (await w.ended(behind.id)).status.state in (COMPLETED, FAILED)
        assert (await w.send("say next", context="c")).status.state is COMPLETED


async def test_a_task_that_another_node_took_over_is_let_go() -> None:
    store = MemoryStore()
    async with world(store=store) as w:
        task = await w.submit("wait a; say lost", context="c")
        reader = await w.follow(task.id)
        await w.gates.reached("a")
        await settle()
        [stolen] = await store.claim("other", now_ms=w.clock.now_ms() + 10**9, limit=1)
        assert stolen.task_id == task.id
        w.gates.open("a")
        await reader.all()
        assert isinstance(reader.items[-1], CutOff)
        assert len(w.runtime.registry) == 0
        assert await w.state(task.id) is WORKING
        assert (await w.send("say next", context="c")).status.state is COMPLETED
        await w.clock.advance(10)
        assert await w.states(task.id) == [SUBMITTED, WORKING]


async def test_a_task_that_somebody_else_wrote_to_is_read_anew_and_failed() -> None:
    store = MemoryStore()
    async with world(store=store) as w:
        task = await w.submit("wait a; say lost", context="c")
        await w.gates.reached("a")
        await settle()
        await intrude(store, task.id)
        w.gates.open("a")
        await settle()
        assert len(await w.journal(task.id)) == 3
        await w.clock.advance(2.1)
        ended = await w.ended(task.id)
        assert ended.status.state is FAILED
        assert [entry.seq for entry in await w.journal(task.id)] == [1, 2, 3, 4]
        assert len(w.runtime.registry) == 0


async def intrude(store: MemoryStore, task_id: str) -> None:
    stored = await store.get(SCOPE, task_id)
    assert stored is not None
    update = TaskStatusUpdateEvent(
        task_id=task_id, context_id=stored.context_id, status=TaskStatus(state=WORKING)
    )
    append = Append(
        task_id=task_id,
        expected_seq=stored.last_seq,
        epoch=stored.epoch,
        entries=(Entry.of(stored.last_seq + 1, update),),
        state=WORKING,
        status_ms=stored.status_ms,
    )
    done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
    store.submit([(append, done.set_result)])
    assert await done is None


async def test_a_refused_task_that_does_not_exist_stays_unknown() -> None:
    store = FullStore()
    async with world(store=store) as w:
        store.is_full = True
        with pytest.raises(Unavailable):
            await w.submit("say one")
        with pytest.raises(TaskNotFound):
            await w.get("id-000002")


async def test_what_waits_is_not_started_while_the_store_takes_nothing() -> None:
    store = FullStore()
    async with world(store=store) as w:
        task = await w.submit("wait a; say lost; hang", context="c")
        queued = [await w.submit(f"say {n}", context="c") for n in range(3)]
        elsewhere = await w.submit("wait b; say lost; hang", context="d")
        behind = await w.submit("say more", context="d")
        await w.gates.reached("a")
        await w.gates.reached("b")
        await settle()
        store.is_full = True
        w.gates.open("a")
        w.gates.open("b")
        await w.clock.advance(30)
        # Two ran and could not go on; nothing was started in their place.
        assert len(w.scripted.turns) == 2
        for waiting in (*queued, behind):
            assert await w.state(waiting.id) is SUBMITTED
        store.is_full = False
        await w.clock.advance(4)
        for waiting in (*queued, behind):
            assert (await w.ended(waiting.id)).status.state is COMPLETED
        for stopped in (task, elsewhere):
            assert (await w.ended(stopped.id)).status.state is FAILED
        assert [turn.task_id for turn in w.scripted.turns if turn.context_id == "c"] == [
            each.id for each in (task, *queued)
        ]
        assert len(w.runtime.registry) == 0
