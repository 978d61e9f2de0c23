"""The benchmarked agents as Trunkline serves them: `trunkline serve bench/agents.py:NAME`."""

from collections.abc import AsyncIterator

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
