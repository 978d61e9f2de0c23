"""`max_concurrency` holds over all nodes, and no node keeps slots that another one waits for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from tests.cluster.nodes import Nodes, nodes
from tests.runtime.test_publishing import another
from tests.runtime.world import World, said

from trunkline.model.errors import StoreUnusable
from trunkline.model.outputs import Final, Output
from trunkline.model.values import Part, TaskState
from trunkline.ports.backend import TurnRequest
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import LEASE_MS, SharedStore

AGENT = "test/agent"
SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


def running(cluster: Nodes) -> list[int]:
    """The number of turns that each living node runs."""
    pairs = zip(cluster.worlds, cluster.nodes, strict=True)
    return [len(world.runtime.runs.running) for world, node in pairs if not node.is_dead]


def begun(world: World) -> int:
    return len(world.scripted.turns)


async def wait_at(world: World, count: int, *, gate: str = "gate") -> list[str]:
    """Send messages whose turns wait at a gate, each in a context of its own."""
    return [(await world.submit(f"wait {gate}")).id for _ in range(count)]


def deaf() -> dict[str, Any]:
    """A store whose notices are all lost."""
    clock = FakeClock()
    return {"clock": clock, "store": SharedStore(clock, loses_notice=lambda: True)}


@pytest.mark.parametrize("count", [2, 3])
async def test_all_nodes_together_run_no_more_turns_than_the_limit(count: int) -> None:
    async with nodes(count, max_concurrency=4) as cluster:
        tasks = [each for world in cluster.worlds for each in await wait_at(world, 4)]
        most = 0
        for _ in range(12):
            assert sum(running(cluster)) <= 4
            most = max(most, sum(running(cluster)))
            for world in cluster.worlds:
                for run in list(world.runtime.runs.running)[:1]:
                    await world.cancel(run.task_id)
            await cluster.clock.advance(0.5)
        assert most == 4
        states = {await cluster.worlds[0].state(each) for each in tasks}
        assert states == {TaskState.CANCELED}
        assert not any(cluster.store.slots_of(AGENT).values())


async def test_a_free_slot_is_used_at_once_at_any_node() -> None:
    async with nodes(max_concurrency=2) as cluster:
        a, b = cluster.worlds
        first, second = await wait_at(a, 2)
        third = (await b.submit("wait gate")).id
        assert running(cluster) == [2, 0]
        assert await b.state(third) is SUBMITTED
        await a.cancel(first)
        await settle()
        assert running(cluster) == [1, 1]
        # A slot that this node has kept for later goes to a node that waits.
        await b.cancel(third)
        await settle()
        assert cluster.store.slots_of(AGENT)[cluster.nodes[1].name] == 1
        await wait_at(a, 1)
        await settle()
        assert running(cluster) == [2, 0]
        await a.cancel(second)


async def test_slots_move_without_notices() -> None:
    async with nodes(max_concurrency=8, **deaf()) as cluster:
        a, b = cluster.worlds
        for task in await wait_at(a, 8):
            await a.cancel(task)
        await wait_at(b, 8)
        assert running(cluster) == [0, 0]
        # A sweep of the node that keeps the slots, and one of the node that waits.
        await cluster.clock.advance(2)
        assert running(cluster) == [0, 8]


async def test_a_node_that_waits_gets_its_share_of_slots_in_use() -> None:
    async with nodes(max_concurrency=4) as cluster:
        a, b = cluster.worlds
        tasks = await wait_at(a, 20)
        await wait_at(b, 20)
        for task in tasks[:3]:
            assert sum(running(cluster)) == 4
            await a.cancel(task)
            await settle()
        assert running(cluster) == [2, 2]
        calls = Calls(cluster)
        for task in tasks[3:8]:
            await a.cancel(task)
            await settle()
        # Both have their share, and use it again without a word to the store.
        assert running(cluster) == [2, 2]
        assert calls.count == 0


async def test_nodes_take_turns_where_the_limit_is_one() -> None:
    async with nodes(3, max_concurrency=1) as cluster:
        for world in cluster.worlds:
            await wait_at(world, 3)
        order = []
        for _ in range(9):
            await settle()
            assert sum(running(cluster)) == 1
            number = running(cluster).index(1)
            order.append(number)
            world = cluster.worlds[number]
            (run,) = world.runtime.runs.running
            await world.cancel(run.task_id)
        assert order == [0, 1, 2] * 3


class Calls:
    """Counts the calls about slots."""

    def __init__(self, cluster: Nodes) -> None:
        self.count = 0
        for node in cluster.nodes:
            self._count(node)

    def _count(self, node: Any) -> None:
        share_slots = node.share_slots

        async def counted(requests: Any) -> Any:
            self.count += 1
            return await share_slots(requests)

        node.share_slots = counted


async def test_turns_one_after_the_other_use_the_same_slot() -> None:
    async with nodes(max_concurrency=2) as cluster:
        calls = Calls(cluster)
        for _ in range(100):
            await cluster.worlds[0].send("say one")
        assert calls.count == 1


async def test_an_agent_without_a_limit_asks_for_no_slots() -> None:
    async with nodes() as cluster:
        calls = Calls(cluster)
        await wait_at(cluster.worlds[0], 3)
        await cluster.clock.advance(5)
        assert running(cluster) == [3, 0]
        assert calls.count == 0


async def test_a_turn_that_has_a_slot_begins_with_the_commit_that_accepts_it() -> None:
    async with nodes(max_concurrency=1) as cluster:
        stream = await cluster.worlds[0].stream("say one")
        await stream.all()
        # A stream that was queued begins with a snapshot.
        assert [entry.seq for entry in stream.entries] == stream.seqs


async def test_the_slots_of_a_dead_node_are_free_when_its_lease_has_ended() -> None:
    async with nodes(max_concurrency=2) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 2)
        await wait_at(b, 2)
        await cluster.kill(0)
        await cluster.clock.advance(LEASE_MS / 1000 - 2.5)
        assert begun(b) == 0
        await cluster.clock.advance(4)
        assert begun(b) == 2


async def test_a_node_that_stalls_begins_no_turn_in_a_slot_that_it_had() -> None:
    async with nodes(max_concurrency=1) as cluster:
        a, b = cluster.worlds
        first = (await a.submit("delay 1")).id
        second = (await a.submit("say late", context="c")).id
        waits = (await b.submit("wait gate")).id
        cluster.nodes[0].pause()
        await cluster.clock.advance(8)
        # It may have ended its turn by now, and lost its slot before.
        assert running(cluster)[1] == 1
        started = begun(a)
        cluster.nodes[0].resume()
        await settle()
        assert begun(a) == started
        b.gates.open("gate")
        await cluster.clock.advance(10)
        assert await a.state(waits) is COMPLETED
        assert await a.state(first) is FAILED
        assert await a.state(second) is COMPLETED


async def test_a_node_that_was_given_up_has_no_slots_under_its_next_name() -> None:
    async with nodes(max_concurrency=1) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        cluster.nodes[0].pause()
        await cluster.clock.advance(8)
        await wait_at(b, 1)
        assert not a.agent.lanes.has_room
        cluster.nodes[0].resume()
        await cluster.clock.advance(4)
        assert a.runtime.problems() == []
        await wait_at(a, 1)
        assert running(cluster) == [0, 1]


async def test_slots_of_a_name_that_was_given_up_meanwhile_do_not_count() -> None:
    async with nodes(max_concurrency=1) as cluster:
        a, b = cluster.worlds
        share_slots, answered = cluster.nodes[0].share_slots, asyncio.Event()

        async def late(requests: Any) -> Any:
            shares = await share_slots(requests)
            await answered.wait()
            return shares

        cluster.nodes[0].share_slots = late  # type: ignore[method-assign]
        sending = a.soon(a.submit("wait gate"))
        await settle()
        assert cluster.store.slots_of(AGENT) == {cluster.nodes[0].name: 1}
        cluster.nodes[0].pause()
        await cluster.clock.advance(8)
        await wait_at(b, 1)
        cluster.nodes[0].resume()
        await cluster.clock.advance(4)
        answered.set()
        await settle()
        assert sending.done()
        await wait_at(a, 1)
        assert running(cluster) == [0, 1]


async def test_a_request_for_slots_that_failed_is_made_again() -> None:
    async with nodes(max_concurrency=1) as cluster:
        (a, b), node = cluster.worlds, cluster.nodes[0]
        share_slots = node.share_slots

        async def fails(requests: Any) -> Any:
            raise StoreUnusable("the database has gone away")

        node.share_slots = fails  # type: ignore[method-assign]
        task = await a.submit("say one")
        await cluster.clock.advance(2)
        assert await b.state(task.id) is SUBMITTED
        node.share_slots = share_slots  # type: ignore[method-assign]
        await cluster.clock.advance(1)
        assert await b.state(task.id) is COMPLETED


async def test_a_node_that_is_cut_off_keeps_its_slots_while_it_is_trusted() -> None:
    async with nodes(max_concurrency=1) as cluster:
        a, b = cluster.worlds
        first = (await a.submit("wait gate")).id
        await wait_at(b, 1)
        cluster.nodes[0].is_cut_off = True
        await cluster.clock.advance(3)
        assert running(cluster) == [1, 0]
        cluster.nodes[0].is_cut_off = False
        await cluster.clock.advance(3)
        assert running(cluster) == [1, 0]
        a.gates.open("gate")
        await settle()
        assert await a.state(first) is COMPLETED
        assert running(cluster) == [0, 1]


async def test_a_request_for_slots_whose_answer_is_lost_is_made_again() -> None:
    async with nodes(max_concurrency=2) as cluster:
        a, b = cluster.worlds
        held = await wait_at(b, 2)
        task = await a.submit("say one")
        cluster.nodes[0].loses_answers = True
        await b.cancel(held[0])
        await cluster.clock.advance(1.5)
        # The store counts a slot for the node, which does not know.
        assert cluster.store.slots_of(AGENT)[cluster.nodes[0].name] == 1
        assert begun(a) == 0
        cluster.nodes[0].loses_answers = False
        await cluster.clock.advance(2)
        assert await b.state(task.id) is COMPLETED


async def test_a_node_that_shuts_down_keeps_only_the_slots_of_its_turns() -> None:
    async with nodes(max_concurrency=3) as cluster:
        a, b = cluster.worlds
        short, long = await wait_at(a, 1), await wait_at(a, 1, gate="long")
        await wait_at(a, 4)
        await wait_at(b, 3)
        assert sum(running(cluster)) == 3
        draining = a.soon(a.runtime.drain(grace_s=60))
        await settle()
        a.gates.open("gate")
        await settle()
        assert await b.state(short[0]) is COMPLETED
        assert running(cluster) == [1, 2]
        assert cluster.store.slots_of(AGENT) == {
            cluster.nodes[0].name: 1,
            cluster.nodes[1].name: 2,
        }
        a.gates.open("long")
        await draining
        assert await b.state(long[0]) is COMPLETED
        await settle()
        assert running(cluster) == [0, 3]


async def test_an_agent_that_fails_when_it_is_busy_counts_the_turns_of_all_nodes() -> None:
    async with nodes(max_concurrency=1, busy="fail") as cluster:
        a, b = cluster.worlds
        running_task = await a.submit("wait gate")
        refused = await b.submit("say one")
        assert refused.status.state is TaskState.REJECTED
        assert "another caller" in said(refused)
        a.gates.open("gate")
        await settle()
        assert await a.state(running_task.id) is COMPLETED
        # It keeps no slot for later, because the other node could not wait for it.
        for world in (b, a, b):
            assert (await world.send("say one")).status.state is COMPLETED
            await settle()


async def test_a_limit_that_is_changed_while_turns_run() -> None:
    async with nodes(max_concurrency=4) as cluster:
        a, b = cluster.worlds
        first, second = await wait_at(a, 6), await wait_at(b, 6)
        for world in (a, b):
            agent = another(world, max_concurrency=2)
            await world.runtime.publishing.replace(agent, switch=lambda: None)
            world.agent = agent
        assert sum(running(cluster)) == 4
        await cluster.clock.advance(2)
        for task in [*first[:4], *second[:1]]:
            world = a if task in first else b
            await world.cancel(task)
            await cluster.clock.advance(2)
        assert sum(running(cluster)) == 2
        for world in (a, b):
            agent = another(world)
            await world.runtime.publishing.replace(agent, switch=lambda: None)
            world.agent = agent
        await settle()
        assert sum(running(cluster)) == 7
        await cluster.clock.advance(2)
        assert not any(cluster.store.slots_of(AGENT).values())


async def test_the_slots_of_an_agent_that_is_withdrawn_are_given_back() -> None:
    async with nodes(max_concurrency=2) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 3)
        waits = (await b.submit("say one")).id
        await a.runtime.publishing.withdraw(AGENT, grace_s=0)
        await cluster.clock.advance(3)
        assert await b.state(waits) is COMPLETED
        assert cluster.nodes[0].name not in cluster.store.slots_of(AGENT)


class Stubborn:
    """An agent that does not end when it is canceled."""

    is_pure = can_resume = may_reply_directly = False

    def __init__(self) -> None:
        self.turns: list[str] = []
        self.may_end = asyncio.Event()

    async def start(self, request: TurnRequest) -> AsyncIterator[Output]:
        self.turns.append(request.task_id)
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()
        yield Final((Part(text="done"),))

    async def cancel(self, run_id: str) -> None:
        pass

    async def close(self) -> None:
        self.may_end.set()


async def test_a_turn_that_was_given_up_keeps_its_slot_until_its_agent_has_ended() -> None:
    agent = Stubborn()
    async with nodes(max_concurrency=1, cancel_grace_s=5.0, backend=agent) as cluster:
        a, b = cluster.worlds
        first = (await a.submit("begin")).id
        waiting = [(await world.submit("wait")).id for world in (a, b)]
        live = a.runtime.registry.in_memory(first)
        assert live is not None
        a.runtime.journal.fence(live)
        await cluster.clock.advance(3)
        assert agent.turns == [first]
        agent.may_end.set()
        await cluster.clock.advance(2)
        assert sorted(agent.turns) == sorted([first, *waiting])
