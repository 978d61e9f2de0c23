"""A crash before and after every call of the store, a restart, and a look at what is left."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.postgres.fixtures import clear
from tests.runtime.world import Reading, World, next_morning, said, state_of

from trunkline.engine.recovery import restart_reason
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, Task, TaskState, text_of
from trunkline.ports.store import Scope, Store
from trunkline.runtime.fanout import Opening
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import CrashingStore, FakeClock, settle

SUBMITTED, WORKING, FAILED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.FAILED


class Published:
    """All that anybody was told before the crash."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.answers: list[Task] = []
        # The messages whose turn the agent has begun: the effects that it may have had.
        self.turns: list[tuple[str, str]] = []

    def told(self, task: Task) -> Task:
        self.answers.append(task)
        return task

    def reads(self, reading: Reading) -> Reading:
        self.readings.append(reading)
        return reading


async def scenario(w: World, published: Published) -> None:
    """New task, deltas, artifact, question, follow-up, queue, cancel, key."""
    await w.open()
    stream = published.reads(await w.stream("stream 3; artifact text a b; note n"))
    await stream.all()
    asked = published.told(await w.send("say hm; ask size?"))
    answer = published.reads(await w.stream("say XL", task=asked.id))
    await answer.all()
    published.told(await w.get(asked.id))
    running = published.told(await w.submit("say some; wait gate", context="q"))
    queued = [published.told(await w.submit(f"say {n}", context="q")) for n in (1, 2)]
    follower = published.reads(await w.follow(queued[0].id))
    await settle()
    published.told(await w.cancel(running.id))
    await follower.all()
    for _ in range(2):
        published.told(await w.send("say keyed", key="k", id="keyed"))
    replay = published.reads(await w.follow(asked.id, after=0))
    await replay.all()
    published.told(await w.send("ask forever?"))
    published.told(await w.submit("say much; wait gate", context="r"))
    published.told(await w.submit("say first", context="r"))
    more = published.told(await w.submit("say second", context="r"))
    published.told(await w.submit("say third", task=more.id))
    await settle()


async def crash(inner: Store, crash_on: int, when: Literal["before", "after"]) -> Published | None:
    """What was told until the crash; None when the scenario ended without one."""
    store = CrashingStore(inner, crash_on=crash_on, when=when)
    w, published = World(store=store, node="one"), Published()
    playing = w.soon(scenario(w, published))
    crashed = asyncio.ensure_future(store.crashed.wait())  # noqa: TID251 - ends below
    both: set[asyncio.Future[Any]] = {playing, crashed}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    has_crashed = crashed.done()
    crashed.cancel()
    await settle()
    if not has_crashed:
        await playing
    await w.vanish()
    published.turns = turns_of(w)
    for reading in published.readings:
        # What had reached the subscription was as good as sent.
        if reading.subscription._items:
            await reading.read()
    return published if has_crashed else None


def turns_of(w: World) -> list[tuple[str, str]]:
    return [(turn.task_id, turn.message.message_id) for turn in w.scripted.turns]


async def journals(w: World) -> dict[str, tuple[Entry, ...]]:
    return {task.id: await w.journal(task.id) for task in await w.listed(page_size=100)}


def check_published(published: Published, stored: dict[str, tuple[Entry, ...]]) -> None:
    """What was told is a prefix of what is committed."""
    for reading in published.readings:
        if reading.items:
            journal = stored[reading.task_id]
            first = reading.items[0]
            start = first.seq if isinstance(first, Opening) else 0
            assert reading.entries == list(journal[start : start + len(reading.entries)])
    for task in published.answers:
        states = [state_of(entry) for entry in stored[task.id]]
        assert task.status.state in states


