"""`PostgresCluster` where the network or the database fails: a node lives on, or begins anew."""

import asyncio
from typing import cast

import msgspec
import psycopg
import pytest
from tests.postgres.fixtures import fill_template
from tests.postgres.nodes import PATIENT, PostgresNode, postgres_nodes
from tests.postgres.proxy import database_proxy
from tests.postgres.server import PostgresServer

from trunkline.clock import SystemClock
from trunkline.model.errors import StoreUnusable
from trunkline.ports.cluster import Missed, NodeLeft, Notice, Posted
from trunkline.stores.postgres.cluster import PostgresCluster
from trunkline.testing.stores.kit import assert_results, create, put
from trunkline.testing.stores.lanes import AGENTS, LANE, must_take, of_lane
from trunkline.version import VERSION

PATIENCE_S = 20


class JumpingClock(SystemClock):
    passed_s = 0.0

    def monotonic(self) -> float:
        return SystemClock.monotonic() + self.passed_s


async def test_operators_see_what_a_node_is(cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes:
        node = await nodes.add()
        async with await psycopg.AsyncConnection.connect(cleared_postgres_url) as connection:
            cursor = await connection.execute("SELECT node, about, dead_at FROM nodes")
            [(name, about, dead_at)] = await cursor.fetchall()
        assert (name, dead_at) == (node.store.node, None)
        seen = msgspec.json.decode(about)
        assert seen["release"] == VERSION
        assert seen["pid"] > 0
        assert seen["host"]
        assert seen["started_ms"] > 0


async def test_a_lost_answer_to_a_beat_costs_nothing(cleared_postgres_url: str) -> None:
    async with (
        database_proxy(cleared_postgres_url) as proxy,
        postgres_nodes(cleared_postgres_url) as nodes,
    ):
        nodes.url = proxy.url
        proxy.lose_answer("beat", "INSERT INTO nodes")
        node = await nodes.add()
        name = node.store.node
        proxy.lose_answer("beat", "UPDATE nodes")
        assert await node.beat()
        proxy.cut("beat")
        assert await node.beat()
        assert node.store.node == name
        assert proxy.lost["beat"] == 2
        proxy.cut()
        proxy.refuse()
        with pytest.raises(StoreUnusable, match="cannot be reached"):
            await node.beat()
        with pytest.raises(StoreUnusable, match="cannot be reached"):
            await node.take(LANE)
        # Nobody waits for notices, and nobody learns that they were not sent.
        node.tell(Posted(LANE))


async def test_a_node_that_resigned_is_gone_and_may_join_again(cleared_postgres_url: str) -> None:
    heard: list[Notice] = []
    async with postgres_nodes(cleared_postgres_url) as nodes:
        other = await nodes.add(heard.append)
        node = await nodes.add()
        name = node.store.node
        await must_take(node)
        node.tell(Posted("last"))
        await node.resign()
        async with asyncio.timeout(PATIENCE_S):
            while NodeLeft() not in heard:
                assert await other.beat()
        # What it had to tell before is told as well.
        assert heard == [Posted("last"), NodeLeft()]
        assert not await node.beat()
        assert await node.take(LANE) is None
        assert not await node.take_over(agents=AGENTS, limit=9)
        assert len(await other.take_over(agents=AGENTS, limit=9)) == 1
        await node.join(heard.append)
        assert node.store.node not in (0, name)
        assert await node.beat()
        await node.resign()
        # Twice does no harm.
        await node.resign()


async def test_nobody_takes_over_for_a_lease_after_a_failover(cleared_postgres_url: str) -> None:
    clock = JumpingClock()
    async with postgres_nodes(cleared_postgres_url) as nodes:
        dead = await nodes.add()
        grant = await must_take(dead)
        assert_results(await put(dead, of_lane(create("t"), grant)), None)
        node = PostgresNode(cleared_postgres_url)
        node.cluster = PostgresCluster(cleared_postgres_url, node.store, clock=clock, times=PATIENT)
        nodes.made.append(node)
        await node.store.open()
        await node.join(lambda _: None)
        # As if it had joined before a standby became the primary.
        node.cluster._timeline = "00000000"
        await dead.resign()
        # It has not noticed yet, and the database says so.
        assert not await node.take_over(agents=AGENTS, limit=9)
        assert await node.take(LANE) is None
        assert not await node.beat()
        await node.resign()
        await node.join(lambda _: None)
        assert await node.beat()
        assert not await node.take_over(agents=AGENTS, limit=9)
        assert await node.take(LANE) is None
        # New lanes are free all the while.
        await must_take(node, LANE.replace("context", "new"))
        clock.passed_s += PATIENT.lease_s
        (taken,) = await node.take_over(agents=AGENTS, limit=9)
        assert [task.task_id for task in taken.tasks] == ["t"]


async def test_a_node_outlives_a_restart_of_the_database(own_postgres: PostgresServer) -> None:
    url = await asyncio.to_thread(own_postgres.create_database, fill_template)
    heard: list[Notice] = []
    async with postgres_nodes(url) as nodes:
        one, two = await nodes.add(heard.append), await nodes.add()
        name = one.store.node
        grant = await must_take(one)
        for end in (own_postgres.stop, own_postgres.kill):
            heard.clear()
            await asyncio.to_thread(end)
            two.tell(Posted("while it is away"))
            await asyncio.to_thread(own_postgres.start)
            for node in (one, two):
                assert await _beats(node)
            assert one.store.node == name
            assert (await must_take(one)).epoch == grant.epoch
            assert await two.take(LANE) is None
            async with asyncio.timeout(PATIENCE_S):
                while Missed() not in heard:
                    await SystemClock().sleep(0.01)
                told = Posted("again")
                while told not in heard:
                    # The first ones may come before the other listens.
                    two.tell(told)
                    await SystemClock().sleep(0.01)


async def _beats(node: PostgresNode) -> bool:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return cast("bool", await node.beat())
            except StoreUnusable:
                # The next attempt to connect waits for its time.
                await SystemClock().sleep(0.02)
