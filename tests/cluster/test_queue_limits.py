"""The limits of a context's queue, and counters with a ceiling, where messages come to any node."""

import asyncio

import pytest
from tests.cluster.nodes import nodes

from trunkline.model.errors import LimitReached, TooManyRequests
from trunkline.model.values import TaskState, text_of
from trunkline.ports.records import Add, Key
from trunkline.testing import settle

REJECTED, COMPLETED = TaskState.REJECTED, TaskState.COMPLETED


async def test_a_context_has_one_queue_whatever_node_its_messages_come_to() -> None:
    async with nodes(max_queue_per_context=6) as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        # The node that owns the context counts a message of the other one once.
        queued = [(await world.submit("say x", context="c")).id for world in (a, b, b, a, b, a)]
        for world in (b, a):
            refused = await world.submit("say too much", context="c")
            assert refused.status.state is REJECTED
        assert a.agent.lanes.total_waiting == 6
        assert b.agent.lanes.total_waiting == 0
        a.gates.open("gate")
        await settle()
        assert [turn.task_id for turn in a.scripted.turns][1:] == queued
        assert {await b.state(each) for each in queued} == {COMPLETED}


async def test_follow_ups_of_a_task_at_both_nodes_share_its_queue() -> None:
    async with nodes(max_queue_per_context=5) as cluster:
        a, b = cluster.worlds
        task = (await a.submit("wait gate; ask Which?", context="c")).id
        sent: list[str] = []
        for number in range(5):
            world = (a, b)[number % 2]
            text = f"ask {number}?"
            await world.submit(text, task=task)
            sent.append(text)
        for world in (a, b):
            with pytest.raises(TooManyRequests, match="queue of this context is full"):
                await world.submit("say too much", task=task)
        a.gates.open("gate")
        await settle()
        turns = [text_of(turn.message.parts) for turn in a.scripted.turns]
        assert turns == ["wait gate; ask Which?", *sent]
        assert not b.scripted.turns


async def test_messages_that_both_nodes_send_at_once_fill_the_queue_exactly() -> None:
    async with nodes(max_queue_per_context=20) as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        answers = await asyncio.gather(
            *(world.submit("say x", context="c") for _ in range(15) for world in (a, b))
        )
        states = [answer.status.state for answer in answers]
        assert states.count(REJECTED) == 10
        a.gates.open("gate")
        for answer in answers:
            await a.ended(answer.id)
        assert len(a.scripted.turns) == 21


async def test_the_queue_of_a_context_outlives_its_owner_and_stays_within_its_limit() -> None:
    async with nodes(max_queue_per_context=3) as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        queued = [(await world.submit("wait other", context="c")).id for world in (a, b, a)]
        await cluster.kill(0)
        await cluster.clock.advance(8)
        # The first of them runs here now, so that one more may wait.
        fourth = await b.submit("say x", context="c")
        assert fourth.status.state is TaskState.SUBMITTED
        assert (await b.submit("say x", context="c")).status.state is REJECTED
        b.gates.open("other")
        await settle()
        assert [turn.task_id for turn in b.scripted.turns] == [*queued, fourth.id]


async def test_a_counter_with_a_ceiling_holds_over_all_nodes() -> None:
    async with nodes(3) as cluster:
        key = Key("budget.1", "team", "2026-11")
        added = 0

        async def add(number: int, amount: int) -> None:
            nonlocal added
            try:
                await cluster.nodes[number % 3].change(Add(key=key, amount=amount, at_most=100))
            except LimitReached:
                return
            added += amount

        await asyncio.gather(*(add(number, 1 + number % 7) for number in range(90)))
        record = await cluster.nodes[0].record(key)
        assert record is not None
        # The last one that fits is in: none of the others is small enough.
        assert record.count == added == 100
