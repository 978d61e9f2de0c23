"""The benchmarked agent as Trunkline serves it: `trunkline serve bench/agents.py`."""

from collections.abc import AsyncIterator

from bench.script import play
from trunkline import Turn, agent


# It only computes, so it may start before its task is stored; nothing shows before that.
@agent(name="bench", pure=True)
async def bench(turn: Turn) -> AsyncIterator[str]:
    async for chunk in play(turn.text):
        yield chunk
