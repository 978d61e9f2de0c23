"""Agents that are published, replaced and withdrawn while the runtime runs."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.runtime.world import (
    ALICE,
    HANDLE,
    Reading,
    World,
    next_morning,
    opened,
    said,
    state_of,
    world,
)

from trunkline.background import next_pass
from trunkline.engine.gateway_texts import AGENT_WITHDRAWN
from trunkline.engine.recovery import restart_reason
from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import RouteNotFound, TrunklineError
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, Task, TaskState
from trunkline.ports.backend import Notes
from trunkline.ports.store import Store
from trunkline.runtime import publishing
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import CutOff, Item, Opening
from trunkline.runtime.publishing import WITHDRAWN
from trunkline.settings.profiles import preset
from trunkline.testing import FakeClock, ScriptedBackend, settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


class Closing(ScriptedBackend):
    is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        await super().close()


def another(
    w: World, *, backend: ScriptedBackend | None = None, handle: str = HANDLE, **profile: Any
) -> PublishedAgent:
    """A new agent of the handle, which the calls of the world then go to."""
    w.scripted = backend or Closing(clock=w.clock)
    w.agent = PublishedAgent(
        handle=handle, backend=w.scripted, profile=preset("standard", **profile)
    )
    return w.agent


async def test_turns_end_within_the_grace_and_their_callers_get_the_answer() -> None:
    async with world() as w:
        answer = w.soon(w.send("delay 3; say done"))
        await w.clock.wait_until_sleeping(5)
        leaving = w.soon(w.runtime.publishing.withdraw(HANDLE, grace_s=10))
        await settle()
        assert not leaving.done()
        await w.clock.advance(3)
        await leaving
        assert (await answer).status.state is COMPLETED
        assert w.runtime.agents == {}
        assert len(w.runtime.registry) == 0


async def test_what_is_late_fails_and_what_waits_runs_when_the_agent_is_back(
    make_store: Callable[[], Store],
) -> None:
    async with world(store=make_store(), backend=None) as w:
        running = await w.submit("hang", context="c")
        queued = [await w.submit(f"say {n}", context="c") for n in range(3)]
        blocked = w.soon(w.send("say last", context="c"))
        await settle()
        follower, waiter = await w.follow(running.id), await w.follow(queued[0].id)
        leaving = w.soon(w.runtime.publishing.withdraw(HANDLE, grace_s=10))
        await settle()
        with pytest.raises(RouteNotFound):
            await w.send("say more")
        await w.clock.advance(11)
        await leaving
        # Streams end with the end of the task, or with the reason.
        await follower.all()
        assert state_of(follower.entries[-1]) is FAILED
        assert (await waiter.all())[-1] == CutOff(WITHDRAWN, 1)
        last = await blocked
        assert last.status.state is SUBMITTED
        assert len(w.runtime.registry) == 0
        ended = await w.get(running.id)
        assert (ended.status.state, said(ended)) == (FAILED, AGENT_WITHDRAWN)

        await w.runtime.publishing.publish(another(w))
        for task in [*queued, last]:
            assert (await w.ended(task.id)).status.state is COMPLETED
        assert [turn.task_id for turn in w.scripted.turns] == [t.id for t in [*queued, last]]
        assert (await w.send("say more")).status.state is COMPLETED


async def test_a_run_that_outlives_the_agent_is_resumed_when_it_is_back() -> None:
    async with world(resumable=True, on_restart=("resume_running",)) as w:
        task = await w.submit("say some; wait a; say more")
        await w.gates.reached("a")
        outside = w.scripted
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        assert await w.state(task.id) is WORKING
        another(w, backend=outside, on_restart=("resume_running",))
        await w.runtime.publishing.publish(w.agent)
        outside.gates.open("a")
        assert (await w.ended(task.id)).status.state is COMPLETED
        assert [turn.is_resumed for turn in outside.turns] == [False, True]


async def test_tasks_of_an_earlier_process_continue_when_their_agent_is_published_later(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one")
    await first.open()
    running = await first.submit("say some; wait a", context="c")
    await first.gates.reached("a")
    queued = [await first.submit(f"say {n}", context="c") for n in range(2)]
    assert await first.state(running.id) is WORKING
    await first.vanish()
    await first.store.close()
    second = World(store=make_store(), node="two", clock=next_morning())
    second.runtime.agents.clear()
    await second.open()
    await settle()
    assert await second.state(running.id) is WORKING
    await second.runtime.publishing.publish(another(second))
    ended = await second.ended(running.id)
    assert (ended.status.state, said(ended)) == (FAILED, restart_reason(WORKING))
    for task in queued:
        assert (await second.ended(task.id)).status.state is COMPLETED
    assert [turn.task_id for turn in second.scripted.turns] == [task.id for task in queued]
    await second.close()


async def test_a_request_without_a_task_is_not_lost() -> None:
    async with world(direct=True) as w:
        running = w.soon(w.send("hang", context="c"))
        queued = w.soon(w.send("say later", context="c"))
        await settle()
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        assert (await running).status.state is FAILED
        waits = await queued
        assert waits.status.state is SUBMITTED
        await w.runtime.publishing.publish(another(w, backend=ScriptedBackend(clock=w.clock)))
        assert (await w.ended(waits.id)).status.state is COMPLETED


async def test_a_backend_that_does_not_open_changes_nothing_and_is_closed() -> None:
    class Broken(Closing):
        async def open(self, agent: str, notes: Notes) -> None:
            raise OSError("no such program")

    async with world() as w:
        running = w.soon(w.send("wait a; say done"))
        await w.gates.reached("a")
        first, broken = w.agent, Broken(clock=w.clock)
        gates = w.gates
        for handle in (HANDLE, "test/new"):
            agent = another(w, backend=broken, handle=handle)
            change = (
                w.runtime.publishing.replace(agent, switch=lambda: None)
                if handle == HANDLE
                else w.runtime.publishing.publish(agent)
            )
            with pytest.raises(OSError, match="no such program"):
                await change
            assert broken.is_closed
        assert w.runtime.agents == {HANDLE: first}
        w.agent = first
        gates.open("a")
        assert (await running).status.state is COMPLETED
        assert (await w.send("say more")).status.state is COMPLETED


async def test_a_backend_that_never_opens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Closing):
        async def open(self, agent: str, notes: Notes) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(publishing, "OPEN_S", 0.01)
    async with world() as w:
        endless = Endless(clock=w.clock)
        with pytest.raises(TimeoutError, match="it has not opened within"):
            await w.runtime.publishing.publish(another(w, backend=endless, handle="test/new"))
        assert endless.is_closed
        assert [*w.runtime.agents] == [HANDLE]


async def test_a_replaced_agent_finishes_what_it_has_begun_and_the_new_one_runs_the_rest() -> None:
    old = Closing(clock=FakeClock())
    async with world(backend=old) as w:
        before = w.agent
        running = w.soon(w.send("wait a; say old", context="c"))
        await old.gates.reached("a")
        queued = await w.submit("say new", context="c")
        agent = another(w)
        assert await w.runtime.publishing.replace(agent, switch=lambda: None) is before
        finishing = w.soon(w.runtime.publishing.finish(before))
        # The context has one turn at a time, whichever agent runs it.
        also = await w.submit("say newer", context="c")
        await settle()
        assert not w.scripted.turns
        assert not finishing.done()
        assert not old.is_closed
        old.gates.open("a")
        assert (await running).status.state is COMPLETED
        for task in (queued, also):
            assert (await w.ended(task.id)).status.state is COMPLETED
        assert [turn.task_id for turn in w.scripted.turns] == [queued.id, also.id]
        await finishing
        assert old.is_closed


async def test_a_request_that_was_under_way_reaches_the_successor() -> None:
    async with world() as w:
        before = w.agent
        await w.runtime.publishing.replace(another(w), switch=lambda: None)
        await w.runtime.publishing.finish(before)
        request: SendMessageRequest = w.request("say hello")
        await w.service.send(before, ALICE, request)
        assert len(w.scripted.turns) == 1


async def test_new_limits_let_waiting_turns_start() -> None:
    async with world(max_concurrency=1) as w:
        before, gates = w.agent, w.gates
        running = await w.submit("wait a", context="one")
        held = await w.submit("say two", context="two")
        await gates.reached("a")
        await w.runtime.publishing.replace(another(w, max_concurrency=2), switch=lambda: None)
        assert (await w.ended(held.id)).status.state is COMPLETED
        gates.open("a")
        assert (await w.ended(running.id)).status.state is COMPLETED
        await w.runtime.publishing.finish(before)


async def test_withdrawing_ends_the_turns_of_replaced_agents_too() -> None:
    old = Closing(clock=FakeClock())
    async with world(backend=old) as w:
        before = w.agent
        task = await w.submit("hang")
        await settle()
        await w.runtime.publishing.replace(another(w), switch=lambda: None)
        finishing = w.soon(w.runtime.publishing.finish(before))
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        await finishing
        assert old.is_closed
        assert await w.state(task.id) is FAILED


async def test_a_stop_of_the_gateway_closes_the_backends_of_replaced_agents() -> None:
    old = Closing(clock=FakeClock())
    async with world(backend=old) as w:
        await w.submit("hang")
        await settle()
        await w.runtime.publishing.replace(another(w), switch=lambda: None)
    assert old.is_closed


async def test_a_backend_that_cannot_be_closed_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn(ScriptedBackend):
        async def close(self) -> None:
            raise RuntimeError("will not")

    async with world(backend=Stubborn(clock=FakeClock())) as w:
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        await w.runtime.publishing.publish(another(w))
        assert (await w.send("say more")).status.state is COMPLETED
    assert "a backend could not be closed" in caplog.text


async def test_a_backend_that_never_closes_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Endless(ScriptedBackend):
        async def close(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(publishing, "CLOSE_S", 0.01)
    async with world(backend=Endless(clock=FakeClock())) as w:
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        await w.runtime.publishing.publish(another(w))
        assert (await w.send("say more")).status.state is COMPLETED
    assert "a backend does not close" in caplog.text


async def test_many_agents_come_and_go_and_leave_nothing_in_memory() -> None:
    async with world() as w:
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        for n in range(100):
            await w.runtime.publishing.publish(another(w, handle=f"test/agent-{n % 7}"))
            await w.submit("hang" if n % 10 == 0 else "say hello")
            await w.runtime.publishing.withdraw(w.agent.handle, grace_s=0)
        assert w.runtime.agents == {}
        assert w.runtime.publishing.leaving == set()
        assert len(w.runtime.registry) == 0
        assert w.runtime.runs.running == set()
        await settle()
        assert len(w.runtime.runs.tasks) == 0
        assert len(asyncio.all_tasks()) < 10


class Schedule:
    """Random calls to an agent that comes and goes, and what must hold after each of them."""

    def __init__(self, w: World, seed: int) -> None:
        self.w = w
        self.random = Random(seed)
        self.backends = [w.scripted]
        self.readings: list[Reading] = []
        self.task_ids: list[str] = []
        self.sends: list[asyncio.Future[Task]] = []
        self.leaving: list[asyncio.Future[None]] = []

    async def step(self) -> None:
        w, handle = self.w, HANDLE
        pick = self.random.random()
        is_there = handle in w.runtime.agents
        is_leaving = any(not each.done() for each in self.leaving)
        if pick < 0.35:
            await self.send()
        elif pick < 0.5 and self.task_ids and is_there:
            with suppress(TrunklineError):
                self.readings.append(await w.follow(self.random.choice(self.task_ids)))
        elif pick < 0.6 and self.task_ids:
            _ = w.soon(self.cancel(self.random.choice(self.task_ids)))
        elif pick < 0.7:
            self.random.choice(self.backends).gates.open("gate")
        elif pick < 0.75:
            await w.clock.advance(1.0)
        elif pick < 0.85 and is_there:
            before = w.agent
            agent = another(w, max_concurrency=self.random.choice([0, 1, 2]))
            await w.runtime.publishing.replace(agent, switch=lambda: None)
            self.backends.append(w.scripted)
            self.leaving.append(w.soon(w.runtime.publishing.finish(before)))
        elif pick < 0.95 and is_there:
            grace_s = self.random.choice([0, 3])
            self.leaving.append(w.soon(w.runtime.publishing.withdraw(handle, grace_s=grace_s)))
            await next_pass()
        elif not is_there and not is_leaving:
            await self.publish()
        for _ in range(self.random.choice([0, 1, 5, 50])):
            await next_pass()
        lanes = [run.lane for run in w.runtime.runs.running]
        assert len(lanes) == len(set(lanes)), "a context has two turns at once"

    async def publish(self) -> None:
        await self.w.runtime.publishing.publish(another(self.w))
        self.backends.append(self.w.scripted)

    async def send(self) -> None:
        context = self.random.choice(["one", "two", "three"])
        text = self.random.choice(["say hi", "wait gate; say hi", "delay 2; say hi", "hang"])
        sending = self.w.soon(self.w.send(text, context=context, now=self.random.random() < 0.5))
        self.sends.append(sending)
        sending.add_done_callback(self._sent)

    def _sent(self, sending: "asyncio.Future[Task]") -> None:
        if sending.exception() is None:
            self.task_ids.append(sending.result().id)
        else:
            assert isinstance(sending.exception(), RouteNotFound)

    async def cancel(self, task_id: str) -> None:
        with suppress(TrunklineError):
            await self.w.cancel(task_id)

    async def calm(self) -> None:
        """Let everything run that can, and cancel what never ends."""
        for each in self.backends:
            each.gates.open("gate")
        for _ in range(5):
            for task in await self.w.listed(page_size=100):
                if task.status.state not in TERMINAL and "hang" in str(task.history):
                    _ = self.w.soon(self.cancel(task.id))
            await self.w.clock.advance(3.0)

    async def end(self) -> None:
        """Let everything come to its end, with the agent published."""
        w = self.w
        await self.calm()
        async with asyncio.timeout(5):
            await asyncio.gather(*self.leaving)
        if HANDLE not in w.runtime.agents:
            await self.publish()
            await self.calm()
        tasks = await w.listed(page_size=100)
        assert {task.id for task in tasks} >= set(self.task_ids)
        assert {task.status.state for task in tasks} <= TERMINAL
        for sending in self.sends:
            assert sending.done()
        for reading in self.readings:
            async with asyncio.timeout(5):
                await reading.all()
            last = reading.items[-1]
            is_end = isinstance(last, CutOff) or state_of_item(last) in TERMINAL
            assert is_end, last
        runs = [turn.run_id for each in self.backends for turn in each.turns]
        assert len(runs) == len(set(runs)), "a turn ran twice"
        assert w.runtime.publishing.leaving == set()
        assert len(w.runtime.registry) == 0


def state_of_item(item: Item) -> TaskState | None:
    if isinstance(item, Opening):
        return opened(item).status.state
    return state_of(item) if isinstance(item, Entry) else None


async def run_schedules(seeds: range) -> None:
    for seed in seeds:
        async with world() as w:
            schedule = Schedule(w, seed)
            try:
                for _ in range(30):
                    await schedule.step()
                await schedule.end()
            except BaseException as error:
                error.add_note(f"schedule {seed}")
                raise


async def test_random_schedules_lose_nothing() -> None:
    await run_schedules(range(2))


@pytest.mark.full
async def test_many_random_schedules_lose_nothing() -> None:
    await run_schedules(range(1000, 1300))
