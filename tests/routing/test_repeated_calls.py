"""A call that is made again, as after a restart, has the result of the first time."""

import asyncio
from typing import Any

import pytest
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallPolicy, CallRefused
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, settle

ASKED = {"agent": "acme/researcher", "input": "the moon"}
CALLER = {"caller": lambda turn: "unused"}


class Researcher:
    """Counts its turns, and waits where it is told to."""

    def __init__(self, *, waits: bool = False) -> None:
        self.turns = 0
        self.waits = waits

    async def __call__(self, turn: Turn) -> str:
        self.turns += 1
        if self.waits:
            await turn.canceled()
        return f"answer {self.turns}"

    @property
    def agents(self) -> dict[str, Any]:
        async def research(turn: Turn) -> str:
            return await self(turn)

        return {**CALLER, "researcher": research}


async def ask(w: CallWorld, *, waits: bool = True) -> dict[str, Any]:
    turn = w.turn_of("caller", context="c1")
    asked = {**ASKED, "wait": waits}
    return await w.routing.calls.call(turn, asked, source_tool="agent_call", id="step-1")


async def test_the_agent_is_asked_once() -> None:
    researcher = Researcher()
    async with calling(researcher.agents) as w:
        first = await ask(w)
        assert first["output"] == "answer 1"
        assert await ask(w) == first
        assert researcher.turns == 1
        assert w.routing.counts.begun == 1


async def test_the_result_outlives_a_restart_and_a_change_of_the_rules() -> None:
    clock, researcher = FakeClock(), Researcher()
    store = MemoryStore(clock)
    async with calling(researcher.agents, store=store, clock=clock) as w:
        first = await ask(w)
        await w.vanish()
    forbidden = {"caller": CallPolicy(may_call=())}
    async with calling(
        researcher.agents, store=store, clock=clock, node="next", policies=forbidden
    ) as w:
        assert await ask(w) == first
        assert researcher.turns == 1


async def test_a_call_that_is_under_way_is_waited_for_until_its_first_deadline() -> None:
    researcher = Researcher(waits=True)
    async with calling(researcher.agents) as w:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(w))
            await w.clock.advance(50)
            again = group.create_task(ask(w))
            await settle()
            assert not again.done()
            await w.clock.advance(10.5)
        assert first.result()["kind"] == "skill_timeout"
        assert again.result() == first.result()
        assert researcher.turns == 1


async def test_without_waiting_the_result_is_that_of_the_first_time() -> None:
    researcher = Researcher()
    async with calling(researcher.agents) as w:
        first = await ask(w, waits=False)
        await until(lambda: w.entries("caller", "c1"))
        assert await ask(w, waits=False) == first
        assert len(await w.entries("caller", "c1")) == 1
        assert researcher.turns == 1


async def test_a_caller_whose_session_was_ended_is_told_so() -> None:
    researcher = Researcher(waits=True)
    async with calling(researcher.agents) as w:
        turn = w.turn_of("caller", context="c1")

        async def ends() -> None:
            with pytest.raises(CallRefused, match="the session was ended"):
                await ask(w)

        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ends())
            await w.clock.advance(1)
            assert await w.routing.sessions.end(turn.session) == 1
            await settle()
            assert asking.done()
