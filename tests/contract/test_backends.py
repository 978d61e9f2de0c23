"""Every backend against the one behavioural suite."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.acceptance.openclaw import contract as openclaw
from tests.contract import models
from tests.programs.backends import SUBJECTS as PROGRAMS
from tests.runtime.loopback import Loopback
from tests.runtime.world import World

from trunkline import Turn, agent
from trunkline.backends.a2a.backend import A2aBackend
from trunkline.backends.echo.backend import EchoBackend
from trunkline.backends.python import Agent, PythonBackend
from trunkline.testing import BACKEND_CHECKS, BackendSubject, FakeClock, ScriptedBackend
from trunkline.testing.check_backend import Check


@agent
async def async_generator(turn: Turn) -> AsyncIterator[object]:
    if turn.text == "crash":
        raise RuntimeError("told to")
    if turn.text == "hang":
        yield "begun"
        await asyncio.Event().wait()
    if turn.text == "tool":
        call = turn.tool("search")
        yield call
        yield call.result({"hits": 2})
        yield call.summary("Two hits")
    if " then " in turn.text:
        first, second = turn.text.split(" then ")
        yield turn.block(first)
        yield turn.stage_end(first.upper(), first)
        yield turn.stage()
        yield turn.preview(second[:2])
        yield turn.preview(second)
        return
    yield "You said "
    yield turn.text


@agent
def generator(turn: Turn) -> Iterator[object]:
    if turn.text == "crash":
        raise RuntimeError("told to")
    if turn.text == "hang":
        yield "begun"
        while True:
            yield None
    yield "You said "
    yield turn.text


@agent
async def coroutine(turn: Turn) -> object:
    if turn.text == "crash":
        raise RuntimeError("told to")
    return f"You said {turn.text}"


@agent
def function(turn: Turn) -> object:
    if turn.text == "crash":
        raise RuntimeError("told to")
    return f"You said {turn.text}"


class HangingObject:
    """A callable object whose run is only seen through what it hands out."""

    def __call__(self, turn: Turn) -> object:
        return async_generator.fn(turn)


def python(of: Agent, **able: Any) -> BackendSubject:
    return BackendSubject(make=lambda: PythonBackend(of, clock=FakeClock()), crash="crash", **able)


async def upstream() -> A2aBackend:
    """In front of a scripted agent that has its own runtime."""
    there = World(node="up", context_mode="task")
    await there.open()
    backend = Loopback(there).backend()
    close = backend.close

    async def close_both() -> None:
        await close()
        await there.close()

    backend.close = close_both  # type: ignore[method-assign]
    return backend


SUBJECTS = {
    "echo": BackendSubject(make=EchoBackend),
    "python-async-generator": python(
        async_generator, hang="hang", tool="tool", stages="{first} then {second}"
    ),
    "python-generator": python(generator, hang="hang"),
    "python-coroutine": python(coroutine),
    "python-function": python(function),
    "python-object": python(Agent(HangingObject()), hang="hang"),
    "openclaw": BackendSubject(
        make=openclaw.over_websocket,
        hang="SAY begun\nHANG",
        tool='TOOL exec {"command": "echo hi"}',
        going_on="SAY {word}\nHANG",
    ),
    "openclaw-http": BackendSubject(make=openclaw.over_http, hang="SAY begun\nHANG"),
    "scripted": BackendSubject(
        make=lambda: ScriptedBackend(clock=FakeClock()),
        answer="say {word}",
        hang="say begun; hang",
        crash="crash",
        tool="tool search",
        stages="say {first}; stage; block {second}; stage-end {second}",
    ),
    "a2a": BackendSubject(
        make=upstream, answer="say {word}", hang="say begun; hang", going_on="say {word}; hang"
    ),
    "openai": BackendSubject(
        make=models.streaming,
        hang="SAY begun\nHANG",
        tool="TOOL search",
        stages="SAY {first}\nTOOL {second}",
    ),
    "openai-whole": BackendSubject(make=models.whole, tool="TOOL search"),
    "scripted-resumable": BackendSubject(
        make=lambda: ScriptedBackend(clock=FakeClock(), resumable=True),
        answer="say {word}",
        hang="say begun; hang",
        going_on="say {word}; hang",
    ),
    **PROGRAMS,
}


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS.keys())
async def test_backend(subject: BackendSubject, check: Check) -> None:
    await check(subject)
