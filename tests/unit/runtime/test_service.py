"""What is hard to reach through a binding: readers that resume, and the end of the process."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Part, Role, TaskState
from trunkline.ports.store import Scope, StoredTask
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import CutOff, Gap, Item, Opening, Subscription
from trunkline.runtime.runtime import Runtime
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, ScriptedBackend, SequentialIds, settle

ALICE = Caller(principal=Principal(id="alice", grants=EVERYTHING))
SCOPE = Scope("test/agent", "", "alice")


class World:
    def __init__(self, store: MemoryStore, *, stream_buffer: int) -> None:
        self.store = store
        self.clock = FakeClock()
        self.backend = ScriptedBackend(clock=self.clock)
        self.agent = PublishedAgent(handle="test/agent", backend=self.backend)
        self.runtime = Runtime(
            store=store,
            clock=self.clock,
            ids=SequentialIds(),
            agents=[self.agent],
            stream_buffer=stream_buffer,
        )
        self.service = self.runtime.service

    async def start(self, script: str, *, context_id: str = "") -> str:
        """Send the script; returns the id of its task, which goes on by itself."""
        request = SendMessageRequest(
            message=Message(
                message_id="m", context_id=context_id, role=Role.USER, parts=(Part(text=script),)
            ),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        await self.service.send(self.agent, ALICE, request)
        task_id = self.runtime.registry.all()[-1].task_id
        await settle()
        return task_id

    async def follow(self, task_id: str, last_seq: int) -> Subscription:
        request = SubscribeToTaskRequest(id=task_id)
        return await self.service.subscribe(self.agent, ALICE, request, last_seq=last_seq)


@asynccontextmanager
async def world(
    store: MemoryStore | None = None, *, stream_buffer: int = 1000
) -> AsyncIterator[World]:
    built = World(store or MemoryStore(), stream_buffer=stream_buffer)
    await built.runtime.open()
    try:
        yield built
    finally:
        closing = built.clock.advance(60)
        await built.runtime.close()
        await closing


async def read_all(reader: Subscription) -> list[Item]:
    items: list[Item] = []
    while more := await reader.next():
        items += more
    reader.close()
    return items


def seqs(items: list[Item]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Entry)]


@pytest.mark.parametrize("stream_buffer", [1, 5, 1000])
async def test_a_reader_far_behind_catches_up_whatever_the_buffer(stream_buffer: int) -> None:
    async with world(stream_buffer=stream_buffer) as w:
        task_id = await w.start("note a\n" * 30 + "wait end")
        reader = await w.follow(task_id, 0)
        items: list[Item] = []
        while len(seqs(items)) < 32:
            items += (more := await reader.next())
            assert seqs(more)
        assert seqs(items) == list(range(1, 33))
        w.backend.gates.open("end")
        assert seqs(await read_all(reader)) == [33]


class SlowReads(MemoryStore):
    """Something happens while a reader waits for the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], Awaitable[None]]] = []

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        found = await super().entries(task_id, after=after, limit=limit)
        while self.meanwhile:
            await self.meanwhile.pop()()
        return found


async def test_a_task_stays_in_memory_while_a_reader_catches_up() -> None:
    store = SlowReads()
    async with world(store) as w:
        task_id = await w.start("ask which")

        async def come_and_go() -> None:
            (await w.service.subscribe(w.agent, ALICE, SubscribeToTaskRequest(id=task_id))).close()

        store.meanwhile = [come_and_go]
        reader = await w.follow(task_id, 0)
        assert seqs(await reader.next()) == [1, 2, 3]
        await w.service.cancel(w.agent, ALICE, CancelTaskRequest(id=task_id))
        assert seqs(await read_all(reader)) == [4]
        assert len(w.runtime.registry) == 0


async def test_what_is_committed_while_a_reader_catches_up_comes_once() -> None:
    store = SlowReads()
    async with world(store) as w:
        task_id = await w.start("ask which")

        async def cancel() -> None:
            await w.service.cancel(w.agent, ALICE, CancelTaskRequest(id=task_id))

        store.meanwhile = [cancel]
        reader = await w.follow(task_id, 1)
        assert seqs(await read_all(reader)) == [2, 3, 4]
        assert len(w.runtime.registry) == 0


class Ahead(MemoryStore):
    """Reads see a commit before the loop was told of it."""

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        found = await super().entries(task_id, after=after, limit=limit)
        return (*found, Entry(found[-1].seq + 1, found[-1].kind, found[-1].body))


async def test_what_the_store_has_and_nobody_was_told_of_is_not_sent_yet() -> None:
    async with world(Ahead()) as w:
        task_id = await w.start("ask which")
        reader = await w.follow(task_id, 0)
        assert seqs(await reader.next()) == [1, 2, 3]
        await w.service.cancel(w.agent, ALICE, CancelTaskRequest(id=task_id))
        assert seqs(await read_all(reader)) == [4]


@pytest.mark.parametrize("last_seq", [1, 99], ids=["pruned", "from another life"])
async def test_where_the_journal_has_a_gap_the_task_follows(last_seq: int) -> None:
    async with world() as w:
        task_id = await w.start("ask which")
        await w.store.prune_journal(task_id, up_to=3)
        reader = await w.follow(task_id, last_seq)
        gap, opening = await reader.next()
        assert gap == Gap(last_seq, 3)
        assert isinstance(opening, Opening)
        assert opening.seq == 3
        await w.service.cancel(w.agent, ALICE, CancelTaskRequest(id=task_id))
        assert seqs(await read_all(reader)) == [4]


async def test_a_reader_that_is_let_go_while_it_catches_up_resumes_from_where_it_was() -> None:
    async with world(stream_buffer=2) as w:
        task_id = await w.start("note a\n" * 10 + "ask which")
        reader = await w.follow(task_id, 0)
        assert seqs(await reader.next()) == [1, 2]
        w.runtime.end_streams("the gateway is shutting down")
        assert await read_all(reader) == [CutOff("the gateway is shutting down", 2)]


class Broken(MemoryStore):
    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        raise StoreUnusable("the disk is gone")


async def test_a_journal_that_cannot_be_read_is_refused_before_the_stream_opens() -> None:
    async with world(Broken()) as w:
        task_id = await w.start("ask which")
        with pytest.raises(StoreUnusable):
            await w.follow(task_id, 0)
        assert len(w.runtime.registry) == 0
        assert not w.service.readers.subscriptions


async def test_what_waits_when_the_gateway_stops_is_left_for_the_next_start() -> None:
    store = MemoryStore()
    async with world(store) as w:
        running = await w.start("hang", context_id="c")
        waiting = await w.start("final done", context_id="c")
        stopping = w.clock.advance(60)
        await w.runtime.drain(grace_s=0)
        await stopping
        states = {id: (await stored(store, id)).state for id in (running, waiting)}
        assert states == {running: TaskState.FAILED, waiting: TaskState.SUBMITTED}
        assert [turn.task_id for turn in w.backend.turns] == [running]


async def stored(store: MemoryStore, task_id: str) -> StoredTask:
    found = await store.get(SCOPE, task_id)
    assert found is not None
    return found
