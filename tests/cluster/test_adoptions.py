"""A task that another gateway began is taken at any node, by the node that owns its lane."""

import asyncio

import pytest
from tests.cluster.nodes import Nodes, nodes
from tests.runtime.deliveries import adopt, given
from tests.runtime.world import BOB

from trunkline.model.errors import Conflict, Unavailable
from trunkline.model.values import TaskState
from trunkline.testing import settle


def turns(cluster: Nodes) -> list[tuple[int, str]]:
    """The node and the task of each turn."""
    worlds = enumerate(cluster.worlds)
    return [(number, turn.task_id) for number, w in worlds for turn in w.scripted.turns]


async def test_a_node_without_owner_takes_the_lane() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = given("wait gate", context="c")
        await adopt(a, task)
        assert cluster.owner("c") == 0
        a.gates.open("gate")
        await a.ended("given-1")
        assert (await b.journal("given-1"))[0].body == bytes(task.entry)
        # Again at the other node, whoever owns the lane by now.
        await adopt(b, task)
        await cluster.clock.advance(60)
        await adopt(b, task)
        assert turns(cluster) == [(0, "given-1")]


async def test_the_owner_of_the_lane_takes_it_in_order() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        for number in (1, 2):
            task = given(f"say {number}", id=f"g-{number}", context="c")
            adopting = b.soon(adopt(b, task, key=f"k-{number}"))
            await cluster.clock.advance(2)
            await adopting
            assert (await b.journal(task.task_id))[0].body == bytes(task.entry)
        last = b.soon(b.send("say last", context="c"))
        await cluster.clock.advance(2)
        a.gates.open("gate")
        done = await last
        assert [task for _, task in turns(cluster)][1:] == ["g-1", "g-2", done.id]
        assert not b.scripted.turns


async def test_two_nodes_that_get_it_at_once_run_it_once() -> None:
    async with nodes(3) as cluster:
        attempts = [w.soon(adopt(w, given("say hi"))) for w in cluster.worlds for _ in range(2)]
        await settle()
        await cluster.clock.advance(2)
        await asyncio.gather(*attempts)
        await cluster.worlds[0].ended("given-1")
        assert len(turns(cluster)) == 1


async def test_a_task_of_another_caller_is_a_conflict_at_every_node() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await adopt(a, given("wait gate"))
        with pytest.raises(Conflict):
            await adopt(b, given("say mine"), by=BOB)
        a.gates.open("gate")


async def test_a_full_queue_at_the_owner_refuses_it_for_now() -> None:
    async with nodes(max_queue_per_context=0) as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        refused = b.soon(adopt(b, given("say hi", context="c")))
        await cluster.clock.advance(2)
        with pytest.raises(Unavailable) as error:
            await refused
        assert error.value.retry_after_s == 5
        assert await b.journal("given-1") == ()
        a.gates.open("gate")
        await a.ended(running.id)
        adopting = b.soon(adopt(b, given("say hi", context="c")))
        await cluster.clock.advance(2)
        await adopting
        assert (await b.ended("given-1")).status.state is TaskState.COMPLETED


async def test_an_owner_that_is_gone_costs_no_task_and_no_second_run() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        adopting = b.soon(adopt(b, given("say hi", context="c")))
        await cluster.kill(0)
        for _ in range(40):
            await cluster.clock.advance(1)
        await adopting
        await adopt(b, given("say hi", context="c"))
        assert (await b.ended("given-1")).status.state is TaskState.COMPLETED
        assert [task for _, task in turns(cluster)].count("given-1") == 1


async def test_a_node_that_got_it_from_the_mailbox_and_is_gone_costs_none_either() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        adopting = b.soon(adopt(b, given("say hi", context="c")))
        await settle()
        await cluster.kill(1)
        await cluster.clock.advance(2)
        assert not adopting.done() or adopting.exception() is None
        c = cluster.add()
        await c.open()
        again = c.soon(adopt(c, given("say hi", context="c")))
        await cluster.clock.advance(2)
        await again
        a.gates.open("gate")
        assert (await c.ended("given-1")).status.state is TaskState.COMPLETED
        assert [task for _, task in turns(cluster)].count("given-1") == 1
