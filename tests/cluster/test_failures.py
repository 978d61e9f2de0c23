"""Nodes that die, stall or leave: others take their lanes over, and nobody else notices."""

import pytest
from tests.cluster.nodes import nodes
from tests.runtime.world import said

from trunkline.model.errors import TrunklineError
from trunkline.model.values import TERMINAL, TaskState, text_of
from trunkline.ports.cluster import Missed
from trunkline.runtime.fanout import CutOff
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import SharedStore

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


async def test_queued_tasks_of_a_dead_node_run_at_another_in_their_order() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = [await a.submit(f"say {number}", context="c") for number in range(3)]
        await cluster.kill(0)
        await cluster.clock.advance(10)
        for task in queued:
            assert (await b.ended(task.id)).status.state is COMPLETED
        assert [turn.message.parts[0].text for turn in b.scripted.turns] == [
            "say 0",
            "say 1",
            "say 2",
        ]
        # The turn may have had effects, so it does not run again.
        failed = await b.get(running.id)
        assert failed.status.state is FAILED
        assert "restarted" in said(failed)


async def test_a_subscriber_of_a_dead_node_s_task_sees_its_end() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("say one; wait gate")
        await a.gates.reached("gate")
        reading = await b.follow(task.id, after=0)
        await cluster.kill(0)
        await cluster.clock.advance(10)
        await reading.all()
        assert reading.seqs == list(range(1, len(await b.journal(task.id)) + 1))
        assert (await b.get(task.id)).status.state is FAILED


async def test_a_node_that_stops_hands_its_queue_over() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        await a.close()
        cluster.nodes[0].kill()
        # At once: the clock stands still.
        assert (await b.ended(queued.id)).status.state is COMPLETED


async def test_a_node_that_missed_notices_looks_at_once() -> None:
    clock = FakeClock()
    loses = [True]
    store = SharedStore(clock, loses_notice=lambda: loses[0])
    async with nodes(clock=clock, store=store) as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        reading = await b.follow((await a.submit("say two", context="c")).id, after=0)
        sent = b.soon(b.send("say three", context="c"))
        await clock.advance(0.1)
        a.gates.open("gate")
        await settle()
        cluster.nodes[0].hear(Missed())
        await settle()
        cluster.nodes[1].hear(Missed())
        await reading.all()
        assert (await b.get(reading.task_id)).status.state is COMPLETED
        # The clock stands still, and the owner found the request by itself.
        assert len(a.scripted.turns) == 3
        loses[0] = False
        assert (await sent).status.state is COMPLETED


async def test_a_zombie_is_fenced() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate; say late", context="c")
        await a.gates.reached("gate")
        here = await a.follow(task.id, after=0)
        cluster.nodes[0].pause()
        await cluster.clock.advance(10)
        assert (await b.get(task.id)).status.state is FAILED
        after = await b.send("say two", context="c")
        assert after.status.state is COMPLETED
        before = await b.journal(task.id)
        cluster.nodes[0].resume()
        a.gates.open("gate")
        await cluster.clock.advance(5)
        assert await b.journal(task.id) == before
        # The zombie's own reader learns why its stream ends, or gets the end of the task.
        items = await here.all()
        assert isinstance(items[-1], CutOff) or here.seqs[-1] == before[-1].seq
        # It is a node again, under another name.
        assert (await a.send("say three", context="c")).status.state is COMPLETED


async def test_the_beginning_of_a_turn_does_not_count_after_a_takeover() -> None:
    """A stalls between the commit of the message and the commit that its turn began."""
    async with nodes() as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say once", context="c")
        cluster.nodes[0].pause()
        a.gates.open("gate")
        await cluster.clock.advance(10)
        assert (await b.ended(queued.id)).status.state is COMPLETED
        cluster.nodes[0].resume()
        await cluster.clock.advance(5)
        texts = [text_of(turn.message.parts) for each in (a, b) for turn in each.scripted.turns]
        assert sorted(texts) == ["say once", "wait gate"]
        assert (await b.get(running.id)).status.state is FAILED


