"""The clocks of a blocking send, and what an agent at work says to one more message."""

import asyncio
from typing import Any

import pytest
from tests.runtime.world import BOB, World, place, said, world

from trunkline.model.errors import InvalidParams, TooManyRequests
from trunkline.model.values import TaskState
from trunkline.settings.profiles import preset
from trunkline.testing import settle

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED
FAILED, REJECTED, CANCELED = TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED


async def waits_for(w: World, call: "asyncio.Future[Any]", seconds: float) -> None:
    """The call is answered after that time, and no sooner."""
    await w.clock.advance(seconds - 0.1)
    assert not call.done()
    await w.clock.advance(0.2)


async def test_x09_by_default_a_send_waits_as_long_as_the_task_takes() -> None:
    async with world() as w:
        answer = w.soon(w.send("wait a; say done"))
        await w.gates.reached("a")
        await w.clock.advance(120)
        assert not answer.done()
        w.gates.open("a")
        assert (await answer).status.state is COMPLETED


async def test_x09_after_the_reply_wait_the_task_is_returned_as_it_is() -> None:
    async with world(reply_wait_s=60.0) as w:
        answer = w.soon(w.send("say some; wait a; say done"))
        await w.gates.reached("a")
        await waits_for(w, answer, 60)
        task = await answer
        assert task.status.state is WORKING
        # Only the wait is over: the task goes on, and nothing of the wait is left behind.
        w.gates.open("a")
        assert (await w.ended(task.id)).status.state is COMPLETED
        assert len(w.runtime.registry) == 0


async def test_x09_a_send_that_is_answered_in_time_does_not_notice_the_clock() -> None:
    async with world(reply_wait_s=60.0) as w:
        assert (await w.send("say done")).status.state is COMPLETED
        asked = await w.send("ask size?")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        await w.clock.advance(120)
        assert await w.get(asked.id) == asked


async def test_x09_the_reply_wait_counts_the_time_in_the_queue() -> None:
    async with world(reply_wait_s=60.0) as w:
        await w.submit("hang", context="c")
        answer = w.soon(w.send("say later", context="c"))
        await settle()
        await waits_for(w, answer, 60)
        task = await answer
        assert (task.status.state, place(task)) == (SUBMITTED, 1)


async def test_x09_h11_after_the_reply_wait_the_task_fails_and_its_run_stops() -> None:
    async with world(preset_name="hub", context_mode="session") as w:
        answer = w.soon(w.send("hang", context="c"))
        await settle()
        await waits_for(w, answer, 60)
        task = await answer
        assert (task.status.state, said(task)) == (FAILED, "agent did not reply within 60s")
        assert list(w.scripted.canceled) == [w.scripted.turns[0].run_id]
        assert not w.runtime.runs.running
        # The context is free again.
        assert (await w.send("say next", context="c")).status.state is COMPLETED


async def test_x09_a_task_that_fails_in_the_queue_never_runs() -> None:
    async with world(reply_wait_s=60.0, on_reply_wait="fail") as w:
        first = await w.submit("wait a", context="c")
        answer = w.soon(w.send("say later", context="c"))
        await settle()
        await waits_for(w, answer, 60)
        assert (await answer).status.state is FAILED
        w.gates.open("a")
        await w.ended(first.id)
        assert len(w.scripted.turns) == 1


async def test_x09_a_run_without_a_task_becomes_one_when_the_wait_is_over() -> None:
    async with world(reply_wait_s=60.0, direct=True) as w:
        answer = w.soon(w.send("wait a; reply done"))
        await w.gates.reached("a")
        await waits_for(w, answer, 60)
        task = await answer
        assert task.status.state is WORKING
        w.gates.open("a")
        assert said(await w.ended(task.id)) == "done"


