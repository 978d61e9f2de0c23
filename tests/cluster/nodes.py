"""Several runtimes on one shared store, each with a scripted agent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.runtime.world import World

from trunkline.ports.cluster import lane_name
from trunkline.ports.store import Scope
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import Node, SharedStore


class Nodes:
    def __init__(
        self,
        count: int,
        *,
        store: SharedStore | None = None,
        clock: FakeClock | None = None,
        make: Callable[..., World] = World,
        **options: Any,
    ) -> None:
        """`make` makes the runtime of a node."""
        self._make = make
        self.clock = clock or FakeClock()
        self.store = store or SharedStore(self.clock)
        self.options = options
        self.worlds: list[World] = []
        self.nodes: list[Node] = []
        for _ in range(count):
            self.add()

    def add(self, node: Node | None = None, **options: Any) -> World:
        node = node or self.store.node()
        number = len(self.worlds)
        world = self._make(
            store=node, clock=self.clock, cluster=node, node=f"n{number}", **self.options, **options
        )
        self.nodes.append(node)
        self.worlds.append(world)
        return world

    def owner(self, task_or_context: str) -> int | None:
        """The number of the node that owns the lane of a context of Alice."""
        name = lane_name(Scope("test/agent", "", "alice"), task_or_context)
        owner = self.store.owner_of(name)
        found = [number for number, node in enumerate(self.nodes) if owner and node.name == owner]
        return found[0] if found else None

    async def kill(self, number: int) -> None:
        """End the process of a node, without a word to the others."""
        self.nodes[number].kill()
        await self.worlds[number].vanish()

    async def close(self) -> None:
        for world, node in zip(self.worlds, self.nodes, strict=True):
            if not node.is_dead:
                if node.is_paused:
                    node.resume()
                await world.close()


@asynccontextmanager
async def nodes(count: int = 2, **options: Any) -> AsyncIterator[Nodes]:
    made = Nodes(count, **options)
    for world in made.worlds:
        await world.open()
    try:
        yield made
    finally:
        await made.close()
    await settle()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"left behind: {left}"