async def check_restart(w: World, left: dict[str, tuple[Entry, ...]], published: Published) -> None:
    ended = {}
    for task_id, journal in left.items():
        last = [state for entry in journal if (state := state_of(entry)) is not None][-1]
        if last in TERMINAL or last is TaskState.INPUT_REQUIRED:
            assert await w.journal(task_id) == journal
        elif last is WORKING:
            task = await w.ended(task_id)
            assert (task.status.state, said(task)) == (FAILED, restart_reason(WORKING))
            assert len(await w.journal(task_id)) == len(journal) + 1
        else:
            reading = await w.follow(task_id, after=len(journal), closes_on_input=True)
            await reading.all()
            assert await w.state(task_id) in (TaskState.COMPLETED, TaskState.INPUT_REQUIRED)
        ended[task_id] = await w.journal(task_id)
    for task_id, journal in ended.items():
        assert [entry.seq for entry in journal] == list(range(1, len(journal) + 1)), task_id
        assert journal[: len(left[task_id])] == left[task_id]
        states = [state_of(entry) for entry in journal]
        assert not TERMINAL.intersection(states[:-1])
    for task in published.answers:
        if task.status.state in TERMINAL:
            assert await w.get(task.id) == task
    check_order(w, left)


def check_order(w: World, left: dict[str, tuple[Entry, ...]]) -> None:
    """What waited ran in the order of its tasks' creation, which is that of their ids."""
    lanes: dict[str, list[str]] = {}
    for turn in w.scripted.turns:
        if turn.task_id in left:
            lanes.setdefault(turn.context_id, []).append(turn.task_id)
    for order in lanes.values():
        assert order == sorted(order)


async def check_key(w: World, published: Published) -> None:
    told = {task.id for task in published.answers if text_of(task.history[0].parts) == "say keyed"}
    again = await w.send("say keyed", key="k", id="keyed")
    assert told <= {again.id}
    everything = await w.listed(page_size=100)
    assert sum(text_of(task.history[0].parts) == "say keyed" for task in everything) == 1


async def crash_at_every_call(
    make: Callable[[int], Store], when: Literal["before", "after"]
) -> int:
    """`make` gives the store of a case, as it is now. Returns how many cases there are."""
    for call in count(1):
        store = make(call)
        published = await crash(store, call, when)
        await store.close()
        if published is None:
            return call
        store = make(call)
        await store.open()
        left = await journals(World(store=store))
        await store.close()
        check_published(published, left)
        w = World(store=make(call), node="two", clock=next_morning())
        w.gates.open("gate")
        await w.open()
        await check_restart(w, left, published)
        await check_key(w, published)
        turns = published.turns + turns_of(w)
        assert len(turns) == len(set(turns)), "a turn ran before and after the restart"
        assert len(w.runtime.registry) == 0
        await w.close()
    raise AssertionError


@pytest.mark.parametrize("when", ["before", "after"])
async def test_memory(when: Literal["before", "after"]) -> None:
    stores: defaultdict[int, Store] = defaultdict(MemoryStore)
    assert await crash_at_every_call(stores.__getitem__, when) > 25


@pytest.mark.parametrize("when", ["before", "after"])
async def test_json_files(tmp_path: Path, when: Literal["before", "after"]) -> None:
    def make(call: int) -> Store:
        return JsonFileStore(tmp_path / f"{call}", clock=FakeClock(), adopts=Scope("", "", ""))

    assert await crash_at_every_call(make, when) > 25


@pytest.mark.parametrize("when", ["before", "after"])
async def test_sqlite(tmp_path: Path, when: Literal["before", "after"]) -> None:
    def make(call: int) -> Store:
        return SqliteStore(tmp_path / f"{call}.db", synchronous="normal")

    assert await crash_at_every_call(make, when) > 25


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.full), "after"])
async def test_postgres(cleared_postgres_url: str, when: Literal["before", "after"]) -> None:
    last = 1

    def make(call: int) -> Store:
        nonlocal last
        if call > last:
            last = call
            clear(cleared_postgres_url)
        return PostgresStore(cleared_postgres_url, allow_unsafe=True)

    assert await crash_at_every_call(make, when) > 25
