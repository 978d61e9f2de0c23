"""Inboxes: requests that another node received, whatever becomes of their lane."""

from collections.abc import Sequence

import pytest
from tests.cluster.nodes import nodes
from tests.runtime.world import opened, world

from trunkline.model.errors import TaskNotCancelable, TrunklineError, Unavailable
from trunkline.model.values import Task, TaskState, text_of
from trunkline.ports.cluster import lane_name
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Scope
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import CutOff, Item, Opening
from trunkline.runtime.forwarding import INBOX, OUTCOME
from trunkline.settings.profiles import preset
from trunkline.testing import FakeClock, ScriptedBackend
from trunkline.testing.shared_store import SharedStore

ALICE = Scope("test/agent", "", "alice")
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


@pytest.mark.parametrize("is_heard", [False, True])
async def test_a_second_cancel_at_another_node_is_refused(is_heard: bool) -> None:
    """Also when its owner is about to leave the lane, and finds the request in the inbox then."""
    clock = FakeClock()
    store = SharedStore(clock, loses_notice=lambda: not is_heard)
    async with nodes(clock=clock, store=store) as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate")
        await a.gates.reached("gate")
        await a.cancel(task.id)
        canceling = b.soon(b.cancel(task.id))
        await clock.advance(5)
        with pytest.raises(TaskNotCancelable):
            await canceling


async def test_requests_leave_no_records_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline.runtime.inbox.KEEPS_OUTCOME_MS", 5000)
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        sent = [b.soon(b.send(f"say {number}", context="c")) for number in range(5)]
        await cluster.clock.advance(1)
        assert await b.store.records(OUTCOME, limit=100)
        a.gates.open("gate")
        await cluster.clock.advance(5)
        for each in sent:
            assert (await each).status.state is COMPLETED
        await cluster.clock.advance(10)
        assert not await b.store.records(INBOX, limit=100)
        assert not await b.store.records(OUTCOME, limit=100)


async def test_a_request_that_cannot_be_read_does_not_hold_up_the_others() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        lane = lane_name(ALICE, "c")
        newer = Put(key=Key(INBOX, lane, "0"), body=b'{"type":"newer","request_id":"r"}')
        await b.store.change(newer)
        sent = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(3)
        a.gates.open("gate")
        await cluster.clock.advance(3)
        assert (await sent).status.state is COMPLETED
        await cluster.clock.advance(3)
        # It stays for a node that can read it.
        assert len(await b.store.records(INBOX, limit=100)) == 1


async def test_an_error_of_the_gateway_itself_is_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")

        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(type(a.runtime.intake), "_key_of", fail)
        sent = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(3)
        with pytest.raises(TrunklineError):
            await sent
        assert not await b.store.records(INBOX, limit=100)
        a.gates.open("gate")


async def test_a_node_that_stops_leaves_its_inbox_to_the_next() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        stopping = b.soon(a.runtime.drain(grace_s=20))
        await cluster.clock.advance(1)
        sent = b.soon(b.send("say two", context="c"))
        other = b.soon(b.send("say three", context="d"))
        await cluster.clock.advance(5)
        assert (await other).status.state is COMPLETED
        assert not sent.done()
        a.gates.open("gate")
        await cluster.clock.advance(5)
        await stopping
        assert (await b.get(running.id)).status.state is COMPLETED
        assert (await sent).status.state is COMPLETED
        assert len(b.scripted.turns) == 2


async def test_a_node_that_stops_refuses_requests_that_another_node_has_not_answered() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        cluster.nodes[0].pause()
        sent = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(1)
        await b.runtime.drain(grace_s=0)
        with pytest.raises(Unavailable, match="shutting down"):
            await sent
        cluster.nodes[0].resume()
        a.gates.open("gate")
        await cluster.clock.advance(3)
        # Its sender may try again: a key tells that the message is the same.
        assert [text_of(turn.message.parts) for turn in a.scripted.turns][-1] == "say two"


async def test_an_idle_lane_of_a_node_that_stops_slowly_does_not_wait_for_it() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.send("say one", context="c")
        await a.submit("wait gate", context="d")
        await a.gates.reached("gate")
        stopping = b.soon(a.runtime.drain(grace_s=60))
        sent = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(10)
        assert (await sent).status.state is COMPLETED
        a.gates.open("gate")
        await cluster.clock.advance(2)
        await stopping


