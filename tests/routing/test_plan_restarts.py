"""A debate and a batch go on after a restart, wherever the process died."""

import asyncio
from collections import Counter
from typing import Any, Literal

import pytest
from tests.routing.test_debates import Panel, hangs, task_of
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.model.values import TaskState, text_of
from trunkline.ports.store import Scope, TaskQuery
from trunkline.stores.memory import MemoryStore
from trunkline.testing import CrashingStore, FakeClock
from trunkline.testing.shared_store import SharedStore

# What differs from one debate to the next.
_IDS = ("correlationId", "taskId")
_STEPS = {"acme/poet": 2, "acme/hot": 1, "acme/far": 1, "acme/judge": 1}


def without_ids(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in _IDS}


async def results(w: CallWorld) -> list[dict[str, Any]]:
    return [entry["output"] for entry in await w.entries("caller", "c1")]


async def ended(w: CallWorld) -> list[dict[str, Any]]:
    """The results, once there is one."""

    async def look() -> list[dict[str, Any]]:
        await w.clock.advance(1)
        return await results(w)

    found: list[dict[str, Any]] = await until(look)
    return found


async def tasks(store: MemoryStore, agent: str) -> Counter[TaskState]:
    """How the tasks of the agent ended."""
    page = await store.list(TaskQuery(scope=Scope(agent, "", "alice"), limit=100))
    return Counter(each.state for each in page.tasks)


async def undisturbed() -> tuple[dict[str, Any], int]:
    """The result of a debate that nothing interrupts, and the number of calls of the store."""
    clock = FakeClock()
    store = CrashingStore(MemoryStore(clock), crash_on=0)
    async with calling(Panel(wait=False).agents, store=store, clock=clock) as w:
        await w.send("caller", "go", context="c1")
        (result,) = await ended(w)
        return without_ids(result), store.calls


async def until_crash(w: CallWorld, store: CrashingStore) -> None:
    """Begin a debate, and leave when the store has crashed or the debate has ended."""

    async def begin() -> None:
        await w.open()
        await w.send("caller", "go", context="c1")

    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(begin())
        for _ in range(12):
            await w.clock.advance(0.1)
            if store.crashed.is_set():
                break
        beginning.cancel()
    await w.vanish()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_debate_has_the_same_result_wherever_the_process_dies(
    when: Literal["before", "after"],
) -> None:
    expected, count = await undisturbed()
    interrupted = 0
    for crash_on in range(1, count + 1):
        clock = FakeClock()
        inner = MemoryStore(clock)
        store = CrashingStore(inner, crash_on=crash_on, when=when)
        await until_crash(CallWorld(Panel(wait=False).agents, store=store, clock=clock), store)
        async with calling(Panel(wait=False).agents, store=inner, clock=clock, node="next") as w:
            await clock.advance(1)
            begun = [each for each in await w.calls() if each.call.callee == "tool:debate_call"]
            assert len(begun) <= 1
            if not begun:
                # The caller was not answered, so it asks again.
                await w.send("caller", "go", context="c1")
            (result,) = await ended(w)
            assert without_ids(result) == expected, crash_on
            await clock.advance(1)
            assert len(await results(w)) == 1
            for agent, steps in _STEPS.items():
                by_state = await tasks(inner, agent)
                # A call whose agent was interrupted is made once more, and no other is.
                assert by_state.pop(TaskState.COMPLETED) == steps, (crash_on, agent)
                interrupted += by_state.pop(TaskState.FAILED, 0)
                assert not by_state
    assert interrupted


async def test_a_resumed_debate_tells_each_step_once() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    panel = Panel(wait=False)
    panel.does["far"] = hangs
    async with calling(panel.agents, store=store, clock=clock) as w:
        await w.send("caller", "go", context="c1")
        await clock.advance(1)
        await w.vanish()
    async with calling(Panel(wait=False).agents, store=store, clock=clock, node="next") as w:
        (result,) = await ended(w)
        assert result["status"] == "resolved"
        task = await task_of(w, result["correlationId"])
    told = [text_of(each.parts).partition(":")[0] for each in task.history[1:]]
    assert sorted(told) == [
        "proposal",
        "resolution",
        "round 1, critic 1",
        "round 1, critic 2",
        "round 1, refinement",
    ]


