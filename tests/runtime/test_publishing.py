"""Agents that are published, replaced and withdrawn while the runtime runs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.world import ALICE, HANDLE, World, said, state_of, world

from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import RouteNotFound
from trunkline.model.values import TaskState
from trunkline.ports.backend import Notes
from trunkline.ports.store import Store
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import CutOff
from trunkline.runtime.publishing import WITHDRAWN, WITHDRAWN_REASON
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
        assert (ended.status.state, said(ended)) == (FAILED, WITHDRAWN_REASON)

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


async def test_many_agents_come_and_go_and_leave_nothing_in_memory() -> None:
    async with world() as w:
        await w.runtime.publishing.withdraw(HANDLE, grace_s=0)
        for n in range(200):
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
