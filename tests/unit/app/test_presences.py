"""How often backends are asked whether they are there, and what is told meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from trunkline.app.presences import ASK_S, FRESH_S, USABLE_S, Presences
from trunkline.model.outputs import Output
from trunkline.ports.backend import TurnRequest
from trunkline.runtime.agents import PublishedAgent
from trunkline.testing import FakeClock, ScriptedBackend, settle


class Away:
    """A backend whose agent comes and goes."""

    may_reply_directly = is_pure = can_resume = False

    def __init__(self) -> None:
        self.is_there = True
        self.asked = 0
        self.fails = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def presence(self) -> bool:
        self.asked += 1
        await self.answers.wait()
        if self.fails:
            raise RuntimeError("no idea")
        return self.is_there

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        raise NotImplementedError

    async def cancel(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


def agent_of(backend: Away | ScriptedBackend) -> PublishedAgent:
    return PublishedAgent(handle="acme/x", backend=backend)


async def test_an_agent_inside_the_gateway_is_always_there() -> None:
    presences = Presences(FakeClock())
    assert await presences.is_online(agent_of(ScriptedBackend(clock=FakeClock())))


async def test_a_backend_is_asked_once_for_a_crowd_and_again_when_its_answer_is_old() -> None:
    clock, backend = FakeClock(), Away()
    presences, agent = Presences(clock), agent_of(backend)
    assert await asyncio.gather(*(presences.is_online(agent) for _ in range(50))) == [True] * 50
    assert backend.asked == 1
    backend.is_there = False
    await clock.advance(FRESH_S - 0.1)
    assert await presences.is_online(agent)
    assert backend.asked == 1
    await clock.advance(0.2)
    # The old answer, while the backend is asked.
    assert await presences.is_online(agent)
    await settle()
    assert backend.asked == 2
    assert not await presences.is_online(agent)
    backend.is_there = True
    await clock.advance(USABLE_S)
    # Too old to be told.
    assert await presences.is_online(agent)
    await presences.close()


async def test_a_backend_that_cannot_say_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    backend = Away()
    backend.fails = True
    presences = Presences(FakeClock())
    assert not await presences.is_online(agent_of(backend))
    assert "cannot say whether it is there" in caplog.text


async def test_a_backend_that_does_not_answer_holds_no_reader_for_long() -> None:
    backend = Away()
    backend.answers.clear()
    presences = Presences(FakeClock())
    async with asyncio.timeout(ASK_S * 10):
        assert not await presences.is_online(agent_of(backend))
    await presences.close()
