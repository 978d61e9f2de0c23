"""Named gates: a test decides in which order things happen."""

import asyncio
from collections import defaultdict


class Gates:
    """Runs wait at a gate until it is opened. An open gate stays open."""

    def __init__(self) -> None:
        self._open: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def wait(self, name: str) -> None:
        self._reached[name].set()
        await self._open[name].wait()

    def open(self, name: str) -> None:
        self._open[name].set()

    async def reached(self, name: str) -> None:
        """Wait until somebody stands at the gate, or has passed it."""
        await self._reached[name].wait()
