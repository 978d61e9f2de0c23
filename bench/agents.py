"""The benchmarked agents as Trunkline serves them: `trunkline serve bench/agents.py:NAME`."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.script import play
from trunkline import Turn, agent


# It only computes, so it may start before its task is stored; nothing shows before that.
@agent(name="bench", pure=True)
async def pure(turn: Turn) -> AsyncIterator[str]:
    async for chunk in play(turn.text):
        yield chunk


# As people write them. It may have effects, so it starts when the store knows that it began.
@agent(name="bench")
async def ordinary(turn: Turn) -> AsyncIterator[str]:
    async for chunk in play(turn.text):
        yield chunk


# For the time that a cancel takes: its text is a file, which says when the run was stopped.
@agent(name="bench")
async def waiting(turn: Turn) -> AsyncIterator[str]:
    yield "waiting"
    try:
        await asyncio.Event().wait()
    finally:
        _write_time(Path(turn.text))


def _write_time(path: Path) -> None:
    path.write_text(str(time.monotonic_ns()))
