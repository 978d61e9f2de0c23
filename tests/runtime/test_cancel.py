"""Cancel stops what runs, and says so only when it is stored."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.runtime.world import said, world

from trunkline.model.errors import TaskNotCancelable, TaskNotFound
from trunkline.model.outputs import Output, Text
from trunkline.model.values import TaskState
from trunkline.ports.backend import TurnRequest
from trunkline.testing import Gates, settle

WORKING, CANCELED = TaskState.WORKING, TaskState.CANCELED


class Stubborn:
    """An agent that ignores every request to stop until its gate opens."""

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def __init__(self) -> None:
        self.gates = Gates()
        self.asked: list[str] = []

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        return self._outputs(turn.message.parts[0].text or "")

    async def _outputs(self, name: str) -> AsyncIterator[Output]:
        yield Text("early")
        while True:
            try:
                await self.gates.wait(name)
            except asyncio.CancelledError:
                continue
            break
        yield Text("afterthought")

    async def cancel(self, run_id: str) -> None:
        self.asked.append(run_id)

    async def close(self) -> None:
        pass


async def test_cancel_of_a_running_task_stops_the_agent() -> None:
    async with world() as w:
        answer = w.soon(w.send("say one; hang"))
        await settle()
        [task] = await w.listed()
        assert task.status.state is WORKING
        canceled = await w.cancel(task.id)
        assert canceled.status.state is CANCELED
        assert (await answer) == canceled
        assert list(w.scripted.canceled) == [w.scripted.turns[0].run_id]
        assert not w.runtime.runs.running
        assert len(w.runtime.registry) == 0


async def test_cancel_of_a_paused_task() -> None:
    async with world() as w:
        asked = await w.send("ask size?")
        assert (await w.cancel(asked.id)).status.state is CANCELED
        assert len(w.runtime.registry) == 0


async def test_cancel_of_an_ended_or_unknown_task_is_refused() -> None:
    async with world() as w:
        done = await w.send("say one")
        with pytest.raises(TaskNotCancelable):
            await w.cancel(done.id)
        with pytest.raises(TaskNotFound):
            await w.cancel("unknown")
        assert len(w.runtime.registry) == 0


async def test_two_cancels_at_once_end_the_task_once() -> None:
    async with world() as w:
        task = await w.submit("hang")
        await settle()
        answers = await asyncio.gather(w.cancel(task.id), w.cancel(task.id))
        assert [answer.status.state for answer in answers] == [CANCELED, CANCELED]
        assert (await w.states(task.id)).count(CANCELED) == 1


async def test_an_agent_that_does_not_stop_is_fenced_off_and_its_context_goes_on() -> None:
    stubborn = Stubborn()
    async with world(backend=stubborn, cancel_grace_s=5.0) as w:
        task = await w.submit("a", context="c")
        next_one = await w.submit("b", context="c")
        await stubborn.gates.reached("a")
        cancel = w.soon(w.cancel(task.id))
        await w.clock.advance(4.9)
        assert not cancel.done()
        assert await w.state(task.id) is WORKING
        await w.clock.advance(0.2)
        canceled = await cancel
        assert canceled.status.state is CANCELED
        assert "did not stop within 5 s" in said(canceled)
        await stubborn.gates.reached("b")
        stubborn.gates.open("a")
        stubborn.gates.open("b")
        await w.ended(next_one.id)
        assert await w.get(task.id) == canceled
        assert all(b"afterthought" not in entry.body for entry in await w.journal(task.id))


async def test_the_backend_gets_its_time_to_pass_the_cancel_on() -> None:
    class Remote(Stubborn):
        async def _outputs(self, name: str) -> AsyncIterator[Output]:
            yield Text("early")
            await self.gates.wait(name)

        async def cancel(self, run_id: str) -> None:
            await self.gates.wait("line")
            self.asked.append(run_id)

    remote = Remote()
    async with world(backend=remote) as w:
        task = await w.submit("a")
        await remote.gates.reached("a")
        cancel = w.soon(w.cancel(task.id))
        await remote.gates.reached("line")
        await settle()
        remote.gates.open("line")
        assert (await cancel).status.state is CANCELED
        assert len(remote.asked) == 1


async def test_a_caller_that_leaves_during_its_cancel_does_not_leave_the_task_behind() -> None:
    stubborn = Stubborn()
    async with world(backend=stubborn) as w:
        task = await w.submit("a")
        await stubborn.gates.reached("a")
        _ = w.soon(w.cancel(task.id))
        await settle()
        await w.callers.close()
        stubborn.gates.open("a")
        assert (await w.ended(task.id)).status.state is CANCELED


async def test_cancel_in_the_window_of_the_last_commit_is_refused_once_that_is_stored() -> None:
    async with world() as w:
        reading = await w.stream("wait a; say one")
        while len(reading.entries) < 2:
            await reading.read()
        live = w.runtime.registry.all()[0]
        w.gates.open("a")
        while live.state is not TaskState.COMPLETED:
            await settle_once()
        # Recorded and not committed: readers see it working.
        assert await w.state(live.task_id) is WORKING
        with pytest.raises(TaskNotCancelable):
            await w.cancel(live.task_id)
        assert await w.state(live.task_id) is TaskState.COMPLETED
        await reading.all()


async def settle_once() -> None:
    """One round of the loop."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


async def test_a_run_past_its_deadline_fails_and_frees_its_context() -> None:
    async with world(task_deadline_s=60.0) as w:
        slow = await w.submit("hang", context="c")
        behind = await w.submit("wait a", context="c")
        await w.clock.advance(59.0)
        assert await w.state(slow.id) is WORKING
        await w.clock.advance(3.0)
        ended = await w.ended(slow.id)
        assert ended.status.state is TaskState.FAILED
        assert said(ended) == "The agent did not finish within 60 s."
        # Time in the queue is not held against a task.
        await w.clock.advance(50.0)
        assert await w.state(behind.id) is WORKING
        w.gates.open("a")
        assert (await w.ended(behind.id)).status.state is TaskState.COMPLETED
