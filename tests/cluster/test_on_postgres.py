"""Nodes that share PostgreSQL give what nodes on the shared store of tests give."""

import asyncio

import pytest
from tests.cluster.postgres import on_postgres, until
from tests.postgres.nodes import PostgresNode
from tests.postgres.proxy import database_proxy
from tests.runtime.world import World, said

from trunkline.model.errors import TaskNotFound, TooManyRequests
from trunkline.model.values import TaskState, text_of
from trunkline.runtime.fanout import CutOff
from trunkline.runtime.forwarding import INBOX

COMPLETED, CANCELED, FAILED = TaskState.COMPLETED, TaskState.CANCELED, TaskState.FAILED
INPUT = TaskState.INPUT_REQUIRED


async def test_a_request_at_any_node(cleared_postgres_url: str) -> None:
    async with on_postgres(cleared_postgres_url) as cluster:
        a, b = cluster.worlds
        asked = await a.send("ask Which one?")
        assert asked.status.state is INPUT
        assert (await b.get(asked.id)).status.state is INPUT
        answered = await b.send("say that one", task=asked.id)
        assert answered.id == asked.id
        assert answered.status.state is COMPLETED
        assert (await a.get(asked.id)).status.state is COMPLETED
        assert [each.id for each in await a.listed()] == [asked.id]
        with pytest.raises(TaskNotFound):
            await b.cancel("unknown")


async def test_messages_of_one_context_queue_up_at_its_owner(cleared_postgres_url: str) -> None:
    async with on_postgres(cleared_postgres_url) as cluster:
        a, b = cluster.worlds
        first = a.soon(a.send("wait gate\nsay one", context="c"))
        await a.gates.reached("gate")
        queued = await b.submit("say two", context="c")
        third = b.soon(b.send("say three", context="c"))
        reading = await b.follow(queued.id, after=0)
        a.gates.open("gate")
        assert (await first).status.state is COMPLETED
        assert (await third).status.state is COMPLETED
        await reading.all()
        assert reading.seqs == list(range(1, len(await a.journal(queued.id)) + 1))
        said_there = [text_of(turn.message.parts) for turn in a.scripted.turns]
        assert said_there == ["wait gate\nsay one", "say two", "say three"]
        assert not b.scripted.turns


async def test_a_cancel_at_the_other_node_stops_the_agent(cleared_postgres_url: str) -> None:
    async with on_postgres(cleared_postgres_url) as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate")
        await a.gates.reached("gate")
        assert (await b.cancel(task.id)).status.state is CANCELED
        assert a.scripted.canceled


async def test_a_subscriber_at_the_other_node_gets_every_entry_once(
    cleared_postgres_url: str,
) -> None:
    async with on_postgres(cleared_postgres_url) as cluster:
        a, b = cluster.worlds
        script = "\n".join(f"say {number}" for number in range(100))
        task = await a.submit(f"{script}\nwait gate\n{script}")
        reading = await b.follow(task.id, after=0)
        await a.gates.reached("gate")
        seen = len(await b.journal(task.id))
        resumed = await b.follow(task.id, after=seen)
        a.gates.open("gate")
        await reading.all()
        await resumed.all()
        last = len(await a.journal(task.id))
        assert reading.seqs == list(range(1, last + 1))
        assert resumed.seqs == list(range(seen + 1, last + 1))


@pytest.mark.parametrize("context", ["", "c"])
async def test_two_sends_with_one_key_at_once_are_one(
    cleared_postgres_url: str, context: str
) -> None:
    async with on_postgres(cleared_postgres_url, 3) as cluster:
        calls = [each.send("say one", key="k", id="m", context=context) for each in cluster.worlds]
        tasks = await asyncio.gather(*calls)
        assert len({task.id for task in tasks}) == 1
        assert sum(len(each.scripted.turns) for each in cluster.worlds) == 1


