"""Bringing tasks into memory: each is there once, however slowly a store reads."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.runtime.stores import AheadStore, SlowReads
from tests.runtime.world import HANDLE, SCOPE, opened, world

from trunkline.model.errors import TaskNotFound
from trunkline.model.outputs import ArtifactEmitted, Final, Output
from trunkline.model.session import Delivered, ReplyPayload
from trunkline.model.values import Artifact, Part, TaskState
from trunkline.ports.backend import TurnRequest
from trunkline.runtime.fanout import Opening
from trunkline.testing import FakeClock, ScriptedBackend, settle


async def test_what_was_read_before_a_change_is_not_taken_for_the_task() -> None:
    store = SlowReads()
    async with world(store=store) as w:
        task = await w.send("ask which")
        store.hold(1)
        following = w.soon(w.follow(task.id))
        await settle()
        canceling = w.soon(w.cancel(task.id))
        await settle()
        store.let_go()
        assert (await canceling).status.state is TaskState.CANCELED
        reading = await following
        await asyncio.wait_for(reading.all(), 5)
        assert await w.state(task.id) is TaskState.CANCELED
        assert len(w.runtime.registry) == 0


async def test_tasks_that_are_read_at_the_same_time_are_one() -> None:
    store = SlowReads()
    async with world(store=store) as w:
        task = await w.send("ask which")
        store.hold(9)
        loads = [w.soon(w.runtime.registry.load(SCOPE, task.id)) for _ in range(3)]
        await settle()
        assert len(store.held) == 1
        store.let_go()
        first, *others = [await load for load in loads]
        assert all(other is first for other in others)
        w.runtime.registry.forget_if_idle(first)


async def test_a_caller_that_leaves_while_it_reads_takes_nobody_along() -> None:
    store = SlowReads()
    async with world(store=store) as w:
        task = await w.send("ask which")
        store.hold(1)

        async def follow() -> None:
            await w.follow(task.id)

        leaving = w.callers.start(follow(), name="leaving")
        await settle()
        canceling = w.soon(w.cancel(task.id))
        await settle()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert (await canceling).status.state is TaskState.CANCELED


async def test_a_task_that_is_not_there_is_so_for_all_who_ask() -> None:
    store = SlowReads()
    async with world(store=store) as w:
        store.hold(1)
        asking = [w.soon(w.cancel("nobody")) for _ in range(2)]
        await settle()
        store.let_go()
        for each in asking:
            with pytest.raises(TaskNotFound):
                await each


async def test_a_task_that_the_store_has_and_the_journal_does_not_know_yet_is_one_task() -> None:
    store = AheadStore()
    async with world(store=store) as w:
        store.is_held = True
        sending = w.soon(w.submit("ask which"))
        await settle()
        (live,) = w.runtime.registry.all()
        following = w.soon(w.follow(live.task_id))
        await settle()
        store.is_held = False
        store.tell()
        await sending
        reading = await following
        (opening,) = await reading.read()
        assert isinstance(opening, Opening)
        assert opened(opening).id == live.task_id
        assert w.runtime.registry.all() == (live,)
        reading.close()


class SaysMore(ScriptedBackend):
    """Shows something, and has more to say right after."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock(), direct=True)
        self.delivered: Delivered | None = None

    async def _run(self, turn: TurnRequest) -> AsyncIterator[Output]:
        yield ArtifactEmitted(artifact=Artifact(artifact_id="a", parts=(Part(text="1"),)))
        assert turn.session is not None
        self.delivered = await turn.session.follow_up(ReplyPayload(text="more"))
        yield Final((Part(text="done"),))

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        return self._run(turn)


async def test_a_follow_up_to_a_task_that_is_not_stored_yet_goes_along_with_it() -> None:
    backend = SaysMore()
    async with world(backend=backend, agent_style="hybrid") as w:
        task = await w.send("go")
        assert backend.delivered is not None
        assert backend.delivered.ok, backend.delivered.error
        assert [each.artifact_id for each in task.artifacts] == [
            "a",
            backend.delivered.message_id,
            "answer",
        ]
        other = await w.runtime.queued_replies.deliver(
            task.id, ReplyPayload(text="x"), agent=HANDLE + "-2"
        )
        assert not other.ok
