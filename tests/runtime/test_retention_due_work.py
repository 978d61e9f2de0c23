"""Retention as due work: one sweep at a time over all nodes, in slices, and for ever."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.runtime.test_retention_pace import TimedStore
from tests.runtime.world import HANDLE, world

from trunkline.engine.retention import ClockTrust
from trunkline.model.errors import StoreUnusable
from trunkline.ports.caller_records import ANSWER, put_answer
from trunkline.ports.records import Change, Key, Put
from trunkline.ports.store import Append, Scope
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.due_work import LEASE_S, DueWork
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.retention import RETENTION, SLICE_S, SWEEP_EVERY_S, Retention
from trunkline.settings.profiles import preset
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, ScriptedBackend, SequentialIds
from trunkline.testing.stores.kit import COMPLETED, create, must_put

RECORD = Key(RETENTION, HANDLE, "")


class CountingStore(MemoryStore):
    """Notes of whom it was asked to prune, and when."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._clock = clock
        self.asked: list[tuple[float, str]] = []

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        self.asked.append((self._clock.monotonic(), agent))
        return await super().count_ended(agent, before_ms=before_ms)


@asynccontextmanager
async def node(
    store: MemoryStore, clock: FakeClock, handles: Iterable[str], **profile: Any
) -> AsyncIterator[Retention]:
    """The retention of a gateway on the store, with its due work."""
    agents = {
        handle: PublishedAgent(
            handle=handle,
            backend=ScriptedBackend(clock=clock),
            profile=preset("standard", **profile),
        )
        for handle in handles
    }
    trust = ClockTrust(now_ms=clock.now_ms(), monotonic_s=clock.monotonic())
    retention = Retention(
        store=store,
        clock=clock,
        trust=trust,
        agents=agents,
        committed=lambda: 0,
        main=MainStore.own(store, ids=SequentialIds()),
    )
    await retention.look_at_clock()
    due = DueWork(store=store, clock=clock, kinds=[retention.due_kind()])
    due.start()
    try:
        yield retention
    finally:
        await due.close(grace_s=0)


def ended(agent: str, count: int) -> list[Append]:
    scope = Scope(agent, "", "x")
    return [create(f"{agent}-{n}", scope=scope, state=COMPLETED, status_ms=0) for n in range(count)]


async def test_of_several_nodes_one_sweeps() -> None:
    clock = FakeClock()
    store = CountingStore(clock)
    await store.open()
    options = {"retention_s": 0.0, "retention_max_tasks": 1}
    async with node(store, clock, ["a"], **options), node(store, clock, ["a"], **options):
        await clock.advance(3 * SWEEP_EVERY_S + 10)
    assert len(store.asked) == 3


@pytest.mark.full
async def test_nodes_with_different_agents_leave_them_to_each_other() -> None:
    clock = FakeClock()
    store = CountingStore(clock)
    await store.open()
    options = {"retention_s": 0.0, "retention_max_tasks": 1}
    async with node(store, clock, ["a"], **options):
        await clock.advance(0.4)
        async with node(store, clock, ["b"], **options):
            await clock.advance(8 * SWEEP_EVERY_S)
    assert {agent for _, agent in store.asked} == {"a", "b"}


async def test_the_record_of_an_agent_that_is_not_published_waits() -> None:
    clock = FakeClock()
    store = CountingStore(clock)
    await store.open()
    options = {"retention_s": 0.0, "retention_max_tasks": 1}
    async with node(store, clock, ["a"], **options):
        pass
    async with node(store, clock, ["b"], **options):
        await clock.advance(2 * SWEEP_EVERY_S + 5)
        assert {agent for _, agent in store.asked} == {"b"}
    async with node(store, clock, ["a"], **options):
        await clock.advance(SWEEP_EVERY_S + 5)
        assert {agent for _, agent in store.asked} == {"a", "b"}


async def test_a_long_sweep_goes_on_in_slices_and_others_take_turns() -> None:
    clock = FakeClock()
    store = TimedStore(clock)
    store.step_s = 2.0
    await store.open()
    await must_put(store, *ended("large", 300), *ended("small", 2))
    async with node(store, clock, ["large", "small"], retention_s=10.0):
        await clock.advance(SWEEP_EVERY_S + 2 * SLICE_S + 10)
        # The small one did not wait for the large one, which is far from done.
        assert await store.count_ended("small") == 0
        assert await store.count_ended("large") > 50
        await clock.advance(20 * LEASE_S)
        assert await store.count_ended("large") == 0
        (record,) = await store.records(RETENTION, scope="large", limit=9)
        assert record.attempts == 0
        assert record.tags == ()


