"""Runs that go on while the gateway is away are picked up, and end as if it had never left."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.runtime.world import SCOPE, World, next_morning, said, world

from trunkline.model.values import Role, Task, TaskState, text_of
from trunkline.ports.backend import Notes
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store, TaskQuery
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, ScriptedBackend, settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED
CANCELED, INPUT_REQUIRED = TaskState.CANCELED, TaskState.INPUT_REQUIRED

MakeStore = Callable[[], Store]


async def left(store: Store, text: str, *, gate: str = "go", **options: Any) -> Task:
    """A task at work when its process dies."""
    w = World(store=store, node="one", resumable=True, **options)
    await w.open()
    task = await w.submit(text, context="c")
    await w.gates.reached(gate)
    # Committed after all that the other one said.
    await w.send("say over", context="other")
    assert await w.state(task.id) is WORKING
    await w.vanish()
    await store.close()
    return task


@asynccontextmanager
async def again(store: Store, **options: Any) -> AsyncIterator[World]:
    """The next process, once it has picked up what there was."""
    clock = next_morning()
    async with world(store=store, node="two", clock=clock, resumable=True, **options) as w:
        await settle()
        yield w


async def test_a_run_is_picked_up_with_the_same_id_and_nothing_is_doubled(
    make_store: MakeStore,
) -> None:
    task = await left(make_store(), "say one,; artifact text a first; wait go; say two")
    async with again(make_store()) as w:
        turn = w.scripted.turns[0]
        assert turn.is_resumed
        assert (turn.run_id, turn.task_id) == (f"{task.id}.1", task.id)
        assert text_of(turn.message.parts).startswith("say one")
        assert turn.history == ()
        assert {artifact.artifact_id for artifact in turn.artifacts} == {"answer", "a"}
        assert await w.state(task.id) is WORKING
        w.gates.open("go")
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (COMPLETED, "one,two")
        texts = {a.artifact_id: text_of(a.parts) for a in ended.artifacts}
        assert texts["answer"] == "one,two"
        assert len(ended.artifacts) == 2
        states = await w.states(task.id)
        assert states == [SUBMITTED, WORKING, COMPLETED]


async def test_messages_of_a_resumed_run_have_ids_of_their_own(make_store: MakeStore) -> None:
    task = await left(make_store(), "note first; wait go; final done")
    async with again(make_store()) as w:
        assert [text_of(m.parts) for m in w.scripted.turns[0].history] == ["first"]
        w.gates.open("go")
        ended = await w.ended(task.id)
        agent = [message for message in ended.history if message.role is Role.AGENT]
        assert len({message.message_id for message in agent}) == len(agent)
        assert text_of(agent[-1].parts) == "done"


async def test_what_waits_runs_behind_what_is_picked_up(make_store: MakeStore) -> None:
    store = make_store()
    first = World(store=store, node="one", resumable=True)
    await first.open()
    running = await first.submit("wait go; say one", context="c")
    queued = await first.submit("say two", context="c")
    await first.gates.reached("go")
    await first.send("say over", context="other")
    await first.vanish()
    await store.close()
    async with again(make_store()) as w:
        await settle()
        assert await w.state(queued.id) is SUBMITTED
        w.gates.open("go")
        assert (await w.ended(running.id)).status.state is COMPLETED
        assert (await w.ended(queued.id)).status.state is COMPLETED
        assert [turn.task_id for turn in w.scripted.turns] == [running.id, queued.id]
        assert [turn.is_resumed for turn in w.scripted.turns] == [True, False]


async def test_a_run_is_picked_up_as_often_as_need_be() -> None:
    store = MemoryStore()
    task = await left(store, "say one; wait go")
    clock = next_morning()
    second = World(store=store, node="two", clock=clock, resumable=True)
    await second.open()
    await second.gates.reached("go")
    await second.vanish()
    later = FakeClock(clock.now_ms() + 3_600_000)
    async with world(store=store, node="three", clock=later, resumable=True) as w:
        w.gates.open("go")
        assert said(await w.ended(task.id)) == "one"
        assert w.scripted.turns[0].run_id == second.scripted.turns[0].run_id


async def test_a_later_turn_of_a_task_is_picked_up(make_store: MakeStore) -> None:
    store = make_store()
    first = World(store=store, node="one", resumable=True)
    await first.open()
    asked = await first.send("ask size?", context="c")
    await first.submit("say large; wait go", task=asked.id)
    await first.gates.reached("go")
    run_id = first.scripted.turns[-1].run_id
    await first.send("say over", context="other")
    await first.vanish()
    await store.close()
    async with again(make_store()) as w:
        turn = w.scripted.turns[0]
        assert turn.run_id == run_id
        assert [text_of(m.parts) for m in turn.history] == ["ask size?", "size?"]
        w.gates.open("go")
        ended = await w.ended(asked.id)
        assert said(ended) == "large"
        assert [a.artifact_id for a in ended.artifacts] == ["answer-2"]


async def test_a_run_that_began_without_a_task_is_picked_up_by_its_id() -> None:
    store = MemoryStore()
    task = await left(store, "say one; wait go; say two", direct=True)
    async with again(store, direct=True) as w:
        assert w.scripted.turns[0].run_id == f"{task.id}.1"
        w.gates.open("go")
        assert said(await w.ended(task.id)) == "onetwo"


@pytest.mark.parametrize("policy", ["fail_running", "retry_running", "leave_orphaned"])
async def test_the_profile_may_say_otherwise(policy: str) -> None:
    store = MemoryStore()
    task = await left(store, "say one; wait go")
    async with again(store, on_restart=("resume_queued", policy)) as w:
        w.gates.open("go")
        await settle()
        expected = {"fail_running": FAILED, "retry_running": COMPLETED, "leave_orphaned": WORKING}
        assert await w.state(task.id) is expected[policy]
        assert not any(turn.is_resumed for turn in w.scripted.turns)
        if policy == "retry_running":
            assert w.scripted.turns[0].run_id == f"{task.id}.1-1"


async def test_a_proper_stop_lets_go_of_a_run_and_does_not_cancel_it(
    make_store: MakeStore,
) -> None:
    store = make_store()
    first = World(store=store, node="one", resumable=True)
    await first.open()
    blocked = first.soon(first.send("say one; wait go; say two", context="c"))
    await first.gates.reached("go")
    drain = first.soon(first.runtime.drain(grace_s=10))
    await first.clock.advance(11)
    await drain
    task = await blocked
    assert task.status.state is WORKING
    assert list(first.scripted.canceled) == []
    await first.close()
    async with again(make_store()) as w:
        w.gates.open("go")
        assert said(await w.ended(task.id)) == "onetwo"


async def test_a_stop_makes_a_task_of_a_run_without_one() -> None:
    store = MemoryStore()
    first = World(store=store, node="one", resumable=True, direct=True)
    await first.open()
    blocked = first.soon(first.send("wait go; reply hello", context="c"))
    await first.gates.reached("go")
    await first.close()
    assert not blocked.done()
    (task,) = [stored.task_id for stored in (await store.list(TaskQuery(scope=SCOPE))).tasks]
    async with again(store, direct=True) as w:
        assert w.scripted.turns[0].run_id == f"{task}.1"
        w.gates.open("go")
        assert said(await w.ended(task)) == "hello"


async def test_an_unanswered_question_is_taken_back() -> None:
    async with world() as w:
        asked = await w.send("ask size?")
        await settle()
        assert list(w.scripted.canceled) == []
        assert (await w.cancel(asked.id)).status.state is CANCELED
        await settle()
        assert list(w.scripted.canceled) == [w.scripted.turns[0].run_id]


async def test_an_answer_that_waits_does_not_count_until_it_runs() -> None:
    async with world() as w:
        asked = await w.send("auth sign in", context="c")
        other = await w.submit("wait go", context="c")
        await w.submit("say large", task=asked.id)
        await w.gates.reached("go")
        assert await w.state(asked.id) is SUBMITTED
        await w.cancel(asked.id)
        await settle()
        assert list(w.scripted.canceled) == [w.scripted.turns[0].run_id]
        w.gates.open("go")
        await w.ended(other.id)


async def test_what_was_answered_or_never_asked_is_not_taken_back() -> None:
    async with world() as w:
        asked = await w.send("ask size?", context="c")
        await w.submit("wait go", task=asked.id)
        queued = await w.submit("say later", context="c")
        await w.gates.reached("go")
        await w.cancel(queued.id)
        await settle()
        assert list(w.scripted.canceled) == []
        await w.cancel(asked.id)
        assert list(w.scripted.canceled) == [w.scripted.turns[1].run_id]


async def test_a_question_is_taken_back_after_a_restart(make_store: MakeStore) -> None:
    store = make_store()
    first = World(store=store, node="one")
    await first.open()
    asked = await first.send("ask size?", context="c")
    await first.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as w:
        await w.cancel(asked.id)
        await settle()
        assert list(w.scripted.canceled) == [f"{asked.id}.1"]


class Elsewhere(ScriptedBackend):
    """Its runs are known by what it noted of them."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock, resumable=True)
        self.abandoned: list[tuple[str, str | None]] = []
        self.has_both = asyncio.Event()

    async def abandon(self, run_id: str, notes: Notes) -> None:
        self.abandoned.append((run_id, await notes.recall("thread")))
        if len(self.abandoned) == 2:
            self.has_both.set()


