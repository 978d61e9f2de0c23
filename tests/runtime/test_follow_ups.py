"""Further messages for a task that exists."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.world import World, next_morning, said, world

from trunkline.model.errors import TaskNotFound, UnsupportedOperation
from trunkline.model.values import TaskState, text_of
from trunkline.ports.store import Store
from trunkline.testing import settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, INPUT_REQUIRED = TaskState.COMPLETED, TaskState.INPUT_REQUIRED


def artifacts(task: Any) -> dict[str, str]:
    return {each.artifact_id: text_of(each.parts) for each in task.artifacts}


async def test_an_answer_continues_the_task_in_a_new_turn() -> None:
    async with world() as w:
        asked = await w.send("say hm; ask which size?")
        assert (asked.status.state, said(asked)) == (INPUT_REQUIRED, "which size?")
        done = await w.send("say XL", task=asked.id)
        assert done.status.state is COMPLETED
        assert await w.states(asked.id) == [
            SUBMITTED,
            WORKING,
            INPUT_REQUIRED,
            SUBMITTED,
            WORKING,
            COMPLETED,
        ]
        second = w.scripted.turns[1]
        assert [text_of(m.parts) for m in second.history] == [
            "say hm; ask which size?",
            "which size?",
        ]
        assert [each.artifact_id for each in second.artifacts] == ["answer"]


async def test_artifacts_of_later_turns_do_not_overwrite_earlier_ones() -> None:
    async with world() as w:
        task = await w.send("say one; ask more?")
        for word in ("two", "three"):
            # The same id each time: real clients do that.
            task = await w.send(f"say {word}; ask more?", task=task.id, id="m")
        assert len(w.runtime.registry) == 0
        task = await w.send("say four", task=task.id, id="m")
        assert artifacts(task) == {
            "answer": "one",
            "answer-2": "two",
            "answer-3": "three",
            "answer-4": "four",
        }
        texts = [text_of(message.parts) for message in task.history]
        assert [text for text in texts if text.startswith("say")] == [
            "say one; ask more?",
            "say two; ask more?",
            "say three; ask more?",
            "say four",
        ]


async def test_messages_for_a_running_task_wait_and_become_its_next_turns() -> None:
    async with world() as w:
        first = w.soon(w.send("wait a; say one", context="c"))
        await w.gates.reached("a")
        [running] = await w.listed()
        second = w.soon(w.send("say two", task=running.id))
        third = w.soon(w.send("say three", task=running.id))
        await settle()
        assert await w.state(running.id) is WORKING
        w.gates.open("a")
        # The task does not end in between, so all three get the same answer.
        done = await first
        assert done == await second == await third
        assert artifacts(done) == {"answer": "one", "answer-2": "two", "answer-3": "three"}
        assert await w.states(done.id) == [
            *(SUBMITTED, WORKING, WORKING, WORKING),
            *(SUBMITTED, WORKING, SUBMITTED, WORKING, COMPLETED),
        ]
        # A turn knows what was said before its own message, not what waits behind it.
        assert [
            [text_of(m.parts) for m in turn.history if m.role.value == "ROLE_USER"]
            for turn in w.scripted.turns
        ] == [[], ["wait a; say one"], ["wait a; say one", "say two"]]


async def test_a_message_that_already_waits_answers_the_question() -> None:
    async with world() as w:
        task = await w.submit("wait a; ask which size?")
        await w.gates.reached("a")
        answer = w.soon(w.send("say XL", task=task.id))
        await settle()
        w.gates.open("a")
        assert (await answer).status.state is COMPLETED
        assert INPUT_REQUIRED not in await w.states(task.id)
        assert "which size?" in [text_of(m.parts) for m in (await w.get(task.id)).history]


async def test_a_failing_turn_ends_the_task_and_drops_what_waits() -> None:
    async with world() as w:
        task = await w.submit("wait a; fail no", context="c")
        await w.gates.reached("a")
        more = w.soon(w.send("say two", task=task.id))
        other = w.soon(w.send("say other", context="c"))
        await settle()
        w.gates.open("a")
        assert (await more).status.state is TaskState.FAILED
        assert (await other).status.state is COMPLETED
        assert len(w.scripted.turns) == 2


async def test_an_ended_task_takes_no_message_and_stays_out_of_memory() -> None:
    async with world() as w:
        done = await w.send("say one")
        with pytest.raises(UnsupportedOperation):
            await w.send("say two", task=done.id)
        with pytest.raises(TaskNotFound):
            await w.send("say two", task="unknown")
        assert len(w.runtime.registry) == 0


async def test_waiting_messages_run_after_a_restart_each_as_its_own_turn(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one")
    await first.open()
    blocker = await first.submit("wait a", context="c")
    await first.gates.reached("a")
    task = await first.submit("say one", context="c")
    await first.submit("say two", task=task.id)
    await first.submit("say three", task=task.id)
    await first.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as w:
        done = await w.ended(task.id)
        assert artifacts(done) == {"answer": "one", "answer-2": "two", "answer-3": "three"}
        assert len({turn.run_id for turn in w.scripted.turns}) == 3
        assert [text_of(m.parts) for m in done.history if m.role.value == "ROLE_AGENT"] == [
            "one",
            "two",
            "three",
        ]
        assert (await w.get(blocker.id)).status.state is TaskState.FAILED
