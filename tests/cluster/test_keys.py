"""One key at several nodes: one task or one answer, whoever asks."""

import asyncio

import pytest
from tests.cluster.nodes import nodes
from tests.runtime.world import said

from trunkline.model.values import TaskState
from trunkline.testing import settle

COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


@pytest.mark.parametrize("context", ["", "c"])
async def test_a_repeat_at_another_node_waits_for_the_first(context: str) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        first = a.soon(a.send("wait gate; say one", key="k", id="m", context=context))
        await a.gates.reached("gate")
        again = b.soon(b.send("wait gate; say one", key="k", id="m", context=context))
        await cluster.clock.advance(2)
        assert not again.done()
        a.gates.open("gate")
        await cluster.clock.advance(2)
        assert (await again).id == (await first).id
        assert (await again).status.state is COMPLETED
        await cluster.clock.advance(2)
        assert len(a.runtime.registry) == len(b.runtime.registry) == 0


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("context", ["", "c"])
async def test_two_sends_with_one_key_at_once_are_one(
    rounds: int, direct: bool, context: str
) -> None:
    async with nodes(direct=direct) as cluster:
        cluster.store.rounds = lambda: rounds
        calls = [
            each.soon(each.send("say one", key="k", id="m", context=context))
            for each in cluster.worlds
        ]
        await cluster.clock.advance(5)
        first, second = await asyncio.gather(*calls)
        assert first.id == second.id
        assert sum(len(each.scripted.turns) for each in cluster.worlds) == 1


@pytest.mark.parametrize("context", ["", "c"])
async def test_a_repeat_at_another_node_gets_the_answer_without_a_task(context: str) -> None:
    async with nodes(direct=True) as cluster:
        a, b = cluster.worlds
        first = a.soon(a.ask("wait gate; reply one", key="k", id="m", context=context))
        await a.gates.reached("gate")
        again = b.soon(b.ask("wait gate; reply one", key="k", id="m", context=context))
        await cluster.clock.advance(2)
        assert not again.done()
        a.gates.open("gate")
        await cluster.clock.advance(2)
        assert (await again).parts[0].text == (await first).parts[0].text == "one"
        assert len(a.scripted.turns) + len(b.scripted.turns) == 1
        assert len(a.runtime.keys) == len(b.runtime.keys) == 0


@pytest.mark.parametrize("context", ["", "c"])
async def test_a_repeat_after_the_death_of_the_first_node_gets_a_failed_task(context: str) -> None:
    async with nodes(direct=True) as cluster:
        a, b = cluster.worlds
        _ = a.soon(a.ask("wait gate; reply one", key="k", id="m", context=context))
        await a.gates.reached("gate")
        await cluster.kill(0)
        await cluster.clock.advance(10)
        failed = await b.send("wait gate; reply one", key="k", id="m", context=context)
        assert failed.status.state is FAILED
        assert "answer" in said(failed) or "restarted" in said(failed), said(failed)
        again = await b.send("wait gate; reply one", key="k", id="m", context=context)
        assert again.id == failed.id
        assert not b.scripted.turns
        # Nobody is in the way of the next message.
        assert (await b.send("say two", context=failed.context_id)).status.state is COMPLETED
        await settle()