async def test_a_backend_that_abandons_gets_its_notes(make_store: MakeStore) -> None:
    store = make_store()
    first = World(store=store, node="one", resumable=True)
    await first.open()
    asked = await first.send("ask size?", context="c")
    running = await first.submit("wait go", context="d")
    await first.gates.reached("go")
    for turn in first.scripted.turns:
        assert turn.session is not None
        await turn.session.keep("thread", f"thread of {turn.context_id}")
    await settle()
    await first.vanish()
    await store.close()
    clock = next_morning()
    backend = Elsewhere(clock=clock)
    policies = ("resume_queued", "fail_running")
    async with world(
        store=make_store(), node="two", clock=clock, backend=backend, on_restart=policies
    ) as w:
        await w.cancel(asked.id)
        await settle()
        assert await w.state(running.id) is FAILED
        # A database answers in its own time, which `settle` cannot see.
        await backend.has_both.wait()
    assert sorted(backend.abandoned) == sorted(
        [(f"{running.id}.1", "thread of d"), (f"{asked.id}.1", "thread of c")]
    )


async def test_notes_are_of_one_conversation_and_forgotten_with_its_age() -> None:
    async with world(retention_s=100.0) as w:
        await w.send("say a", context="c")
        await w.send("say b", context="d")
        here, there = (turn.session for turn in w.scripted.turns)
        assert here is not None
        assert there is not None
        await here.keep("thread", "1")
        assert await here.recall("thread") == "1"
        assert await there.recall("thread") is None
        for _ in range(3):
            await w.clock.advance(60)
            await settle()
        assert await here.recall("thread") is None


async def test_all_contexts_of_a_caller_may_be_one_session() -> None:
    async with world(context_mode="client") as w:
        await w.send("say a", context="c")
        await w.send("say b", context="d")
        here, there = (turn.session for turn in w.scripted.turns)
        assert here is not None
        assert there is not None
        await here.keep("thread", "1")
        assert await there.recall("thread") == "1"
