"""Stopping: what runs may finish, what waits stays, everybody is told."""

import asyncio
from collections.abc import Callable

import pytest
from tests.runtime.world import World, next_morning, said, world

from trunkline.engine.gateway_texts import GATEWAY_STOPPED
from trunkline.engine.recovery import restart_reason
from trunkline.model.errors import Unavailable
from trunkline.model.values import TaskState, text_of
from trunkline.ports.records import Change
from trunkline.ports.store import Store
from trunkline.runtime.fanout import CutOff
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


async def test_runs_finish_within_the_grace() -> None:
    async with world() as w:
        answer = w.soon(w.send("delay 3; say done"))
        await w.clock.wait_until_sleeping(5)
        drain = w.soon(w.runtime.drain(grace_s=10))
        await settle()
        with pytest.raises(Unavailable):
            await w.send("say more")
        assert not drain.done()
        await w.clock.advance(3)
        await drain
        assert (await answer).status.state is COMPLETED


async def test_late_runs_fail_with_the_reason_and_the_queue_runs_after_the_restart(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one")
    await first.open()
    running = await first.submit("hang", context="c")
    queued = [await first.submit(f"say {n}", context="c") for n in range(3)]
    blocked = first.soon(first.send("say last", context="c"))
    await settle()
    reading = await first.follow(queued[0].id)
    drain = first.soon(first.runtime.drain(grace_s=10))
    await first.clock.advance(11)
    await drain
    ended = await first.get(running.id)
    assert (ended.status.state, said(ended)) == (FAILED, GATEWAY_STOPPED)
    # Whoever waits for a queued task learns its id; readers may come back.
    last = await blocked
    assert last.status.state is SUBMITTED
    await reading.all()
    assert reading.items[-1] == CutOff("the gateway is shutting down", 1)
    assert [await first.state(task.id) for task in queued] == [SUBMITTED] * 3
    await first.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as w:
        for task in [*queued, last]:
            assert (await w.ended(task.id)).status.state is COMPLETED
        order = [turn.task_id for turn in w.scripted.turns]
        assert order == [task.id for task in [*queued, last]]
        assert await w.get(running.id) == ended
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_restart_fails_what_ran_once_and_with_the_reason(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one")
    await first.open()
    running = await first.submit("say some; wait a", context="c")
    await first.gates.reached("a")
    asked = await first.send("ask size?")
    # Committed after all that the other one said before it.
    assert await first.state(running.id) is WORKING
    await first.vanish()
    await first.store.close()
    for node in ("two", "three"):
        async with world(store=make_store(), node=node, clock=next_morning()) as w:
            ended = await w.ended(running.id)
            assert (ended.status.state, said(ended)) == (FAILED, restart_reason(WORKING))
            assert (await w.states(running.id)).count(FAILED) == 1
            assert await w.get(asked.id) == asked
    async with world(store=make_store(), node="four", clock=next_morning()) as w:
        done = await w.send("say XL", task=asked.id)
        assert done.status.state is COMPLETED


async def test_runs_without_a_task_get_one_when_the_gateway_stops(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one", direct=True)
    await first.open()
    running = first.soon(first.send("hang", context="c"))
    queued = first.soon(first.send("say later", context="c"))
    stream = await first.stream("say even later", context="c")
    await settle()
    await first.runtime.drain(grace_s=0)
    ended, waits = await running, await queued
    assert (ended.status.state, said(ended)) == (FAILED, GATEWAY_STOPPED)
    assert waits.status.state is SUBMITTED
    await stream.all()
    await first.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as w:
        assert said(await w.ended(waits.id)) == "later"
        assert said(await w.ended(stream.task_id)) == "even later"


async def test_draining_twice_is_fine_and_closing_is_too() -> None:
    w = World()
    await w.open()
    await w.submit("hang")
    await w.runtime.drain(grace_s=0)
    await w.runtime.drain(grace_s=0)
    await w.close()
    await w.close()


class SlowMemory(MemoryStore):
    """Changes records when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def change(self, *changes: Change) -> None:
        self.asked.set()
        await self.go.wait()
        await super().change(*changes)


@pytest.mark.parametrize("resumable", [False, True])
async def test_an_answer_that_is_being_stored_stays_an_answer(resumable: bool) -> None:
    store = SlowMemory()
    policies = ("resume_queued", "resume_running")
    async with world(
        store=store,
        direct=True,
        resumable=resumable,
        agent_style="hybrid",
        on_restart=policies,
        # Otherwise retention would change a record first.
        retention_s=0.0,
    ) as w:
        asking = w.soon(w.ask("say hi"))
        await store.asked.wait()
        drain = w.soon(w.runtime.drain(grace_s=0))
        await settle()
        store.go.set()
        await drain
        assert text_of((await asking).parts) == "hi"
        assert await w.listed() == ()
