"""Requests at a node whose store has a problem: the callers that wait for the store hear of it
soon, and those that wait for the agent do not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.cluster.nodes import Nodes, nodes
from tests.runtime.world import World

from trunkline.model.errors import Unavailable
from trunkline.model.values import TaskState
from trunkline.runtime.store_waits import LOOK_S

COMPLETED = TaskState.COMPLETED
# When a problem is no hiccup any more.
SOON_S = 3 * LOOK_S


@asynccontextmanager
async def silent(cluster: Nodes, number: int = 0) -> AsyncIterator[None]:
    """The node gets no answer from its store, and knows it."""
    node = cluster.nodes[number]
    node.pause()
    node.problem = "The store gets no answer from its database."  # type: ignore[assignment]
    yield
    node.problem = None
    node.resume()


async def _streamed(w: World) -> Any:
    return await (await w.stream("say one")).all()


REQUESTS: dict[str, Callable[[World, str, str], Coroutine[Any, Any, object]]] = {
    "send": lambda w, _done, _paused: w.send("say one"),
    "send of a context": lambda w, _done, _paused: w.send("say one", context="new"),
    "send without a wait": lambda w, _done, _paused: w.submit("say one"),
    "stream": lambda w, _done, _paused: _streamed(w),
    "follow-up": lambda w, _done, paused: w.send("say one", task=paused),
    "get": lambda w, done, _paused: w.get(done),
    "list": lambda w, _done, _paused: w.listed(),
    "cancel": lambda w, _done, paused: w.cancel(paused),
    "subscribe": lambda w, done, _paused: w.follow(done, after=0),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_that_waits_for_the_store_is_refused_soon(name: str) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        done = (await b.send("say done")).id
        paused = (await a.send("ask colour?", context="p")).id
        async with silent(cluster):
            request = a.soon(REQUESTS[name](a, done, paused))
            await cluster.clock.advance(SOON_S)
            with pytest.raises(Unavailable, match="does not answer") as caught:
                await request
            assert caught.value.retry_after_s
        assert (await a.send("say two", context="p")).status.state is COMPLETED
        assert (await b.get(done)).status.state is COMPLETED


async def test_a_caller_that_waits_for_the_agent_goes_on_waiting() -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        sent = a.soon(a.send("wait gate; say done"))
        reading = await a.stream("wait other; say done")
        await a.gates.reached("gate")
        await a.gates.reached("other")
        async with silent(cluster):
            await cluster.clock.advance(SOON_S)
            assert not sent.done()
        a.gates.open("gate")
        a.gates.open("other")
        assert (await sent).status.state is COMPLETED
        await reading.all()
        assert (await a.get(reading.task_id)).status.state is COMPLETED


async def test_the_answer_of_an_agent_that_cannot_be_stored_is_not_waited_for() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        sent = a.soon(a.send("wait gate; say done", key="once", id="m"))
        await a.gates.reached("gate")
        async with silent(cluster):
            a.gates.open("gate")
            await cluster.clock.advance(SOON_S)
            with pytest.raises(Unavailable, match="does not answer"):
                await sent
        # What the store had got is not undone, and the key finds it at any node.
        tasks = [await each.send("wait gate; say done", key="once", id="m") for each in (a, b)]
        assert [task.status.state for task in tasks] == [COMPLETED] * 2
        assert len({task.id for task in tasks}) == 1
        assert len(a.scripted.turns) == 1


async def test_a_problem_that_is_over_at_once_refuses_nobody() -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        async with silent(cluster):
            sent = a.soon(a.send("say one"))
            await cluster.clock.advance(LOOK_S)
        assert (await sent).status.state is COMPLETED


async def test_a_request_that_has_ended_is_not_refused_any_more() -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        await a.send("say one")
        async with silent(cluster):
            # In the asyncio task of the request before.
            await cluster.clock.advance(SOON_S)
        assert (await a.send("say two")).status.state is COMPLETED
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
