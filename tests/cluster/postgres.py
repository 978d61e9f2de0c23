"""Several runtimes on one PostgreSQL in one process, with scripted agents and a real clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.postgres.nodes import PostgresNode, end_lease
from tests.runtime.world import World

from trunkline.clock import SystemClock
from trunkline.ports.cluster import Times
from trunkline.ports.store import Store
from trunkline.testing import FakeClock

# Nodes look often, and no lease ends by itself, however slow the machine is.
OFTEN = Times(beat_s=0.2, lease_s=60.0)
PATIENCE_S = 20


class PostgresCluster:
    def __init__(
        self, url: str, *, times: Times = OFTEN, make: Callable[..., World] = World, **options: Any
    ) -> None:
        """`make` makes the runtime of a node."""
        self.url = url
        self._make = make
        self.times = times
        self.options = options
        self.nodes: list[PostgresNode] = []
        self.worlds: list[World] = []
        self._dead: set[int] = set()

    async def add(self, url: str = "", **options: Any) -> World:
        node = PostgresNode(url or self.url, times=self.times)
        options.setdefault("clock", cast("FakeClock", SystemClock()))
        world = self._make(
            store=cast("Store", node.store),
            cluster=node.cluster,
            node=f"n{len(self.worlds)}",
            **self.options,
            **options,
        )
        self.nodes.append(node)
        self.worlds.append(world)
        await world.open()
        return world

    async def kill(self, number: int) -> None:
        """End the process of a node, without a word to the others, and let its lease end."""
        self._dead.add(number)
        # From now on nothing leaves it, whatever its runs do when they are ended.
        self.nodes[number].store.submit = lambda appends: None  # type: ignore[method-assign]
        await self.worlds[number].vanish()
        await self.nodes[number].close()
        await self.end_lease(number)

    async def end_lease(self, number: int) -> None:
        await end_lease(self.url, self.nodes[number].store.node)

    async def close(self) -> None:
        for number, world in enumerate(self.worlds):
            if number not in self._dead:
                await world.close()
                await self.nodes[number].close()


@asynccontextmanager
async def on_postgres(url: str, count: int = 2, **options: Any) -> AsyncIterator[PostgresCluster]:
    cluster = PostgresCluster(url, **options)
    try:
        for _ in range(count):
            await cluster.add()
        yield cluster
    finally:
        await cluster.close()
    left = [
        task for task in asyncio.all_tasks() if "src/trunkline" in repr(task.get_stack(limit=1))
    ]
    assert not left, f"left behind: {left}"


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when it is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await SystemClock().sleep(0.01)