async def test_x09_a_run_in_the_queue_becomes_a_task_when_the_wait_is_over() -> None:
    async with world(reply_wait_s=60.0, direct=True) as w:
        first = w.soon(w.send("wait a; reply one", context="c"))
        second = w.soon(w.send("reply two", context="c"))
        await w.gates.reached("a")
        await waits_for(w, second, 60)
        assert (await first).status.state is WORKING
        task = await second
        assert (task.status.state, place(task)) == (SUBMITTED, 1)
        w.gates.open("a")
        assert said(await w.ended(task.id)) == "two"


async def test_d31_the_task_deadline_is_a_clock_of_its_own() -> None:
    assert preset("openclaw-design").task_deadline_s == 30 * 60
    async with world(preset_name="openclaw-design", reply_wait_s=30.0, task_deadline_s=60.0) as w:
        answer = w.soon(w.send("hang"))
        await settle()
        await waits_for(w, answer, 30)
        task = await answer
        assert task.status.state is WORKING
        await w.clock.advance(29)
        assert await w.state(task.id) is WORKING
        await w.clock.advance(3)
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (
            FAILED,
            "The agent did not finish within 60 s.",
        )


async def test_d25_a_send_that_has_to_queue_returns_at_once() -> None:
    async with world(preset_name="openclaw-design") as w:
        first = w.soon(w.send("wait a; say one", context="c"))
        await w.gates.reached("a")
        second = await w.send("say two", context="c")
        third = await w.send("say three", context="c")
        assert [second.status.state, third.status.state] == [SUBMITTED, SUBMITTED]
        assert [place(second), place(third)] == [1, 2]
        # To a task at work as well: its message waits.
        [running] = await w.listed(status=WORKING)
        assert (await w.send("say more", task=running.id)).status.state is WORKING
        assert not first.done()
        w.gates.open("a")
        assert (await first).status.state is COMPLETED
        assert (await w.ended(third.id)).status.state is COMPLETED


async def test_x06_an_agent_that_could_answer_directly_gives_a_task_to_who_cannot_wait() -> None:
    async with world(queued_send="return", direct=True) as w:
        first = w.soon(w.ask("wait a; reply one", context="c"))
        await w.gates.reached("a")
        queued = await w.send("reply two", context="c")
        assert queued.status.state is SUBMITTED
        w.gates.open("a")
        assert (await first).parts[0].text == "one"
        assert said(await w.ended(queued.id)) == "two"


@pytest.mark.parametrize(
    ("preset_name", "expected"), [("standard", REJECTED), ("hub", FAILED)], ids=str
)
async def test_x06_x25_a_busy_agent_refuses_at_once(preset_name: str, expected: TaskState) -> None:
    async with world(preset_name=preset_name, busy="fail", context_mode="session") as w:
        first = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        refused = await w.send("say two", context="c")
        assert refused.status.state is expected
        assert refused.status.message is not None
        assert refused.status.message.metadata == {"reason": "busy", "retryAfterSeconds": 5}
        assert await w.states(refused.id) == [expected]
        # Other contexts are served, and a message to the task at work is not queued either.
        assert (await w.send("say three", context="d")).status.state is COMPLETED
        with pytest.raises(TooManyRequests):
            await w.send("say four", task=first.id)
        w.gates.open("a")
        await w.ended(first.id)
        assert (await w.send("say five", context="c")).status.state is COMPLETED
        assert len(w.scripted.turns) == 3


async def test_x06_a_busy_agent_with_a_limit_is_busy_for_other_contexts_too() -> None:
    async with world(busy="fail", max_concurrency=1, refusal_state="failed") as w:
        first = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        refused = await w.send("say two", context="d")
        assert refused.status.state is FAILED
        assert said(refused) == "agent is processing a turn for another caller"
        w.gates.open("a")
        await w.ended(first.id)


