"""The benchmarked agent as Trunkline serves it: `trunkline serve bench/agents.py`."""

from collections.abc import AsyncIterator

from bench.script import play
from trunkline import Turn, agent


@agent(name="bench")
async def bench(turn: Turn) -> AsyncIterator[str]:
    async for chunk in play(turn.text):
        yield chunk
