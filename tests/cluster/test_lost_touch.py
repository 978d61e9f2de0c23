"""Nodes that lose touch with the store for a while, and callers that leave: no lane is left behind
with an owner that does not know it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.cluster.nodes import Nodes, nodes

from trunkline.background import next_pass
from trunkline.model.errors import StoreUnusable, TrunklineError, Unavailable
from trunkline.model.values import TaskState
from trunkline.testing import settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


async def ends(cluster: Nodes, number: int, text: str, **options: str) -> TaskState:
    """The state in which a send at this node ends within half a minute."""
    world = cluster.worlds[number]
    sent = world.soon(world.send(text, **options))
    for _ in range(60):
        await cluster.clock.advance(0.5)
        if sent.done():
            return (await sent).status.state
    raise AssertionError("no answer")


async def test_a_caller_that_leaves_while_its_lane_is_taken_blocks_nobody() -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        cluster.store.rounds = lambda: 3
        calling = a.callers.start(a.send("say one", context="c"), name="caller")
        for _ in range(100):
            if cluster.owner("c") is not None:
                break
            await next_pass()
        calling.cancel()
        await asyncio.wait({calling})
        assert await ends(cluster, 1, "say two", context="c") is COMPLETED


@pytest.mark.parametrize("what", ["call", "answer"])
async def test_a_lane_that_could_not_be_taken_blocks_nobody(what: str) -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        node = cluster.nodes[0]
        node.is_cut_off, node.loses_answers = what == "call", what == "answer"
        with pytest.raises(TrunklineError):
            await a.send("say one", context="c")
        node.is_cut_off = node.loses_answers = False
        assert await ends(cluster, 1, "say two", context="c") is COMPLETED


@pytest.mark.parametrize("what", ["call", "answer"])
async def test_a_lane_that_could_not_be_left_blocks_nobody(what: str) -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        await a.send("say one", context="c")
        node = cluster.nodes[0]
        leave = node.leave

        async def fail(lanes: Sequence[tuple[str, int]]) -> Sequence[str]:
            node.leave = leave  # type: ignore[method-assign]
            if what == "answer":
                await leave(lanes)
            raise StoreUnusable("for a moment")

        node.leave = fail  # type: ignore[method-assign]
        await cluster.clock.advance(1.5)
        assert await ends(cluster, 1, "say two", context="c") is COMPLETED
        assert await ends(cluster, 0, "say three", context="c") is COMPLETED
        await cluster.clock.advance(3)
        assert cluster.owner("c") is None


@pytest.mark.parametrize("failures", [1, 2, 4])
async def test_lanes_whose_takeover_failed_are_taken_over_again(failures: int) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        left = []
        for context in ("c", "d", "e"):
            await a.submit("wait gate", context=context)
            left.append(await a.submit("say two", context=context))
        await a.gates.reached("gate")
        reading = await b.follow(left[0].id, after=0)
        node = cluster.nodes[1]
        entries, count = node.entries, 0

        async def fail(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += cluster.owner("c") == 1
            if 0 < count <= failures:
                raise StoreUnusable("for a moment")
            return await entries(*args, **options)

        node.entries = fail  # type: ignore[method-assign]
        await cluster.kill(0)
        await cluster.clock.advance(12)
        assert count > failures
        for task in left:
            assert (await b.get(task.id)).status.state is COMPLETED
        await reading.all()
        assert reading.seqs == list(range(1, len(await b.journal(left[0].id)) + 1))


async def test_a_node_cut_off_for_a_while_joins_again() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        assert not a.runtime.problems()
        cluster.nodes[0].is_cut_off = True
        await cluster.clock.advance(10)
        assert a.runtime.problems()
        refused = a.soon(a.send("say three"))
        await cluster.clock.advance(6)
        with pytest.raises(Unavailable):
            await refused
        assert (await b.get(task.id)).status.state is FAILED
        assert (await b.get(queued.id)).status.state is COMPLETED
        cluster.nodes[0].is_cut_off = False
        await cluster.clock.advance(3)
        assert not a.runtime.problems()
        assert (await a.send("say three", context="c")).status.state is COMPLETED


async def test_a_store_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        tasks = [await a.submit("wait gate") for _ in range(20)]
        readings = [await b.follow(task.id, after=0) for task in tasks]
        await a.gates.reached("gate")
        cluster.nodes[1].is_cut_off = True
        await cluster.clock.advance(10)
        here = ("trunkline.cluster", "trunkline.tasks")
        logged = [record.message for record in caplog.records if record.name in here]
        assert logged == ["the cluster cannot be reached"]
        cluster.nodes[1].is_cut_off = False
        a.gates.open("gate")
        await cluster.clock.advance(5)
        assert "the cluster can be reached again" in caplog.text
        for task, reading in zip(tasks, readings, strict=True):
            await reading.all()
            assert reading.seqs == list(range(1, len(await a.journal(task.id)) + 1))


async def test_a_request_outlives_a_store_that_cannot_be_read_for_a_while() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        sent = b.soon(b.send("say two", context="c"))
        await settle()
        cluster.nodes[1].is_cut_off = True
        await cluster.clock.advance(2)
        cluster.nodes[1].is_cut_off = False
        a.gates.open("gate")
        await cluster.clock.advance(3)
        assert (await sent).status.state is COMPLETED
        assert len(await b.listed()) == 2


async def test_a_gateway_stops_while_its_store_is_gone() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate")
        await a.gates.reached("gate")
        cluster.nodes[0].is_cut_off = True
        await a.close()
        cluster.nodes[0].kill()
        await cluster.clock.advance(10)
        assert (await b.get(task.id)).status.state is FAILED


async def test_a_store_with_a_problem_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers would wait for nothing, each for seconds, for as long as the database is away."""
    async with nodes() as cluster:
        a, _ = cluster.worlds
        cluster.nodes[0].is_cut_off = True
        await cluster.clock.advance(6)
        assert a.runtime.problems() == ["this node has lost touch with the others"]
        monkeypatch.setattr(type(cluster.nodes[0]), "problem", "the database is away")
        now = cluster.clock.monotonic()
        with pytest.raises(Unavailable, match="lost touch with its store"):
            await a.send("say one", context="c")
        assert cluster.clock.monotonic() == now
        monkeypatch.undo()
        cluster.nodes[0].is_cut_off = False
        assert await ends(cluster, 0, "say two", context="c") is COMPLETED


async def test_a_node_that_is_about_to_join_again_takes_over_no_lanes() -> None:
    """Its late beat makes it look trusted, and the store would give the lanes to its old name."""
    restart = ("resume_queued", "resume_running")
    async with nodes(resumable=True, on_restart=restart) as cluster:
        (a, b), node = cluster.worlds, cluster.nodes[0]
        ownership = a.runtime.ownership
        assert ownership is not None
        await b.submit("wait gate", context="c")
        await cluster.clock.advance(1)
        ownership.lose("a test")
        cluster.nodes[1].kill()
        await b.vanish()
        node.shared.resign(cluster.nodes[1].name)
        await ownership.take_over()
        assert not a.scripted.turns
        await cluster.clock.advance(10)
        assert len(a.scripted.turns) == 1
        a.gates.open("gate")
        await settle()
