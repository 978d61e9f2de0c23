"""A store that says no: callers learn it, nothing hangs, and the gateway goes on."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.runtime.world import HANDLE, SCOPE, World, opened, said, world

from trunkline.model.errors import RecordConflict, StoreUnusable, TaskNotFound, Unavailable
from trunkline.model.events import Entry
from trunkline.model.session import ReplyPayload
from trunkline.model.values import TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.ports.store import Append, Result, Settled
from trunkline.runtime.fanout import CutOff, Opening
from trunkline.runtime.store_refusals import NOT_STORED
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
        assert not w.runtime.runs.running
        # Readers still see what is committed, and nothing else.
        assert await w.state(task.id) is WORKING
        with pytest.raises(Unavailable):
            await w.send("say more", context="c")
        store.is_full = False
        assert (await w.send("say more", context="c")).status.state is COMPLETED
        await w.clock.advance(2.1)
        ended = await w.ended(task.id)
        assert ended.status.state is FAILED
        # The store's own words are for the log: they name files of this machine.
        assert said(ended) == NOT_STORED
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


async def test_the_time_of_a_status_that_was_refused_is_forgotten() -> None:
    store = FullStore()
    async with world(store=store) as w:
        task = await w.send("ask which?")
        before = await store.get(SCOPE, task.id)
        reading = await w.follow(task.id)
        await w.clock.advance(60)
        store.is_full = True
        with pytest.raises(Unavailable):
            await w.send("say this", task=task.id)
        store.is_full = False
        follow_up = ReplyPayload(text="one more thing")
        assert (await w.runtime.queued_replies.deliver(task.id, follow_up, agent=HANDLE)).ok
        after = await store.get(SCOPE, task.id)
        assert before is not None
        assert after is not None
        assert (after.last_seq, after.status_ms) == (before.last_seq + 1, before.status_ms)
        reading.close()


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
        await settle()
        # It could not store what it does, so it waits, and nothing of it is lost.
        assert len(w.scripted.turns) == 1
        store.is_full = False
        w.gates.open("b")
        await w.clock.advance(2.1)
        assert (await w.ended(task.id)).status.state is FAILED
        assert (await w.ended(behind.id)).status.state is COMPLETED
        assert (await w.send("say next", context="c")).status.state is COMPLETED


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
        entries=(Entry.of(stored.last_seq + 1, update),),
        state=WORKING,
        status_ms=stored.status_ms,
    )
    done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    store.submit([(append, done.set_result)])
    assert await done is None


async def test_messages_that_were_refused_together_start_no_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FullStore()
    async with world(store=store) as w:
        asked = await w.send("ask size?")
        # Its turns start before their messages are stored.
        w.scripted.is_pure = True
        store.is_full = True
        texts = ["hang", "say M", "say L"]
        sends = [w.soon(w.send(text, task=asked.id)) for text in texts]
        for send in sends:
            with pytest.raises(Unavailable):
                await send
        await settle()
        # The first one had begun by then. Nobody saw it, and none came after it.
        assert len(w.scripted.turns) == 2
        assert "agent failed" not in caplog.text
        store.is_full = False
        assert await w.get(asked.id) == asked
        assert (await w.send("say XL", task=asked.id)).status.state is COMPLETED


async def test_a_canceled_task_that_was_held_back_starts_none_of_its_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FullStore()
    async with world(store=store, max_concurrency=1) as w:
        done = await w.send("say done")
        running = await w.submit("wait a; say lost; hang", context="c")
        held = await w.submit("say one", context="d")
        await w.submit("say two", task=held.id)
        await w.gates.reached("a")
        store.is_full = True
        w.gates.open("a")
        await settle()
        store.is_full = False
        # The store takes writes again, but what was held back has not been looked at yet.
        follow_up = ReplyPayload(text="one more thing")
        assert (await w.runtime.queued_replies.deliver(done.id, follow_up, agent=HANDLE)).ok
        assert (await w.cancel(held.id)).status.state is CANCELED
        await w.clock.advance(3)
        assert (await w.ended(running.id)).status.state is FAILED
        assert await w.state(held.id) is CANCELED
        assert held.id not in [turn.task_id for turn in w.scripted.turns]
        assert "agent failed" not in caplog.text


class TakenKeys(MemoryStore):
    """Another node has used every key."""

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        loop = asyncio.get_running_loop()
        for append, settled in appends:
            if append.also:
                loop.call_soon(settled, RecordConflict("used before"))
            else:
                super().submit([(append, settled)])


async def test_a_task_whose_message_has_a_key_that_is_taken_is_not_left_in_limbo() -> None:
    async with world(store=TakenKeys()) as w:
        task = await w.submit("wait a; say done")
        await w.gates.reached("a")
        with pytest.raises(Unavailable):
            await w.send("say more", task=task.id, key="k")
        await w.clock.advance(2.1)
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (FAILED, NOT_STORED)
        assert len(w.runtime.registry) == 0


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