async def test_x07_d26_a_full_queue_is_an_error_and_no_task() -> None:
    async with world(preset_name="openclaw-design", max_queue_per_context=1) as w:
        first = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        await w.submit("say two", context="c")
        with pytest.raises(TooManyRequests) as refused:
            await w.send("say three", context="c")
        assert refused.value.retry_after_s == 5
        assert "queue of this context is full" in refused.value.message
        assert len(await w.listed()) == 2
        w.gates.open("a")
        await w.ended(first.id)


@pytest.mark.parametrize(
    ("refusal_state", "expected"), [("rejected", REJECTED), ("failed", FAILED)], ids=str
)
async def test_x25_a_full_queue_gives_the_state_of_a_refusal(
    refusal_state: str, expected: TaskState
) -> None:
    async with world(refusal_state=refusal_state, max_queue_per_context=1) as w:
        first = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        await w.submit("say two", context="c")
        refused = await w.send("say three", context="c")
        assert refused.status.state is expected
        stream = await w.stream("say four", context="c")
        await stream.all()
        assert await w.state(stream.task_id) is expected
        w.gates.open("a")
        await w.ended(first.id)


async def test_x04_every_task_may_be_its_own_queue() -> None:
    async with world(context_mode="task") as w:
        tasks = [await w.submit(f"wait {n}", context="c") for n in range(3)]
        for n in range(3):
            await w.gates.reached(str(n))
        assert {task.context_id for task in tasks} == {"c"}
        # Messages of one task still take turns.
        more = w.soon(w.send("say more", task=tasks[0].id))
        await settle()
        assert len(w.scripted.turns) == 3
        for n in range(3):
            w.gates.open(str(n))
        assert said(await more) == "more"


async def test_x04_all_tasks_of_a_caller_may_share_a_queue() -> None:
    async with world(context_mode="client") as w:
        first = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        second = await w.submit("say two", context="d")
        third = await w.submit("say three")
        assert [place(second), place(third)] == [1, 2]
        assert (first.context_id, second.context_id) == ("c", "d")
        assert third.context_id not in ("", "c", "d")
        bob = await w.service.send(w.agent, BOB, w.request("say hello", context="c"))
        assert b"TASK_STATE_COMPLETED" in bob.task  # type: ignore[union-attr]
        w.gates.open("a")
        await w.ended(third.id)
        assert [turn.context_id for turn in w.scripted.turns] == [
            *("c", "c"),
            *("d", third.context_id),
        ]


async def test_x04_without_contexts_a_task_is_in_that_of_its_message() -> None:
    async with world(context_mode="stateless") as w:
        first = w.soon(w.send("wait a", id="m"))
        await w.gates.reached("a")
        # The same id is no queue.
        second = await w.send("ask size?", id="m")
        assert second.context_id == "m"
        with pytest.raises(InvalidParams, match=r"message\.contextId"):
            await w.send("say three", context="c")
        # The context of a task that exists is no news.
        assert (await w.send("say XL", task=second.id, context="m")).status.state is COMPLETED
        w.gates.open("a")
        assert (await first).context_id == "m"


async def test_x04_without_contexts_one_that_is_given_may_be_echoed() -> None:
    async with world(context_mode="stateless", stateless_context="echo") as w:
        first = await w.submit("wait a", context="c")
        await w.gates.reached("a")
        second = await w.send("say two", context="c")
        assert (second.context_id, second.status.state) == ("c", COMPLETED)
        w.gates.open("a")
        await w.ended(first.id)


@pytest.mark.parametrize("mode", ["task", "stateless", "client"])
async def test_x04_a_run_that_becomes_a_task_stays_in_its_queue(mode: str) -> None:
    async with world(context_mode=mode, direct=True) as w:
        first = w.soon(w.send("note hm; wait a; say one"))
        await w.gates.reached("a")
        await settle()
        [task] = await w.listed()
        more = w.soon(w.send("say more", task=task.id))
        await settle()
        assert len(w.scripted.turns) == 1
        w.gates.open("a")
        assert (await more) == (await first)
        assert w.agent.lanes.running == 0