async def test_retention_by_number_goes_on_when_the_clock_was_set_back() -> None:
    async with world(retention_s=0.0, retention_max_tasks=1) as w:
        for _ in range(3):
            await w.send("say one")
        w.clock.jump(-8 * 86_400)
        await w.clock.advance(SWEEP_EVERY_S + 10)
        assert len(await w.listed()) == 1


async def test_the_profile_of_the_next_start_counts() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    await must_put(store, *ended("a", 1))
    await store.change(put_answer(Scope("a", "", "x"), "c", "1", b"[]"))
    async with node(store, clock, ["a"], retention_s=3000.0):
        await clock.advance(SWEEP_EVERY_S + 5)
        assert await store.count_ended("a") == 1
    async with node(store, clock, ["a"], retention_s=0.0):
        await clock.advance(SWEEP_EVERY_S + 5)
        # Nothing is left to do for an agent that keeps everything.
        assert await store.records(RETENTION, limit=9) == ()
        assert await store.count_ended("a") == 1
    async with node(store, clock, ["a"], retention_s=50.0):
        await clock.advance(SWEEP_EVERY_S + 5)
        assert await store.count_ended("a") == 0
        assert await store.records(ANSWER, limit=9) == ()


class FullStore(MemoryStore):
    """Changes no records while its disk is full."""

    is_full = False

    async def change(self, *changes: Change) -> None:
        if self.is_full:
            raise StoreUnusable("the disk is full")
        await super().change(*changes)


async def test_a_gateway_that_starts_with_a_full_disk_sweeps_when_there_is_room() -> None:
    clock = FakeClock()
    store = FullStore(clock)
    store.is_full = True
    async with world(store=store, clock=clock, retention_s=0.0, retention_max_tasks=1) as w:
        for _ in range(3):
            await w.send("say one")
        await clock.advance(20)
        assert await store.record(RECORD) is None
        store.is_full = False
        await clock.advance(SWEEP_EVERY_S + 10)
        assert len(await w.listed()) == 1


async def test_a_sweep_that_could_not_be_committed_is_repeated() -> None:
    clock = FakeClock()
    store = FullStore(clock)
    await store.open()
    async with node(store, clock, ["a"], retention_s=0.0, retention_max_tasks=1):
        store.is_full = True
        await clock.advance(SWEEP_EVERY_S + LEASE_S)
        await must_put(store, *ended("a", 3))
        store.is_full = False
        await clock.advance(LEASE_S + 5)
        assert await store.count_ended("a") == 1


@pytest.mark.full
async def test_a_sweep_that_fails_is_tried_again_for_ever() -> None:
    class Failing(MemoryStore):
        fails = True

        async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
            if self.fails:
                raise StoreUnusable("the disk does not answer")
            return await super().count_ended(agent, before_ms=before_ms)

    clock = FakeClock()
    store = Failing(clock)
    await store.open()
    await must_put(store, *ended("a", 3))
    async with node(store, clock, ["a"], retention_s=0.0, retention_max_tasks=1):
        # More often than other kinds of due work are tried.
        await clock.advance(1300)
        assert len(await store.entries("a-0", after=0, limit=9)) == 1
        store.fails = False
        await clock.advance(310)
        assert await store.count_ended("a") == 1


async def test_a_start_repairs_a_due_time_that_is_far_away() -> None:
    """The process before had a clock that was wrong."""
    clock = FakeClock()
    store = MemoryStore(clock)
    async with world(store=store, clock=clock, retention_s=10.0):
        found = await store.record(RECORD)
        assert found is not None
        assert found.due_ms == clock.now_ms() + SWEEP_EVERY_S * 1000
    await store.open()
    await store.change(Put(key=RECORD, due_in_ms=10**9))
    await store.close()
    async with world(store=store, clock=clock, retention_s=10.0):
        found = await store.record(RECORD)
        assert found is not None
        assert found.due_ms == clock.now_ms() + SWEEP_EVERY_S * 1000


async def test_an_agent_that_is_published_or_replaced_later_is_swept_by_its_profile() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    async with node(store, clock, ["a"], retention_s=0.0) as retention:
        await must_put(store, *ended("a", 3))
        assert isinstance(retention.agents, dict)
        for kept, expected in ((2, 2), (0, 2), (1, 1)):
            profile = preset("standard", retention_s=0.0, retention_max_tasks=kept)
            retention.agents["a"] = PublishedAgent(
                handle="a", backend=ScriptedBackend(clock=clock), profile=profile
            )
            await retention.look_at_clock()
            await clock.advance(SWEEP_EVERY_S + 5)
            assert await store.count_ended("a") == expected
