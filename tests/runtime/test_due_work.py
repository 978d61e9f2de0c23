"""Due work: at least one run of the handler, and what it commits counts once."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Add, Change, Key, Put, Record
from trunkline.runtime.due_work import DEAD, LEASE_S, TICK_S, DueKind, DueWork, retry_after_s
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock
from trunkline.testing.clock import settle

COUNT = Key("count.1", "", "runs")


def key(name: str, scope: str = "scope") -> Key:
    return Key("check.1", scope, name)


class Handler:
    """Waits at the gate if there is one, fails as often as told, then counts in the store."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gate: asyncio.Event | None = None
        self.fails = 0

    async def __call__(self, record: Record) -> Sequence[Change]:
        self.seen.append(record.key.id)
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise RuntimeError("not now")
        return [Add(key=COUNT, amount=1, at_most=1000)]


class Work:
    def __init__(self, store: MemoryStore, clock: FakeClock, **options: Any) -> None:
        self.store = store
        self.clock = clock
        self.handler = Handler()
        self.times: list[float] = []
        kind = DueKind(name="check.1", handle=self._handle, **options)
        self.due = DueWork(store=store, clock=clock, kinds=[kind])

    async def _handle(self, record: Record) -> Sequence[Change]:
        self.times.append(self.clock.monotonic())
        return await self.handler(record)

    async def count(self) -> int:
        found = await self.store.record(COUNT)
        return 0 if found is None else found.count


@asynccontextmanager
async def working(**options: Any) -> AsyncIterator[Work]:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    work = Work(store, clock, **options)
    work.due.start()
    await clock.wait_until_sleeping()
    try:
        yield work
    finally:
        await work.due.close()
        await store.close()


async def test_a_record_is_handled_when_its_time_has_come() -> None:
    async with working() as w:
        await w.store.change(Put(key=key("a"), due_in_ms=5_000))
        await w.clock.advance(4)
        assert w.handler.seen == []
        await w.clock.advance(2)
        assert w.handler.seen == ["a"]
        assert await w.store.record(key("a")) is None
        assert await w.count() == 1


async def test_wake_spares_the_wait_for_the_tick() -> None:
    async with working() as w:
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        w.due.wake()
        await settle()
        assert w.handler.seen == ["a"]


async def test_records_of_a_scope_are_handled_in_order_and_scopes_side_by_side() -> None:
    async with working(workers=3) as w:
        w.handler.gate = asyncio.Event()
        for name in ("a1", "a2", "b1", "b2"):
            await w.store.change(Put(key=key(name, name[0]), due_in_ms=0))
            await w.clock.advance(0.01)
        w.due.wake()
        await settle()
        assert w.handler.seen == ["a1", "b1"]
        w.handler.gate.set()
        await settle()
        assert sorted(w.handler.seen) == ["a1", "a2", "b1", "b2"]
        assert await w.count() == 4


async def test_a_failure_is_tried_again_later_each_time() -> None:
    async with working() as w:
        w.handler.fails = 3
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        await w.clock.advance(20)
        waits = [later - earlier for earlier, later in pairwise(w.times)]
        for failures, wait in enumerate(waits, 1):
            assert retry_after_s(failures) <= wait <= retry_after_s(failures) + TICK_S
        assert len(w.handler.seen) == 4
        assert await w.count() == 1


async def test_after_the_last_attempt_the_scope_continues_without_the_record() -> None:
    async with working(max_attempts=2) as w:
        w.handler.fails = 2
        await w.store.change(Put(key=key("a"), body=b"body", tags=("tag",), due_in_ms=0))
        await w.clock.advance(0.01)
        await w.store.change(Put(key=key("b"), due_in_ms=0))
        await w.clock.advance(10)
        assert w.handler.seen == ["a", "a", "b"]
        (dead,) = await w.store.records("check.1", tag=DEAD, limit=9)
        assert (dead.key, dead.body, dead.tags) == (key("a"), b"body", ("tag", DEAD))
        assert dead.due_ms is None
        assert await w.count() == 1


async def test_a_handler_that_hangs_is_ended_and_given_up_in_the_end() -> None:
    async with working(max_attempts=2) as w:
        w.handler.gate = asyncio.Event()
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        await w.clock.advance(3 * LEASE_S + 10)
        assert w.handler.seen == ["a", "a"]
        assert len(await w.store.records("check.1", tag=DEAD, limit=9)) == 1
        assert await w.count() == 0


async def test_a_claim_that_was_never_committed_is_handled_again_by_the_next_process() -> None:
    async with working() as w:
        w.handler.gate = asyncio.Event()
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        w.due.wake()
        await settle()
        assert w.handler.seen == ["a"]
        await w.due.close(grace_s=0)
        after = Work(w.store, w.clock)
        after.due.start()
        await w.clock.advance(LEASE_S - 2)
        assert after.handler.seen == []
        await w.clock.advance(4)
        assert after.handler.seen == ["a"]
        assert await w.count() == 1
        await after.due.close()