async def test_an_answer_without_a_task_comes_back_through_the_other_node(
    cleared_postgres_url: str,
) -> None:
    async with on_postgres(cleared_postgres_url, direct=True) as cluster:
        a, b = cluster.worlds
        first = a.soon(a.ask("wait gate; reply one", context="c"))
        await a.gates.reached("gate")
        second = b.soon(b.ask("reply two", context="c"))
        await until(lambda: _has_inbox(cluster.worlds[0]))
        a.gates.open("gate")
        await first
        assert (await second).parts[0].text == "two"
        assert not b.scripted.turns


async def _has_inbox(world: World) -> bool:
    return bool(await world.store.records(INBOX, limit=1))


async def test_an_error_at_the_owner_is_the_error_of_the_caller(cleared_postgres_url: str) -> None:
    async with on_postgres(
        cleared_postgres_url, max_queue_per_context=1, overflow="error"
    ) as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        await a.submit("say two", context="c")
        with pytest.raises(TooManyRequests):
            await b.send("say three", context="c")
        a.gates.open("gate")


async def test_queued_tasks_of_a_dead_node_run_at_another_in_their_order(
    cleared_postgres_url: str,
) -> None:
    async with on_postgres(cleared_postgres_url) as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = [await a.submit(f"say {number}", context="c") for number in range(3)]
        posted = await b.submit("say 3", context="c")
        reading = await b.follow(running.id, after=0)
        await cluster.kill(0)
        for task in (*queued, posted):
            assert (await b.ended(task.id)).status.state is COMPLETED
        texts = [text_of(turn.message.parts) for turn in b.scripted.turns]
        assert texts == ["say 0", "say 1", "say 2", "say 3"]
        # The turn may have had effects, so it does not run again.
        await reading.all()
        assert reading.seqs == list(range(1, len(await b.journal(running.id)) + 1))
        failed = await b.get(running.id)
        assert failed.status.state is FAILED
        assert "restarted" in said(failed)


async def test_a_turn_of_an_agent_that_resumes_goes_on_at_another_node(
    cleared_postgres_url: str,
) -> None:
    restart = ("resume_queued", "resume_running")
    async with on_postgres(cleared_postgres_url, resumable=True, on_restart=restart) as cluster:
        a, b = cluster.worlds
        task = await a.submit("say one; wait gate; say two", context="c")
        await a.gates.reached("gate")
        await cluster.kill(0)
        b.gates.open("gate")
        assert (await b.ended(task.id)).status.state is COMPLETED
        assert [turn.is_resumed for turn in b.scripted.turns] == [True]


async def test_a_node_that_stops_hands_its_queue_over(cleared_postgres_url: str) -> None:
    async with on_postgres(cleared_postgres_url) as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        await a.close()
        assert (await b.ended(queued.id)).status.state is COMPLETED


async def test_a_node_cut_off_from_the_database_is_fenced(cleared_postgres_url: str) -> None:
    """It hears and says nothing for longer than its lease, as a process that was stopped."""
    async with (
        database_proxy(cleared_postgres_url) as proxy,
        on_postgres(cleared_postgres_url, 1) as cluster,
    ):
        (b,) = cluster.worlds
        a = await cluster.add(proxy.url)
        task = await a.submit("wait gate; say late", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        here = await a.follow(task.id, after=0)
        name = cluster.nodes[1].store.node
        proxy.freeze()
        await cluster.end_lease(1)
        assert (await b.ended(queued.id)).status.state is COMPLETED
        assert (await b.get(task.id)).status.state is FAILED
        before = await b.journal(task.id)
        # Its agent goes on, and the answer is on its way when the connections work again.
        a.gates.open("gate")
        proxy.thaw()
        items = await here.all()
        assert isinstance(items[-1], CutOff) or here.seqs[-1] == before[-1].seq
        assert await b.journal(task.id) == before
        # It is a node again, under another name.
        await until(lambda: _is_renamed(cluster.nodes[1], name))
        assert (await a.send("say three", context="c")).status.state is COMPLETED


async def _is_renamed(node: PostgresNode, name: int) -> bool:
    return node.store.node != name
