"""One lane per context: who runs, who waits, and in which order."""

from collections.abc import AsyncIterator

import pytest
from tests.runtime.world import BOB, World, opened, place, said, world

from trunkline.model.errors import TooManyRequests
from trunkline.model.outputs import Output, Text
from trunkline.model.values import TaskState
from trunkline.ports.backend import TurnRequest
from trunkline.runtime.fanout import Opening
from trunkline.runtime.service import TaskAnswer
from trunkline.testing import settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


def began(w: World) -> list[str]:
    """The tasks whose turns began, in order."""
    return [turn.task_id for turn in w.scripted.turns]


async def states(w: World, *ids: str) -> list[TaskState]:
    return [await w.state(task_id) for task_id in ids]


async def test_one_context_runs_one_task_and_keeps_the_rest_in_order() -> None:
    async with world() as w:
        ids = [(await w.submit(f"wait {n}", context="c")).id for n in range(4)]
        await w.gates.reached("0")
        assert await states(w, *ids) == [WORKING, SUBMITTED, SUBMITTED, SUBMITTED]
        for n in range(4):
            await w.gates.reached(str(n))
            w.gates.open(str(n))
            await w.ended(ids[n])
        assert began(w) == ids
        assert await states(w, *ids) == [COMPLETED] * 4


async def test_contexts_run_beside_each_other() -> None:
    async with world() as w:
        ids = [(await w.submit(f"wait {n}", context=f"c-{n}")).id for n in range(5)]
        for n in range(5):
            await w.gates.reached(str(n))
        await settle()
        assert await states(w, *ids) == [WORKING] * 5
        for n in range(5):
            w.gates.open(str(n))


async def test_a_context_belongs_to_its_caller() -> None:
    """The same contextId of two callers is two contexts."""
    async with world() as w:
        mine = await w.submit("wait mine", context="c")
        await w.gates.reached("mine")
        answer = await w.service.send(w.agent, BOB, w.request("say hello", context="c"))
        assert isinstance(answer, TaskAnswer)
        assert b"hello" in answer.task
        assert await w.state(mine.id) is WORKING
        w.gates.open("mine")


async def test_concurrency_is_bounded_across_contexts() -> None:
    async with world(max_concurrency=2) as w:
        ids = [(await w.submit(f"wait {n}", context=f"c-{n}")).id for n in range(4)]
        await w.gates.reached("0")
        await w.gates.reached("1")
        await settle()
        assert await states(w, *ids) == [WORKING, WORKING, SUBMITTED, SUBMITTED]
        w.gates.open("1")
        await w.gates.reached("2")
        await settle()
        assert await states(w, *ids) == [WORKING, COMPLETED, WORKING, SUBMITTED]
        for n in (0, 2, 3):
            w.gates.open(str(n))
        await w.ended(ids[3])
        assert began(w) == ids


async def test_a_full_queue_rejects_with_a_reason_and_runs_nothing() -> None:
    async with world(max_queue_per_context=2) as w:
        ids = [(await w.submit("wait a", context="c")).id]
        await w.gates.reached("a")
        ids += [(await w.submit("say x", context="c")).id for _ in range(2)]
        refused = await w.send("say too much", context="c")
        assert refused.status.state is TaskState.REJECTED
        assert "queue of this context is full" in said(refused)
        assert refused.history[0].parts[0].text == "say too much"
        assert await w.states(refused.id) == [TaskState.REJECTED]
        assert len(await w.listed()) == 4
        w.gates.open("a")
        await w.ended(ids[-1])
        assert began(w) == ids
        again = await w.send("say now", context="c")
        assert again.status.state is COMPLETED


async def test_a_full_queue_refuses_a_follow_up_and_leaves_its_task_alone() -> None:
    async with world(max_queue_per_context=1) as w:
        asked = await w.send("ask size?", context="c")
        running = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        waiting = await w.submit("say x", context="c")
        with pytest.raises(TooManyRequests):
            await w.send("say XL", task=asked.id)
        assert await w.state(asked.id) is TaskState.INPUT_REQUIRED
        w.gates.open("a")
        await w.ended(running.id)
        await w.ended(waiting.id)
        assert (await w.send("say XL", task=asked.id)).status.state is COMPLETED


@pytest.mark.parametrize("script", ["fail no", "crash", "refuse no", "artifact bad"])
async def test_a_task_that_fails_does_not_block_its_context(script: str) -> None:
    async with world() as w:
        first = await w.submit(script, context="c")
        second = await w.send("say hello", context="c")
        assert second.status.state is COMPLETED
        assert (await w.ended(first.id)).status.state in (FAILED, TaskState.REJECTED)