async def test_a_handler_that_outlived_its_lease_commits_nothing() -> None:
    async with working() as w:
        w.handler.gate = asyncio.Event()
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        w.due.wake()
        await settle()
        # As a node that was suspended: its clock stands still while the lease ends elsewhere.
        w.clock.jump(LEASE_S + 1)
        (claimed,) = await w.store.claim_due({"check.1": 1}, lease_ms=1000)
        w.handler.gate.set()
        await settle()
        assert await w.count() == 0
        kept = await w.store.record(key("a"))
        assert kept is not None
        assert kept.version == claimed.version


@pytest.mark.parametrize("crowd", [2_000, pytest.param(100_000, marks=pytest.mark.full)])
async def test_a_crowd_of_one_kind_does_not_delay_another(crowd: int) -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    slow, quick = Handler(), Handler()
    slow.gate = asyncio.Event()
    kinds = [DueKind(name="slow.1", handle=slow), DueKind(name="quick.1", handle=quick)]
    due = DueWork(store=store, clock=clock, kinds=kinds)
    due.start()
    for number in range(crowd):
        await store.change(Put(key=Key("slow.1", str(number), ""), due_in_ms=0))
    await clock.advance(2)
    assert len(slow.seen) == 4
    await store.change(Put(key=Key("quick.1", "", "now"), due_in_ms=0))
    due.wake()
    await settle()
    assert quick.seen == ["now"]
    await due.close(grace_s=0)
    await store.close()


@pytest.mark.parametrize("error", [StoreUnusable("the disk is gone"), ValueError("a bug")])
async def test_a_store_that_fails_for_long_is_logged_once_and_asked_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(MemoryStore):
        fails = True

        async def claim_due(
            self, shares: Mapping[str, int], *, lease_ms: int
        ) -> tuple[Record, ...]:
            if self.fails:
                raise error
            return await super().claim_due(shares, lease_ms=lease_ms)

    clock = FakeClock()
    store = Failing(clock)
    await store.open()
    work = Work(store, clock)
    work.due.start()
    await store.change(Put(key=key("a"), due_in_ms=0))
    await clock.advance(5)
    (logged,) = caplog.records
    assert logged.message == "due work cannot be claimed"
    # A store says what is wrong; only a bug needs the place in the code.
    assert (logged.exc_info is None) is isinstance(error, StoreUnusable)
    store.fails = False
    await clock.advance(2)
    assert work.handler.seen == ["a"]
    await work.due.close()


async def test_alarms_are_in_time_and_those_of_a_moment_ask_the_store_once() -> None:
    async with working() as w:
        claims: list[float] = []
        claim = w.store.claim_due

        async def counted(*args: Any, **options: Any) -> tuple[Record, ...]:
            claims.append(w.clock.monotonic())
            return await claim(*args, **options)

        w.store.claim_due = counted  # type: ignore[method-assign]
        for number in (3, 1, 2):
            await w.store.change(Put(key=key(f"{number}", f"{number}"), due_in_ms=250 + number))
            w.due.wake_in(0.25 + number / 1000)
        await w.clock.advance(0.3)
        assert w.handler.seen == ["1", "2", "3"]
        assert w.times == [pytest.approx(0.26)] * 3
        # One for the alarm, and one for what may be due after the handlers.
        assert len(claims) == 2


async def test_the_kind_learns_of_what_its_handler_changed_once_that_is_committed() -> None:
    told: list[tuple[str, int, int]] = []

    def committed(record: Record, changes: Sequence[Change]) -> None:
        told.append((record.key.id, len(changes), record.attempts))

    async with working(committed=committed) as w:
        w.handler.fails = 1
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        w.due.wake()
        await settle()
        assert told == []
        await w.clock.advance(3)
        assert told == [("a", 1, 2)]


async def test_a_handler_that_met_another_state_runs_again_soon() -> None:
    """Something else has changed what its changes expected; its own record is as it was."""
    async with working() as w:
        other = key("other")

        async def handle(record: Record) -> Sequence[Change]:
            found = await w.store.record(other)
            w.times.append(w.clock.monotonic())
            if len(w.times) == 1:
                await w.store.change(Put(key=other))
            version = 0 if found is None else found.version
            return [Put(key=other, body=b"done", expected=version)]

        w._handle = handle  # type: ignore[method-assign]
        w.due._kinds["check.1"] = DueKind(name="check.1", handle=handle)
        await w.store.change(Put(key=key("a"), due_in_ms=0))
        w.due.wake()
        await w.clock.advance(5)
        assert len(w.times) == 2
        found = await w.store.record(other)
        assert found is not None
        assert found.body == b"done"
        assert await w.store.record(key("a")) is None
