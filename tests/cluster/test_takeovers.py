"""What a takeover means for agents that resume, retry or leave their tasks, and for many lanes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from tests.cluster.nodes import nodes
from tests.runtime.world import World, said

from trunkline.model.events import Entry
from trunkline.model.values import Task, TaskState
from trunkline.ports.cluster import Advanced, lane_name
from trunkline.ports.records import Group, Key, Put, Record
from trunkline.ports.store import Result, Scope, Settled
from trunkline.runtime.live_task import LiveTask
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import Node, SharedStore

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED, CANCELED = TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED


async def test_a_turn_of_an_agent_that_resumes_goes_on_at_another_node() -> None:
    restart = ("resume_queued", "resume_running")
    async with nodes(resumable=True, on_restart=restart) as cluster:
        a, b = cluster.worlds
        task = await a.submit("say one; wait gate; say two", context="c")
        await a.gates.reached("gate")
        queued = await b.submit("say three", context="c")
        reading = await b.follow(task.id, after=0)
        await cluster.kill(0)
        b.gates.open("gate")
        await cluster.clock.advance(10)
        assert (await b.get(task.id)).status.state is COMPLETED
        assert (await b.get(queued.id)).status.state is COMPLETED
        assert [turn.is_resumed for turn in b.scripted.turns] == [True, False]
        await reading.all()
        assert reading.seqs == list(range(1, len(await b.journal(task.id)) + 1))


async def test_a_turn_that_may_be_repeated_is_repeated_at_another_node() -> None:
    async with nodes(on_restart=("resume_queued", "retry_running")) as cluster:
        a, b = cluster.worlds
        task = await a.submit("say one; wait gate", context="c")
        await a.gates.reached("gate")
        await cluster.kill(0)
        b.gates.open("gate")
        await cluster.clock.advance(10)
        assert (await b.get(task.id)).status.state is COMPLETED
        assert len(b.scripted.turns) == 1


async def test_tasks_that_a_restart_leaves_alone_cost_one_takeover() -> None:
    async with nodes(on_restart=("leave_orphaned",)) as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        await cluster.kill(0)
        await cluster.clock.advance(30)
        assert (await b.get(task.id)).status.state is WORKING
        lane = lane_name(Scope("test/agent", "", "alice"), "c")
        assert len(cluster.store.epochs[lane]) <= 2
        # A follow-up takes the task up again.
        assert (await b.send("say two", task=task.id)).status.state is COMPLETED
        await cluster.clock.advance(2)
        assert cluster.owner("c") is None
        assert not len(b.runtime.registry)


@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.full)])
async def test_many_lanes_are_taken_over_at_once(count: int) -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        tasks = [await a.submit("wait gate") for _ in range(count)]
        await cluster.kill(0)
        await cluster.clock.advance(8)
        listed = {task.id: task async for task in _all(b)}
        assert {listed[task.id].status.state for task in tasks} == {FAILED}
        await cluster.clock.advance(2)
        assert b.runtime.ownership is not None
        assert not b.runtime.ownership.held
        assert not len(b.runtime.registry)


async def _all(world: World) -> AsyncIterator[Task]:
    token = ""
    while True:
        tasks, token = await world.page(page_token=token, page_size=100)
        for task in tasks:
            yield task
        if not token:
            return


class Counting:
    """Counts the entries of its task in a record."""

    def __init__(self, record: Record | None = None) -> None:
        self.count = int(record.body) if record is not None else 0
        self.told: list[int] = []

    def enlist(
        self, live: LiveTask, entries: tuple[Entry, ...], state: TaskState
    ) -> tuple[Group, ...]:
        self.count += len(entries)
        key = Key("count.1", live.task_id, "")
        put = Put(key=key, body=str(self.count).encode(), goes_with_task=True)
        return (Group((put,), is_required=False),)

    def committed(self, live: LiveTask, entries: tuple[Entry, ...], *_: object) -> None:
        self.told += [entry.seq for entry in entries]


@pytest.mark.parametrize("is_followed", [False, True])
async def test_participants_and_taps_go_on_at_the_next_owner(is_followed: bool) -> None:
    participants: list[Counting] = []

    def rejoin(_: LiveTask, records: object) -> list[Counting]:
        assert isinstance(records, list)
        participants.append(Counting(records[0]))
        return participants[-1:]

    async with nodes(participants={"count.1": rejoin}) as cluster:
        a, b = cluster.worlds
        tapped: list[int] = []
        asked = await a.send("ask Which one?", context="c")
        live = await a.runtime.registry.load(Scope("test/agent", "", "alice"), asked.id)
        first = Counting()
        live.participants += (first,)
        with a.runtime.registry.pinned(live):
            running = a.soon(a.send("say one; wait gate", task=asked.id))
            await a.gates.reached("gate")
        reading = await b.follow(asked.id, after=0) if is_followed else None
        b.runtime.journal.taps += (lambda _, entries: tapped.extend(e.seq for e in entries),)
        await cluster.kill(0)
        await cluster.clock.advance(10)
        assert not running.done()
        failed = await b.get(asked.id)
        assert failed.status.state is FAILED
        assert "restarted" in said(failed)
        record = await b.store.record(Key("count.1", asked.id, ""))
        assert record is not None
        last = len(await b.journal(asked.id))
        assert int(record.body) == last + 1 - first.told[0]
        assert tapped == participants[-1].told == [last]
        if reading is not None:
            await reading.all()
            assert reading.seqs == list(range(1, last + 1))


class LateNode(Node):
    """Holds back a read on its way to the store, and the answers to its commits, on demand."""

    def __init__(self, shared: SharedStore) -> None:
        super().__init__(shared)
        self.read_held = asyncio.Event()
        self.hold_read_until: asyncio.Event | None = None
        self.answers: list[Callable[[], None]] | None = None

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        until, self.hold_read_until = self.hold_read_until, None
        if until is not None:
            self.read_held.set()
            await until.wait()
        return await super().entries(task_id, after=after, limit=limit)

    def _tell(self, settled: Settled, result: Result) -> None:
        if self.answers is None:
            super()._tell(settled, result)
        else:
            self.answers.append(partial(settled, result))


class LateStore(SharedStore):
    def node(self) -> Node:
        node = LateNode(self)
        self.nodes.append(node)
        return node


async def test_a_read_under_way_at_the_takeover_does_not_publish_what_this_node_writes() -> None:
    """A store of several connections may show an entry to one of them before it has answered the
    other, which wrote it."""
    clock = FakeClock()
    restart = ("resume_queued", "resume_running")
    async with nodes(
        clock=clock, store=LateStore(clock), resumable=True, on_restart=restart
    ) as cluster:
        a, b = cluster.worlds
        node = cluster.nodes[1]
        assert isinstance(node, LateNode)
        task = await a.submit("say one; wait gate; say two; wait more; say three")
        await a.gates.reached("gate")
        reading = await b.follow(task.id)
        node.hold_read_until = may_read = asyncio.Event()
        node.hear(Advanced(task.id, 99))
        await node.read_held.wait()
        before = await cluster.store.entries(task.id, after=0, limit=99)
        answers: list[Callable[[], None]] = []
        node.answers = answers
        await cluster.kill(0)
        b.gates.open("gate")
        await clock.advance(10)
        await b.gates.reached("more")
        await settle()
        assert answers
        assert len(await cluster.store.entries(task.id, after=0, limit=99)) > len(before)
        may_read.set()
        await settle()
        node.answers = None
        for answer in answers:
            answer()
        b.gates.open("more")
        await reading.all()
        seqs = [entry.seq for entry in await b.journal(task.id)]
        assert reading.seqs == seqs[reading.seqs[0] - 1 :]
        assert (await b.get(task.id)).status.state is COMPLETED