async def test_a_task_canceled_in_the_middle_of_the_queue_is_passed_over() -> None:
    async with world() as w:
        ids = [(await w.submit(f"wait {n}", context="c")).id for n in range(3)]
        await w.gates.reached("0")
        canceled = await w.cancel(ids[1])
        assert canceled.status.state is TaskState.CANCELED
        assert await w.states(ids[1]) == [SUBMITTED, TaskState.CANCELED]
        w.gates.open("0")
        await w.gates.reached("2")
        w.gates.open("2")
        await w.ended(ids[2])
        assert began(w) == [ids[0], ids[2]]


class Broken:
    """An agent written in a hurry."""

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        if turn.message.parts[0].text == "no start":
            raise RuntimeError("no start")
        return self._outputs()

    async def _outputs(self) -> AsyncIterator[Output]:
        yield Text("one")
        yield Text("\ud800")
        yield Text("two")

    async def cancel(self, run_id: str) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("message", ["no start", "no JSON"])
async def test_a_backend_that_breaks_its_contract_fails_the_task_alone(message: str) -> None:
    async with world(backend=Broken()) as w:
        for _ in range(2):
            task = await w.send(message, context="c")
            assert task.status.state is FAILED
            journal = await w.journal(task.id)
            assert [entry.seq for entry in journal] == list(range(1, len(journal) + 1))
        assert len(w.runtime.registry) == 0


async def test_d25_d27_places_show_wherever_a_waiting_task_does() -> None:
    async with world() as w:
        running = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        one, two = [await w.submit(f"say {n}", context="c") for n in range(2)]
        assert [place(task) for task in (running, one, two)] == [None, 1, 2]
        assert [place(await w.get(task.id)) for task in (running, one, two)] == [None, 1, 2]
        assert [place(task) for task in await w.listed(context_id="c")] == [2, 1, None]
        assert [place(task) for task in await w.listed(status=SUBMITTED)] == [2, 1]
        follower = await w.follow(two.id)
        [opening] = await follower.read()
        assert isinstance(opening, Opening)
        assert place(opened(opening)) == 2
        stream = await w.stream("say three", context="c")
        [opening] = await stream.read()
        assert isinstance(opening, Opening)
        assert (opened(opening).status.state, place(opened(opening))) == (SUBMITTED, 3)
        # A place is of the moment, so the journal has none.
        for entry in await w.journal(two.id):
            assert b"queue" not in entry.body
        w.gates.open("a")
        await stream.all()
        assert stream.entries == list((await w.journal(stream.task_id))[1:])
        assert place(await w.get(two.id)) is None
        follower.close()


async def test_d30_those_behind_a_canceled_task_move_up_at_once() -> None:
    async with world() as w:
        ids = [(await w.submit(f"wait {n}", context="c")).id for n in range(5)]
        await w.gates.reached("0")
        await w.cancel(ids[2])
        assert [place(await w.get(task_id)) for task_id in ids] == [None, 1, None, 2, 3]
        # One that runs can be canceled as well, and the next one starts.
        await w.cancel(ids[0])
        await w.gates.reached("1")
        assert [place(await w.get(task_id)) for task_id in ids] == [None, None, None, 1, 2]
        for n in (1, 3, 4):
            w.gates.open(str(n))
        await w.ended(ids[4])


async def test_x06_a_task_that_is_held_up_by_other_contexts_is_next() -> None:
    async with world(max_concurrency=1) as w:
        await w.submit("wait a", context="c")
        await w.gates.reached("a")
        held = [await w.submit("say x", context="d") for _ in range(2)]
        assert [place(task) for task in held] == [1, 2]
        w.gates.open("a")
        await w.ended(held[1].id)


@pytest.mark.parametrize(
    ("script", "expected"),
    [("say x", COMPLETED), ("fail x", FAILED), ("hang", FAILED), ("wait b", TaskState.CANCELED)],
    ids=["completed", "failed", "timed-out", "canceled"],
)
async def test_d29_however_a_task_ends_the_next_one_starts(
    script: str, expected: TaskState
) -> None:
    async with world(task_deadline_s=60.0) as w:
        first = await w.submit(script, context="c")
        behind = await w.submit("say next", context="c")
        await settle()
        if expected is TaskState.CANCELED:
            await w.cancel(first.id)
        await w.clock.advance(62)
        assert (await w.ended(first.id)).status.state is expected
        assert (await w.ended(behind.id)).status.state is COMPLETED


async def test_d28_a_context_that_is_stuck_does_not_hold_up_another() -> None:
    async with world() as w:
        await w.submit("hang", context="c")
        waiting = await w.submit("say one", context="c")
        assert (await w.send("say two", context="d")).status.state is COMPLETED
        assert await w.state(waiting.id) is SUBMITTED
