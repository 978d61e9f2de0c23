"""A standby that becomes the primary under two nodes: they begin anew, and all work goes on."""

import asyncio

import pytest
from tests.cluster.postgres import PATIENCE_S, PostgresCluster, on_postgres, until
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer
from tests.postgres.standby import Standby, with_standby

from trunkline.model.values import TaskState
from trunkline.ports.cluster import Times

COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


@pytest.mark.full
def test_nodes_begin_anew_after_a_failover(own_postgres: PostgresServer) -> None:
    created = own_postgres.create_database(fill_template)
    with with_standby(own_postgres, created) as (url, standby):
        asyncio.run(_fail_over(url, standby))


async def _fail_over(url: str, standby: Standby) -> None:
    async with on_postgres(url, times=Times(beat_s=0.4, lease_s=2.0)) as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        done = await b.send("say done")
        names = _names(cluster)
        await asyncio.to_thread(standby.catch_up)
        await asyncio.to_thread(standby.promote)

        async def begun_anew() -> bool:
            return not names & _names(cluster)

        await until(begun_anew)
        async with asyncio.timeout(PATIENCE_S):
            ended = await b.ended(queued.id)
        assert ended.status.state is COMPLETED
        assert (await b.get(running.id)).status.state is FAILED
        assert (await a.get(done.id)).status.state is COMPLETED
        assert (await a.send("say three", context="c")).status.state is COMPLETED


def _names(cluster: PostgresCluster) -> set[int]:
    return {node.store.node for node in cluster.nodes}
