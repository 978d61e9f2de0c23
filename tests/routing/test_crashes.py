"""R-10 and R-14: the called agent does not get to the end of its turn."""

from typing import Any

import pytest
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallLimits, OnCrash
from trunkline.model.profile import Profile
from trunkline.model.values import text_of
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock


async def asks(turn: Turn) -> str:
    made = await turn.call("acme/helper", turn.text, wait=False, timeout_s=30)
    return str(made["taskId"])


async def helper(turn: Turn) -> str:
    if turn.text == "raise":
        raise RuntimeError("a bug of the agent")
    if turn.text == "slowly":
        await turn.canceled()
    return "done"


AGENTS = {"caller": asks, "helper": helper}


def when(on_crash: OnCrash) -> CallLimits:
    return CallLimits(on_callee_crash=on_crash)


async def only_entry(w: CallWorld) -> Any:
    (entry,) = await until(lambda: w.entries("caller", "c1"))
    return entry


async def test_the_caller_learns_at_once_that_the_agent_failed() -> None:
    async with calling(AGENTS) as w:
        await w.send("caller", "raise", context="c1")
        entry = await only_entry(w)
        assert (entry["status"], entry["error"]["code"]) == ("error", "agent_failed")
        await w.clock.advance(60)
        assert len(await w.entries("caller", "c1")) == 1


async def test_the_caller_gets_the_timeout_where_a_crash_is_none_of_its_business() -> None:
    async with calling(AGENTS, limits=when("wait_for_timeout")) as w:
        await w.send("caller", "raise", context="c1")
        await w.clock.advance(29)
        assert not await w.entries("caller", "c1")
        await w.clock.advance(2)
        entry = await only_entry(w)
        assert (entry["kind"], entry["message"]) == (
            "skill_timeout",
            "Agent call timed out after 30000ms",
        )


async def test_the_caller_learns_that_the_agent_was_withdrawn() -> None:
    async with calling(AGENTS) as w:
        await w.send("caller", "slowly", context="c1")
        await w.main.publishing.withdraw("acme/helper", grace_s=0)
        entry = await only_entry(w)
        assert (entry["status"], entry["error"]["code"]) == ("error", "agent_withdrawn")


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("on_crash", ["error", "wait_for_timeout"])
async def test_the_caller_learns_that_the_gateway_stopped(
    on_crash: OnCrash, is_killed: bool
) -> None:
    """At once, or with the timeout that the call has had from the beginning."""
    clock = FakeClock()
    store = MemoryStore(clock)
    same: Any = {"store": store, "clock": clock, "limits": when(on_crash)}
    async with calling(AGENTS, **same) as w:
        task = await w.send("caller", "slowly", context="c1")
        callee_task = text_of(task.artifacts[0].parts)
        await clock.advance(10)
        if is_killed:
            await w.vanish()
        else:
            await w.main.drain(grace_s=0)
    await clock.advance(10)
    async with calling(AGENTS, node="next", **same) as w:
        if on_crash == "wait_for_timeout":
            await clock.advance(9)
            assert not await w.entries("caller", "c1")
            await clock.advance(1.1)
        entry = await only_entry(w)
        assert entry["taskId"] == callee_task
        if on_crash == "error":
            assert (entry["status"], entry["error"]["code"]) == ("error", "gateway_restarted")
        else:
            assert entry["kind"] == "skill_timeout"
        await clock.advance(60)
        assert len(await w.entries("caller", "c1")) == 1


async def test_a_call_on_its_way_to_the_main_store_keeps_its_deadline() -> None:
    """The gateway stops before it has taken the call there."""
    clock = FakeClock()
    same: Any = {
        "clock": clock,
        "limits": when("wait_for_timeout"),
        "elsewhere": {"helper": helper},
    }
    async with calling({"caller": asks}, **same) as w:
        same |= {"store": w.store, "other_store": w.runtimes[1].store}
        w.runtimes[1].due._is_closing = True
        await w.send("caller", "slowly", context="c1")
        assert not await w.calls()
        await w.vanish()
    await clock.advance(20)
    async with calling({"caller": asks}, node="next", **same) as w:
        await clock.advance(1)
        await until(w.calls)
        await clock.advance(8)
        assert not await w.entries("caller", "c1")
        await clock.advance(2)
        entry = await only_entry(w)
        assert entry["kind"] == "skill_timeout"


async def test_a_turn_that_is_run_again_after_a_restart_answers_the_call_once() -> None:
    """Trap 1: what the first run said does not count."""
    clock = FakeClock()
    profile = Profile(on_restart=("retry_running", "resume_queued"))
    same: Any = {"clock": clock, "store": MemoryStore(clock)}
    same |= {"published": {"helper": {"profile": profile}}}
    runs: list[str] = []

    async def helper(turn: Turn) -> Any:
        runs.append(turn.text)
        yield turn.artifact(name="draft", text=f"draft {len(runs)}")
        if len(runs) == 1:
            await turn.canceled()

    agents = {"caller": asks, "helper": helper}
    async with calling(agents, **same) as w:
        await w.send("caller", "a poem", context="c1")
        await clock.advance(5)
        await w.vanish()
    async with calling(agents, node="next", **same) as w:
        entry = await only_entry(w)
        assert (entry["status"], entry["output"]) == ("completed", "draft 2")
        await clock.advance(60)
        assert len(await w.entries("caller", "c1")) == 1
        assert runs == ["a poem", "a poem"]


@pytest.mark.parametrize("agent_style", ["hybrid", "declared"])
async def test_an_agent_that_answers_without_a_task_has_one_for_a_call(agent_style: Any) -> None:
    published = {"helper": {"profile": Profile(agent_style=agent_style)}}
    async with calling(AGENTS, published=published) as w:
        task = await w.send("caller", "quickly", context="c1")
        entry = await only_entry(w)
        assert entry["output"] == "done"
        assert entry["taskId"] == text_of(task.artifacts[0].parts)