async def test_a_request_in_the_inbox_of_a_dead_node_is_carried_out() -> None:
    async with nodes(3) as cluster:
        a, b, _ = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        cluster.nodes[0].pause()
        second = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(1)
        assert not second.done()
        await cluster.kill(0)
        await cluster.clock.advance(10)
        assert (await second).status.state is COMPLETED


async def test_a_lane_is_left_when_nothing_of_it_runs() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.send("say one", context="c")
        assert cluster.owner("c") == 0
        await cluster.clock.advance(2)
        assert cluster.owner("c") is None
        await b.send("say two", context="c")
        assert cluster.owner("c") == 1
        await cluster.clock.advance(2)
        assert cluster.owner("c") is None
        assert a.runtime.ownership is not None
        assert not a.runtime.ownership.held
        assert len(a.runtime.registry) == len(b.runtime.registry) == 0


async def test_a_paused_task_follows_its_writer() -> None:
    """A subscriber at A of a question that B answers sees the rest."""
    async with nodes() as cluster:
        a, b = cluster.worlds
        asked = await a.send("ask Which one?")
        reading = await a.follow(asked.id)
        await cluster.clock.advance(2)
        assert (await b.send("say that one", task=asked.id)).status.state is COMPLETED
        await cluster.clock.advance(1)
        await reading.all()
        last = len(await b.journal(asked.id))
        assert reading.seqs[-1] == last
        assert reading.seqs == sorted(set(reading.seqs))


class TestFaultsOfTwoNodesOnOneStore:
    """Seen before nodes owned lanes."""

    async def test_a_follow_up_at_b_runs_under_the_epoch_of_b(self) -> None:
        async with nodes() as cluster:
            a, b = cluster.worlds
            asked = await a.send("ask Which one?", context="c")
            await cluster.clock.advance(2)
            answering = b.soon(b.send("wait gate", task=asked.id))
            await b.gates.reached("gate")
            assert cluster.owner("c") == 1
            b.gates.open("gate")
            assert (await answering).status.state is COMPLETED

    async def test_a_subscriber_at_a_does_not_end_silently(self) -> None:
        async with nodes() as cluster:
            a, b = cluster.worlds
            asked = await a.send("ask Which one?", context="c")
            await cluster.clock.advance(2)
            answering = b.soon(b.send("wait gate", task=asked.id))
            await b.gates.reached("gate")
            reading = await a.follow(asked.id)
            b.gates.open("gate")
            await answering
            await reading.all()
            assert reading.seqs[-1] == len(await b.journal(asked.id))

    async def test_a_third_node_does_not_fail_the_work_of_b(self) -> None:
        async with nodes() as cluster:
            a, b = cluster.worlds
            asked = await a.send("ask Which one?", context="c")
            await cluster.clock.advance(2)
            answering = b.soon(b.send("wait gate; say done", task=asked.id))
            await b.gates.reached("gate")
            await cluster.kill(0)
            c = cluster.add()
            await c.open()
            await cluster.clock.advance(10)
            b.gates.open("gate")
            assert (await answering).status.state is COMPLETED
            assert (await c.get(asked.id)).status.state is COMPLETED


@pytest.mark.parametrize("state", ["dies", "stalls"])
async def test_a_caller_of_a_node_that_is_gone_gets_an_error_or_its_task(state: str) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        waiting = a.soon(a.send("wait gate", context="c"))
        await a.gates.reached("gate")
        if state == "dies":
            await cluster.kill(0)
            await cluster.clock.advance(10)
            assert not waiting.done()
        else:
            cluster.nodes[0].pause()
            await cluster.clock.advance(10)
            cluster.nodes[0].resume()
            await cluster.clock.advance(3)
            with pytest.raises(TrunklineError):
                await waiting
        states = {task.status.state for task in await b.listed()}
        assert states <= TERMINAL
