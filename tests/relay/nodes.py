"""`RelayNodes`: several relays on one store in memory, with wires between them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.relay.wire import End, Wire
from tests.relay.world import AGENT, RelayWorld

from trunkline.ports.cluster import Missed, Notice, Told
from trunkline.relay.nodes.lease_records import LeaseRecords, SharedLease
from trunkline.relay.nodes.node import RelayNode
from trunkline.relay.nodes.shared_leases import TOPIC
from trunkline.relay.relay import RelaySettings
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import TIMES, Node, SharedStore


class NodeWorld(RelayWorld):
    """One relay, with its place in the store."""

    def __init__(
        self, nodes: "RelayNodes", settings: RelaySettings, store: Node, *, url: str = ""
    ) -> None:
        super().__init__(settings, clock=nodes.clock)
        self.store = store
        self.url = url or f"ws://node{len(nodes.all)}"
        self._nodes = nodes
        self.node = RelayNode(
            self.relay,
            self.requests,
            store=store,
            url=self.url,
            times=TIMES,
            clock=nodes.clock,
            tell=lambda text: store.tell(Told(TOPIC, text)),
            dial=self._dial_node,
        )
        # Where other nodes connect.
        self.hop_wire = Wire(self.node.mount, self.tasks)
        self.is_dead = False

    async def open(self) -> None:
        await self.store.open()
        await self.store.join(self._hear)
        self.relay.start()
        self.node.start()

    def _hear(self, notice: Notice) -> None:
        if isinstance(notice, Missed) or (isinstance(notice, Told) and notice.topic == TOPIC):
            self.node.leases.hear(notice.text if isinstance(notice, Told) else "")

    async def _dial_node(self, url: str, credential: str) -> End:
        return await self._nodes.at(url).hop_wire.connect(credential)

    async def kill(self) -> None:
        """End the process, without a word to the others."""
        self.is_dead = True
        self.store.kill()
        for wire in (self.wire, self.hop_wire):
            wire.is_down = True
            wire.cut()
        for hop in self.node.hops:
            hop.session.end = lambda close: None  # type: ignore[method-assign]
        await self.close()

    async def close(self) -> None:
        for host in self.hosts:
            await host.close()
        await self.node.close()
        await self.relay.close()
        await self.tasks.close()


class RelayNodes:
    def __init__(self, count: int, settings: RelaySettings) -> None:
        self.clock = FakeClock()
        self.store = SharedStore(self.clock)
        self.records = LeaseRecords(self.store)
        self.all: list[NodeWorld] = []
        self._settings = settings
        for _ in range(count):
            self.add()

    def add(self, *, url: str = "") -> NodeWorld:
        world = NodeWorld(self, self._settings, self.store.node(), url=url)
        self.all.append(world)
        return world

    def __getitem__(self, number: int) -> NodeWorld:
        return self.all[number]

    def at(self, url: str) -> NodeWorld:
        return next(world for world in self.all if world.url == url)

    async def lease(self, agent: str = AGENT) -> SharedLease | None:
        """As the store has it."""
        return await self.records.find(agent)


@asynccontextmanager
async def relay_nodes(
    count: int = 2, settings: RelaySettings | None = None
) -> AsyncIterator[RelayNodes]:
    nodes = RelayNodes(count, settings or RelaySettings())
    for world in nodes.all:
        await world.open()
    try:
        yield nodes
    finally:
        for world in nodes.all:
            if not world.is_dead:
                if world.store.is_paused:
                    world.store.resume()
                await world.close()
        await settle()