@pytest.mark.parametrize("grace_s", [0, 5])
async def test_a_gateway_that_stops_leaves_the_debate_to_the_next_one(grace_s: float) -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    panel = Panel(wait=False)
    panel.does["far"] = hangs
    async with calling(panel.agents, store=store, clock=clock) as w:
        await w.send("caller", "go", context="c1")
        await clock.advance(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(w.main.drain(grace_s=grace_s))
            await clock.advance(grace_s + 10)
        assert not await results(w)
    async with calling(Panel(wait=False).agents, store=store, clock=clock, node="next") as w:
        (result,) = await ended(w)
        assert without_ids(result) == (await undisturbed())[0]


async def test_another_node_goes_on_with_the_debate_of_one_that_is_gone() -> None:
    clock = FakeClock()
    shared = SharedStore(clock)
    panel, other = Panel(wait=False), Panel(wait=False)
    panel.does["far"] = hangs
    first, second = shared.node(), shared.node()
    w = CallWorld(panel.agents, store=first, cluster=first, clock=clock, node="first")
    await w.open()
    async with calling(
        other.agents, store=second, cluster=second, clock=clock, node="second"
    ) as survivor:
        await w.send("caller", "go", context="c1")
        await clock.advance(1)
        assert panel.turns == ["propose", "hot", "far"]
        first.kill()
        await w.vanish()
        (result,) = await ended(survivor)
        assert without_ids(result) == (await undisturbed())[0]
        assert other.turns == ["far", "refine", "resolve"]
        await clock.advance(30)
        assert len(await results(survivor)) == 1


async def test_a_resumed_batch_asks_only_for_what_it_has_not_asked_for() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    turns: list[str] = []

    async def helper(turn: Turn) -> str:
        turns.append(turn.text)
        if turn.text == "b":
            await turn.canceled()
        return f"about {turn.text}"

    async def caller(turn: Turn) -> str:
        calls = [{"agent": "acme/helper", "input": text} for text in "abc"]
        await turn.call_batch(calls, concurrency=1, wait=False)
        return "asked"

    agents = {"caller": caller, "helper": helper}
    async with calling(agents, store=store, clock=clock) as w:
        await w.send("caller", "go", context="c1")
        await clock.advance(1)
        assert turns == ["a", "b"]
        await w.vanish()
    async with calling(agents, store=store, clock=clock, node="next") as w:
        (result,) = await ended(w)
        a, b, c = result["results"]
        assert (a["output"], c["output"]) == ("about a", "about c")
        # A batch may do things, so an agent that was interrupted is not asked again.
        assert b["error"]["code"] == "gateway_restarted"
        assert turns == ["a", "b", "c"]


async def test_a_restart_leaves_the_total_timeout_as_it_was() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    panel = Panel(wait=False, total_timeout_s=20)
    panel.does["far"] = hangs
    async with calling(panel.agents, store=store, clock=clock) as w:
        await w.send("caller", "go", context="c1")
        await clock.advance(15)
        await w.vanish()
    async with calling(panel.agents, store=store, clock=clock, node="next") as w:
        await clock.advance(4.9)
        assert not await results(w)
        await clock.advance(0.2)
        (result,) = await ended(w)
        assert result["error"]["code"] == "total_timeout"


async def test_a_debate_that_comes_back_too_late_asks_nobody() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    panel = Panel(wait=False, total_timeout_s=20)
    panel.does["far"] = hangs
    async with calling(panel.agents, store=store, clock=clock) as w:
        await w.send("caller", "go", context="c1")
        await clock.advance(5)
        await w.vanish()
    clock.jump(3600)
    again = Panel(wait=False)
    async with calling(again.agents, store=store, clock=clock, node="next") as w:
        await clock.advance(5)
        (entry,) = await w.entries("caller", "c1")
        assert entry["kind"] in ("skill_timeout", "skill_response")
        assert not again.turns