async def test_an_agent_withdrawn_at_one_node_goes_on_at_the_other() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        reading = await b.follow(queued.id, after=0)
        here = await a.follow(queued.id, after=0)
        withdrawing = a.soon(a.runtime.publishing.withdraw("test/agent", grace_s=5))
        await cluster.clock.advance(4)
        # The turn goes on, so the lane stays.
        assert cluster.owner("c") == 0
        await cluster.clock.advance(6)
        await withdrawing
        assert (await b.get(running.id)).status.state is FAILED
        assert (await b.get(queued.id)).status.state is COMPLETED
        await reading.all()
        assert reading.seqs == list(range(1, len(await b.journal(queued.id)) + 1))
        assert isinstance((await here.all())[-1], CutOff)
        await cluster.clock.advance(2)
        assert not len(a.runtime.registry)
        # It comes back, while the other node works.
        second = b.soon(b.send("wait gate; say x", context="c"))
        await b.gates.reached("gate")
        again = PublishedAgent(
            handle="test/agent",
            backend=ScriptedBackend(clock=cluster.clock),
            profile=preset("standard"),
        )
        await a.runtime.publishing.publish(again)
        a.agent = again
        third = a.soon(a.send("say three", context="c"))
        await cluster.clock.advance(2)
        assert not third.done()
        b.gates.open("gate")
        assert (await second).status.state is COMPLETED
        assert (await third).status.state is COMPLETED


async def test_tasks_withdrawn_everywhere_continue_where_the_agent_comes_back() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        for each in (b, a):
            withdrawing = each.soon(each.runtime.publishing.withdraw("test/agent", grace_s=0))
            await cluster.clock.advance(3)
            await withdrawing
        await cluster.clock.advance(5)
        assert len(a.runtime.registry) == len(b.runtime.registry) == 0
        await b.runtime.publishing.publish(
            PublishedAgent(handle="test/agent", backend=b.scripted, profile=preset("standard"))
        )
        await cluster.clock.advance(5)
        stored = await b.store.get(ALICE, queued.id)
        assert stored is not None
        assert stored.state is COMPLETED


@pytest.mark.parametrize("shape", ["events", "snapshots"])
@pytest.mark.parametrize("history_length", [None, 0])
async def test_a_stream_through_another_node_looks_the_same(
    shape: str, history_length: int | None
) -> None:
    script = "say one\nwait gate\nsay two"
    shown = []
    async with world(stream_shape=shape) as alone:
        await alone.submit("wait first", context="c")
        await alone.gates.reached("first")
        reading = await alone.stream(script, context="c", history_length=history_length)
        alone.gates.open("first")
        await alone.gates.reached("gate")
        alone.gates.open("gate")
        shown.append(_shown(await reading.all()))
    async with nodes(stream_shape=shape) as cluster:
        a, b = cluster.worlds
        await a.submit("wait first", context="c")
        await a.gates.reached("first")
        opening = b.soon(b.stream(script, context="c", history_length=history_length))
        await cluster.clock.advance(1)
        a.gates.open("first")
        reading = await opening
        await a.gates.reached("gate")
        a.gates.open("gate")
        await cluster.clock.advance(1)
        shown.append(_shown(await reading.all()))
        await cluster.clock.advance(2)
        assert not len(b.runtime.registry)
    assert shown[0][-1] == shown[1][-1]
    assert shown[0][0] == shown[1][0]


def _shown(items: Sequence[Item]) -> list[str]:
    """What each item is, and how much history it has."""
    seen = []
    for item in items:
        shown = opened(item) if isinstance(item, Opening) else getattr(item, "public", item)
        history = len(shown.history or ()) if isinstance(shown, Task) else ""
        seen.append(f"{type(shown).__name__} {history}")
    return seen


async def test_large_values_are_read_at_every_node() -> None:
    large = "x" * 300_000
    async with nodes() as cluster:
        a, b = cluster.worlds
        asked = await a.send(f"ask {large}", context="c")
        await cluster.clock.advance(2)
        answered = await b.send("say that one", task=asked.id)
        assert answered.status.state is COMPLETED
        history = b.scripted.turns[-1].history
        assert any(part.text and large in part.text for each in history for part in each.parts)


async def test_a_reader_of_a_task_that_was_pruned_while_its_node_stalled_learns_so() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("say one\nwait gate\nsay two", context="c")
        await a.gates.reached("gate")
        reading = await b.follow(task.id, after=0)
        await reading.read()
        cluster.nodes[1].pause()
        a.gates.open("gate")
        await cluster.clock.advance(10)
        await a.store.prune("test/agent", limit=100)
        cluster.nodes[1].resume()
        await cluster.clock.advance(5)
        assert isinstance((await reading.all())[-1], CutOff)
        await cluster.clock.advance(2)
        assert not len(b.runtime.registry)
