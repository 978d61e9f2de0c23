"""The driver claim and the count of a budget, where callers come to any node."""

import asyncio

from tests.cluster.nodes import Nodes, nodes
from tests.cluster.postgres import on_postgres
from tests.runtime.test_claims import ELSEWHERE, Callers
from tests.runtime.test_reservations import spends, used
from tests.runtime.world import ALICE, BOB, said

from trunkline.model.values import TaskState
from trunkline.testing import settle

WORKING, SUBMITTED, COMPLETED = TaskState.WORKING, TaskState.SUBMITTED, TaskState.COMPLETED


def running(cluster: Nodes) -> set[str]:
    """The callers whose turns run, at any node."""
    return {run.lane.scope.principal for w in cluster.worlds for run in w.runtime.runs.running}


async def test_the_claim_holds_over_all_nodes() -> None:
    async with nodes(3, driver_claim=True) as cluster:
        a, b, c = map(Callers, cluster.worlds)
        first = await a.submit(ALICE, "hang")
        other = await b.submit(BOB, "hang")
        # The same caller has further turns, whichever node it comes to, unless others wait.
        later = await c.submit(ALICE, "hang")
        await settle()
        assert running(cluster) == {"alice"}
        assert await c.state(BOB, other) is SUBMITTED
        await c.cancel(ALICE, first)
        assert running(cluster) == {"bob"}
        assert await a.state(BOB, other) is WORKING
        assert await a.state(ALICE, later) is SUBMITTED
        await b.cancel(BOB, other)
        assert await b.state(ALICE, later) is WORKING


async def test_another_caller_is_refused_at_every_node() -> None:
    async with nodes(3, driver_claim=True, busy="fail") as cluster:
        a, b, c = map(Callers, cluster.worlds)
        first = await a.submit(ALICE, "hang")
        for each in (a, b, c):
            refused = await each.submit(BOB, "say hi")
            assert (refused.status.state, said(refused)) == (TaskState.REJECTED, ELSEWHERE)
        second = await b.submit(ALICE, "hang")
        assert await c.state(ALICE, second) is WORKING
        for task in (first, second):
            await c.cancel(ALICE, task)
        assert (await c.submit(BOB, "say hi", now=False)).status.state is COMPLETED


async def test_the_claim_of_a_node_that_is_gone_is_free() -> None:
    async with nodes(2, driver_claim=True) as cluster:
        a, b = map(Callers, cluster.worlds)
        first = await a.submit(ALICE, "hang")
        other = await b.submit(BOB, "hang")
        assert await b.state(BOB, other) is SUBMITTED
        await cluster.kill(0)
        await cluster.clock.advance(10)
        await settle()
        assert await b.state(ALICE, first) is TaskState.FAILED
        assert await b.state(BOB, other) is WORKING


async def test_an_agent_that_is_idle_moves_to_the_next_node() -> None:
    async with nodes(2, driver_claim=True) as cluster:
        a, b = map(Callers, cluster.worlds)
        for each in (a, b, a, b):
            assert (await each.submit(ALICE, "say hi", now=False)).status.state is COMPLETED
            await cluster.clock.advance(5)
        assert [len(world.scripted.turns) for world in cluster.worlds] == [2, 2]


async def test_three_nodes_on_postgresql_spend_a_budget_exactly(cleared_postgres_url: str) -> None:
    gate = spends(100)
    async with on_postgres(cleared_postgres_url, 3, gate=gate) as cluster:
        sends = [
            cluster.worlds[number % 3].send("say hi", context=f"c{number // 2}")
            for number in range(200)
        ]
        tasks = await asyncio.gather(*sends)
        states = [task.status.state for task in tasks]
        assert (states.count(COMPLETED), states.count(TaskState.REJECTED)) == (100, 100)
        assert sum(len(world.scripted.turns) for world in cluster.worlds) == 100
        assert await used(cluster.worlds[0].store) == 100


async def test_the_claim_holds_on_postgresql(cleared_postgres_url: str) -> None:
    async with on_postgres(cleared_postgres_url, driver_claim=True, busy="fail") as cluster:
        a, b = map(Callers, cluster.worlds)
        first = await a.submit(ALICE, "wait gate")
        await cluster.worlds[0].gates.reached("gate")
        for each in (a, b):
            assert said(await each.submit(BOB, "say hi")) == ELSEWHERE
        second = await b.submit(ALICE, "say hi", now=False)
        assert second.status.state is COMPLETED
        cluster.worlds[0].gates.open("gate")
        await cluster.worlds[0].ended(first.id)
        assert (await b.submit(BOB, "say hi", now=False)).status.state is COMPLETED
