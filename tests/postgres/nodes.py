"""Nodes that share one PostgreSQL: each a store and a cluster."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg

from trunkline.clock import SystemClock
from trunkline.ports.cluster import Notice, Times
from trunkline.stores.postgres.cluster import PostgresCluster
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing.stores.lanes import Node

# No lease ends by itself in a test, however slow the machine is.
PATIENT = Times(beat_s=20.0, lease_s=60.0)


async def end_lease(url: str, node: int) -> None:
    """Let the lease of the node end now, by the clock of the database."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "UPDATE nodes SET lease_until = clock_timestamp() WHERE node = %s", [node]
        )


class PostgresNode:
    """The store and the cluster of one node, in one object, as checks want them."""

    def __init__(self, url: str, *, times: Times = PATIENT, **options: Any) -> None:
        self.store = PostgresStore(url, allow_unsafe=True)
        self.cluster = PostgresCluster(url, self.store, clock=SystemClock(), times=times, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster if hasattr(PostgresCluster, name) else self.store, name)

    async def close(self) -> None:
        await self.cluster.close()
        await self.store.close()


class PostgresNodes:
    def __init__(self, url: str, *, times: Times = PATIENT) -> None:
        self.url = url
        self.times = times
        self.made: list[PostgresNode] = []

    async def add(self, hear: Callable[[Notice], None] = lambda _: None) -> PostgresNode:
        node = PostgresNode(self.url, times=self.times)
        self.made.append(node)
        await node.store.open()
        await node.cluster.join(hear)
        return node

    async def join(self, heard: list[Notice]) -> Node:
        return cast("Node", await self.add(heard.append))

    async def let_die(self, node: Node) -> None:
        await end_lease(self.url, cast("PostgresNode", node).store.node)

    async def close(self) -> None:
        for node in self.made:
            await node.close()


@asynccontextmanager
async def postgres_nodes(url: str, *, times: Times = PATIENT) -> AsyncIterator[PostgresNodes]:
    nodes = PostgresNodes(url, times=times)
    try:
        yield nodes
    finally:
        await nodes.close()
