"""`max_concurrency_per_node`: contexts that wait at a busy node go to a node that has room."""

import pytest
from tests.cluster.nodes import Nodes, nodes
from tests.cluster.test_slots import AGENT, begun, deaf, running, wait_at

from trunkline.background import next_pass
from trunkline.model.errors import StoreUnusable
from trunkline.model.values import TaskState
from trunkline.testing import settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, CANCELED = TaskState.COMPLETED, TaskState.CANCELED


def order(cluster: Nodes) -> list[str]:
    """The tasks of all turns that began at any node."""
    return [turn.task_id for world in cluster.worlds for turn in world.scripted.turns]


async def test_contexts_that_wait_go_to_a_node_that_has_room_in_order() -> None:
    async with nodes(max_concurrency_per_node=2) as cluster:
        a, b = cluster.worlds
        tasks = await wait_at(a, 6)
        await settle()
        assert running(cluster) == [2, 0]
        # The other node says with its next sweep that it has room.
        await cluster.clock.advance(1)
        assert running(cluster) == [2, 2]
        assert [turn.task_id for turn in b.scripted.turns] == tasks[2:4]
        b.gates.open("gate")
        await cluster.clock.advance(0)
        await settle()
        # At once, without a sweep.
        assert [turn.task_id for turn in b.scripted.turns] == tasks[2:]
        a.gates.open("gate")
        await settle()
        assert {await a.state(each) for each in tasks} == {COMPLETED}
        assert sorted(order(cluster)) == sorted(tasks)


async def test_a_message_for_a_full_node_runs_at_a_node_that_is_known_to_have_room() -> None:
    async with nodes(max_concurrency_per_node=1) as cluster:
        a, b = cluster.worlds
        await cluster.clock.advance(1)
        await wait_at(a, 1)
        task = await a.send("say one", context="c")
        assert task.status.state is COMPLETED
        assert [turn.task_id for turn in b.scripted.turns] == [task.id]


async def test_a_hundred_contexts_are_worked_off_by_all_nodes() -> None:
    async with nodes(3, max_concurrency_per_node=4) as cluster:
        a = cluster.worlds[0]
        tasks = [(await a.submit("delay 1")).id for _ in range(100)]
        for _ in range(12):
            await cluster.clock.advance(1)
            assert max(running(cluster)) <= 4
        assert {await a.state(each) for each in tasks} == {COMPLETED}
        assert sorted(order(cluster)) == sorted(tasks)
        # Each worked for nearly all of the time.
        assert min(begun(world) for world in cluster.worlds) >= 24


async def test_streams_and_waits_go_on_when_their_context_moves() -> None:
    async with nodes(max_concurrency_per_node=1) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        sending = a.soon(a.send("say one", context="c", key="k"))
        stream = a.soon(a.stream("say two", context="d"))
        await cluster.clock.advance(2)
        reading = await stream
        await cluster.clock.advance(2)
        assert (await sending).status.state is COMPLETED
        await reading.all()
        assert reading.seqs[-1] == len(await b.journal(reading.task_id))
        assert begun(b) == 2
        again = await a.send("say one", id="m-2", context="c", key="k")
        assert again.id == (await sending).id
        assert not len(a.runtime.keys)


async def test_the_messages_of_a_context_stay_in_order_when_it_moves() -> None:
    async with nodes(max_concurrency_per_node=1) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        tasks = [(await world.submit("say x", context="c")).id for world in (a, b, a, b, a)]
        await cluster.clock.advance(2)
        assert [turn.task_id for turn in b.scripted.turns] == tasks
        assert {await a.state(each) for each in tasks} == {COMPLETED}


async def test_a_waiting_task_can_be_canceled_while_its_context_moves() -> None:
    async with nodes(max_concurrency_per_node=1) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        tasks = [(await a.submit("wait other", context=f"c{n}")).id for n in range(3)]
        await cluster.clock.advance(1)
        assert begun(b) == 1
        for task in reversed(tasks):
            assert (await a.cancel(task)).status.state is CANCELED
        await cluster.clock.advance(2)
        assert running(cluster) == [1, 0]
        assert begun(b) == 1


async def test_contexts_that_wait_for_a_slot_of_all_nodes_stay() -> None:
    async with nodes(max_concurrency=1, max_concurrency_per_node=2) as cluster:
        a, _ = cluster.worlds
        await wait_at(a, 3)
        await cluster.clock.advance(3)
        assert running(cluster) == [1, 0]
        assert all(len(epochs) == 1 for epochs in cluster.store.epochs.values())


