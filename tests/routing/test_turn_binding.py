"""Trap 1: each call ends with its own turn, whatever else happens to the task of that turn."""

from collections.abc import Callable
from typing import Any

from tests.routing.helpers import Helper, asks
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.model.values import Task, text_of
from trunkline.ports.store import Store
from trunkline.testing import FakeClock


def ids(task: Task) -> tuple[str, str]:
    """The ids of the call that the turn has made, and of its task."""
    call_id, task_id = text_of(task.artifacts[0].parts).split()
    return call_id, task_id


async def answers(w: CallWorld, count: int) -> dict[str, Any]:
    """The answers that came to the session, by the id of the call; no more come later."""

    async def come() -> Any:
        found = await w.entries("caller", "c1")
        return found if len(found) >= count else None

    await until(come)
    await w.clock.advance(1)
    found = await w.entries("caller", "c1")
    assert len(found) == count
    return {each["correlationId"]: each.get("output", each.get("error")) for each in found}


async def test_calls_of_one_task_that_overlap(
    clock: FakeClock, make_store: Callable[[], Store]
) -> None:
    """While the turn of the first call is under way, a second call and a message from outside come
    to the same task."""
    helper = Helper()
    agents = {"caller": asks, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        first, task_id = ids(await w.send("caller", "one", context="c1"))
        await helper.begun("one")
        second, same = ids(await w.send("caller", f"two@{task_id}", context="c1"))
        assert same == task_id
        await w.send("helper", "from outside", task=task_id, now=True)
        third, _ = ids(await w.send("caller", f"three@{task_id}", context="c1"))
        helper.open("from outside", "three", "one")
        assert await answers(w, 1) == {first: "about one"}
        helper.open("two")
        assert await answers(w, 3) == {
            first: "about one",
            second: "about two",
            third: "about three",
        }
        assert helper.heard == ["one", "two", "from outside", "three"]


async def test_a_turn_that_is_canceled_while_another_call_waits(
    clock: FakeClock, make_store: Callable[[], Store]
) -> None:
    helper = Helper()
    agents = {"caller": asks, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        first, task_id = ids(await w.send("caller", "one", context="c1"))
        await helper.begun("one")
        second, _ = ids(await w.send("caller", f"two@{task_id}", context="c1"))
        await w.cancel("helper", task_id)
        found = await answers(w, 2)
        assert {id: error["code"] for id, error in found.items()} == {
            first: "canceled",
            second: "canceled",
        }
        assert helper.heard == ["one"]


async def test_a_question_and_its_answer(clock: FakeClock, make_store: Callable[[], Store]) -> None:
    async def helper(turn: Turn) -> Any:
        if turn.asked is None:
            yield turn.artifact(name="draft", text="a draft")
            yield turn.ask("Which size?")
            return
        yield turn.artifact(name="final", text=f"size {turn.text}")

    agents = {"caller": asks, "helper": helper}
    async with calling(agents, store=make_store(), clock=clock) as w:
        first, task_id = ids(await w.send("caller", "a shirt", context="c1"))
        (entry,) = await until(lambda: w.entries("caller", "c1"))
        assert (entry["correlationId"], entry["status"]) == (first, "input_required")
        assert entry["question"] == "Which size?"
        second, same = ids(await w.send("caller", f"XL@{task_id}", context="c1"))
        assert same == task_id
        found = await answers(w, 2)
        # Without the artifact of the first turn.
        assert found[second] == "size XL"


async def test_after_a_restart_each_call_of_a_task_has_one_end(
    clock: FakeClock, make_store: Callable[[], Store]
) -> None:
    helper = Helper()
    agents = {"caller": asks, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        first, task_id = ids(await w.send("caller", "one", context="c1"))
        await helper.begun("one")
        second, _ = ids(await w.send("caller", f"two@{task_id}", context="c1"))
        other, _ = ids(await w.send("caller", "ask three", context="c1"))
        helper.open("ask three")
        await answers(w, 1)
        await w.vanish()
        await w.store.close()
    async with calling(agents, store=make_store(), clock=clock, node="next") as w:
        found = await answers(w, 3)
        assert {id: error and error["code"] for id, error in found.items()} == {
            first: "gateway_restarted",
            second: "gateway_restarted",
            other: None,
        }


async def test_a_late_answer_is_that_of_its_own_turn(
    clock: FakeClock, make_store: Callable[[], Store]
) -> None:
    async def polls(turn: Turn) -> Any:
        if turn.text.startswith("poll "):
            return await turn.poll(turn.text[5:])
        return await asks(turn)

    helper = Helper()
    agents = {"caller": polls, "helper": helper.answers}
    async with calling(agents, store=make_store(), clock=clock) as w:
        call_id, task_id = ids(await w.send("caller", "one", context="c1"))
        await helper.begun("one")
        await clock.advance(61)
        (entry,) = await until(lambda: w.entries("caller", "c1"))
        assert entry["kind"] == "skill_timeout"
        await w.send("helper", "from outside", task=task_id, now=True)
        helper.open("one", "from outside")
        await helper.begun("from outside")

        async def counted() -> Any:
            return w.routing.counts.ended["late"]

        assert await until(counted) == 1
        polled = await w.send("caller", f"poll {task_id}", context="c1")
        answer: Any = polled.artifacts[0].parts[0].data
        assert (answer["status"], answer["correlationId"]) == ("timeout", call_id)
        assert answer["late"]["output"] == "about one"
        assert len(await w.entries("caller", "c1")) == 1
