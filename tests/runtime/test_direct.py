"""Agents that may answer with a message alone."""

import pytest
from tests.runtime.world import said, world

from trunkline.model.errors import IdempotencyConflict
from trunkline.model.values import TaskState, text_of
from trunkline.runtime.fanout import Reply
from trunkline.testing import settle

COMPLETED = TaskState.COMPLETED


async def test_a_direct_reply_leaves_no_task() -> None:
    async with world(direct=True) as w:
        message = await w.ask("reply hello", context="c")
        assert (text_of(message.parts), message.context_id, message.task_id) == ("hello", "c", "")
        reading = await w.stream("reply hello")
        [item] = await reading.all()
        assert isinstance(item, Reply)
        assert await w.listed() == ()
        assert len(w.runtime.registry) == 0


@pytest.mark.parametrize(
    "script", ["say hello", "note n; reply hello", "final hello", "artifact text a b; reply hello"]
)
async def test_any_other_output_makes_it_a_task(script: str) -> None:
    async with world(direct=True) as w:
        task = await w.send(script, context="c")
        assert (task.status.state, said(task)) == (COMPLETED, "hello")
        assert task.history[0].parts[0].text == script
        reading = await w.stream(script)
        await reading.all()
        assert reading.entries == list(await w.journal(reading.task_id))


@pytest.mark.parametrize("script", ["crash", "fail no"])
async def test_a_failure_makes_it_a_task(script: str) -> None:
    async with world(direct=True) as w:
        assert (await w.send(script)).status.state is TaskState.FAILED


async def test_returning_immediately_makes_it_a_task() -> None:
    async with world(direct=True) as w:
        task = await w.submit("wait a; reply hello")
        w.gates.open("a")
        assert said(await w.ended(task.id)) == "hello"


async def test_an_idempotency_key_gives_the_reply_again() -> None:
    async with world(direct=True) as w:
        reply = await w.ask("reply hello", key="k", id="m")
        assert await w.ask("reply hello", key="k", id="m") == reply
        assert await w.listed() == ()
        with pytest.raises(IdempotencyConflict):
            await w.ask("reply other", key="k", id="m")


async def test_direct_runs_keep_their_place_in_the_queue() -> None:
    async with world(direct=True) as w:
        first = w.soon(w.ask("wait a; reply one", context="c"))
        second = w.soon(w.ask("reply two", context="c"))
        await settle()
        assert len(w.scripted.turns) == 1
        w.gates.open("a")
        assert [text_of(m.parts) for m in (await first, await second)] == ["one", "two"]


async def test_a_direct_run_past_its_deadline_becomes_a_task_that_failed() -> None:
    async with world(direct=True, task_deadline_s=10.0) as w:
        answer = w.soon(w.send("hang"))
        await w.clock.advance(12)
        task = await answer
        assert (task.status.state, said(task)) == (
            TaskState.FAILED,
            "The agent did not finish within 10 s.",
        )


async def test_the_reader_of_a_direct_run_may_leave() -> None:
    async with world(direct=True) as w:
        reading = await w.stream("wait a; say hello")
        await w.gates.reached("a")
        reading.close()
        w.gates.open("a")
        await settle()
        [task] = await w.listed()
        assert said(task) == "hello"
        assert not w.service.readers.subscriptions