@pytest.mark.parametrize("passes", range(6))
async def test_a_message_is_not_lost_when_its_context_is_about_to_move(passes: int) -> None:
    async with nodes(max_concurrency_per_node=1) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        first = await a.submit("say one", context="c")
        sending = [a.soon(a.submit("say two", context=each)) for each in ("c", "d")]
        for _ in range(passes):
            await next_pass()
        assert a.runtime.runs.spreading is not None
        a.runtime.runs.spreading.hear_room(AGENT, 5)
        await cluster.clock.advance(3)
        for task in (first, *[await each for each in sending]):
            assert await b.state(task.id) is COMPLETED
        assert len(order(cluster)) == len(set(order(cluster))) == 4


async def test_resumed_turns_that_wait_go_to_a_node_that_has_room() -> None:
    restart = ("resume_queued", "resume_running")
    async with nodes(resumable=True, on_restart=restart, max_concurrency_per_node=2) as cluster:
        a = cluster.worlds[0]
        tasks = await wait_at(a, 2)
        await cluster.clock.advance(0.5)
        b, c = cluster.worlds[1], cluster.add()
        await c.open()
        busy = await wait_at(b, 2, gate="busy")
        await cluster.kill(0)
        c.gates.open("gate")
        await cluster.clock.advance(9)
        assert {await b.state(each) for each in tasks} == {COMPLETED}
        assert {await b.state(each) for each in busy} == {WORKING}


async def test_both_limits_hold() -> None:
    async with nodes(3, max_concurrency=4, max_concurrency_per_node=2) as cluster:
        a = cluster.worlds[0]
        tasks = [(await a.submit("delay 1")).id for _ in range(16)]
        most = 0
        for _ in range(40):
            await cluster.clock.advance(0.25)
            most = max(most, sum(running(cluster)))
            assert max(running(cluster)) <= 2
        assert most == 4
        assert {await a.state(each) for each in tasks} == {COMPLETED}
        assert sorted(order(cluster)) == sorted(tasks)


async def test_contexts_move_nowhere_without_notices_and_run_all_the_same() -> None:
    async with nodes(max_concurrency_per_node=1, **deaf()) as cluster:
        a, b = cluster.worlds
        tasks = [(await a.submit("delay 1")).id for _ in range(4)]
        await cluster.clock.advance(6)
        assert {await b.state(each) for each in tasks} == {COMPLETED}
        assert (begun(a), begun(b)) == (4, 0)


async def test_a_context_is_not_lost_when_its_node_dies_while_it_moves() -> None:
    async with nodes(3, max_concurrency_per_node=1) as cluster:
        a, _, c = cluster.worlds
        await wait_at(a, 1)
        tasks = await wait_at(a, 4, gate="other")
        await cluster.clock.advance(1)
        assert running(cluster) == [1, 1, 1]
        await cluster.kill(1)
        c.gates.open("other")
        a.gates.open("gate")
        a.gates.open("other")
        await cluster.clock.advance(10)
        states = [await a.state(each) for each in tasks]
        # The turn that ran at the node that died is not repeated.
        assert sorted(states) == sorted([COMPLETED] * 3 + [TaskState.FAILED])
        assert len(order(cluster)) == len(set(order(cluster))) == 5


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_context_that_may_have_been_freed_is_asked_for(is_done: bool) -> None:
    async with nodes(max_concurrency_per_node=1) as cluster:
        (a, b), node = cluster.worlds, cluster.nodes[0]
        await wait_at(a, 1)
        task = (await a.submit("say one", context="c")).id
        free = node.free

        async def fails(lane: str, epoch: int) -> None:
            if is_done:
                await free(lane, epoch)
            raise StoreUnusable("the database has gone away")

        node.free = fails  # type: ignore[method-assign]
        cluster.nodes[1].pause()
        await cluster.clock.advance(0.5)
        cluster.nodes[1].resume()
        await cluster.clock.advance(1)
        assert await b.state(task) in (SUBMITTED, COMPLETED)
        node.free = free  # type: ignore[method-assign]
        await cluster.clock.advance(3)
        assert await b.state(task) is COMPLETED
        assert order(cluster).count(task) == 1


async def test_what_another_node_could_not_continue_stays() -> None:
    async with nodes(max_concurrency_per_node=1, direct=True) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        # A run that may answer without a task, which only this node knows.
        asking = a.soon(a.ask("reply hello", context="c"))
        await cluster.clock.advance(3)
        assert begun(b) == 0
        a.gates.open("gate")
        await settle()
        assert (await asking).parts[0].text == "hello"


async def test_tasks_that_a_restart_would_fail_stay() -> None:
    async with nodes(max_concurrency_per_node=1, on_restart=("fail_running",)) as cluster:
        a, b = cluster.worlds
        await wait_at(a, 1)
        task = (await a.submit("say one")).id
        await cluster.clock.advance(3)
        assert await b.state(task) is SUBMITTED
        a.gates.open("gate")
        await settle()
        assert await b.state(task) is COMPLETED
