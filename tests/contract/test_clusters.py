"""Every store that several nodes share passes the same checks."""

import pytest
from tests.postgres.fixtures import ON_EVERY_POSTGRES
from tests.postgres.nodes import postgres_nodes

from trunkline.engine.slot_shares import WAITS_MS
from trunkline.ports.cluster import Notice
from trunkline.testing import FakeClock
from trunkline.testing.check_store import CLUSTER_CHECKS, ClusterCheck
from trunkline.testing.shared_store import LEASE_MS, SharedStore
from trunkline.testing.stores.lanes import Node
from trunkline.testing.stores.slots import ask


class SharedNodes:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = SharedStore(self.clock)

    async def join(self, heard: list[Notice]) -> Node:
        node = self.store.node()
        await node.open()
        await node.join(heard.append)
        return node

    async def let_die(self, node: Node) -> None:
        await self.clock.advance(LEASE_MS / 1000 - 1)
        for other in self.store.nodes:
            if other is not node:
                await other.beat()
        await self.clock.advance(2)


@pytest.mark.parametrize("check", CLUSTER_CHECKS, ids=lambda check: check.__name__)
async def test_shared_store(check: ClusterCheck) -> None:
    await check(SharedNodes())


@ON_EVERY_POSTGRES
@pytest.mark.parametrize("check", CLUSTER_CHECKS, ids=lambda check: check.__name__)
async def test_postgres(check: ClusterCheck, cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes:
        await check(nodes)


async def test_a_node_that_has_not_asked_for_a_while_waits_for_no_slot() -> None:
    nodes = SharedNodes()
    one, two, three = [await nodes.join([]) for _ in range(3)]
    await ask(one, 1, limit=1)
    await ask(two, 1, limit=1)
    await nodes.clock.advance(WAITS_MS / 1000 - 1)
    await ask(one, 0, limit=1)
    assert (await ask(three, 1, limit=1)).held == 0
    await nodes.clock.advance(1)
    assert (await ask(three, 1, limit=1)).held == 1
