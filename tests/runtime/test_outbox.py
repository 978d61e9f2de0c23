"""Changes of the main store that are committed with tasks of another store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Add, Change, Delete, Key, Put
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DEAD, DueWork
from trunkline.runtime.outbox import MARKER, MARKER_KEPT_MS, OUTBOX, MainStore
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, SequentialIds
from trunkline.testing.clock import settle

DAY_S = 24 * 3600.0
KEPT_S = MARKER_KEPT_MS / 1000


class BrokenStore(MemoryStore):
    """Refuses changes while it is broken."""

    is_broken = False

    async def change(self, *changes: Change) -> None:
        if self.is_broken:
            raise StoreUnusable("the disk is full")
        await super().change(*changes)


class Stores:
    def __init__(self, *, skew_s: float = 0.0) -> None:
        """`skew_s`: how far the clock of the store with the tasks is ahead of the gateway's."""
        self.clock = FakeClock()
        self.other_clock = FakeClock(self.clock.now_ms() + round(skew_s * 1000))
        self.main = BrokenStore(self.clock)
        self.other = MemoryStore(self.other_clock)
        self.way = MainStore(open=self._open_main, has_tasks=False, ids=SequentialIds("entry"))
        self.due = DueWork(store=self.other, clock=self.clock, kinds=self.way.due_kinds())

    async def _open_main(self) -> Store:
        return self.main

    async def post(self, *changes: Put | Delete | Add, scope: str = "scope") -> None:
        await self.other.change(*self.way.changes(scope, *changes))
        self.due.wake()
        await settle()

    async def let_pass(self, seconds: float) -> None:
        """Both clocks go forward, and what is due then is handled."""
        self.other_clock.jump(seconds + 1)
        self.clock.jump(seconds)
        await self.clock.advance(1)

    async def bodies(self) -> list[bytes]:
        return [record.body for record in await self.main.records("note.1", limit=9)]


@asynccontextmanager
async def stores(*, skew_s: float = 0.0) -> AsyncIterator[Stores]:
    made = Stores(skew_s=skew_s)
    await made.main.open()
    await made.other.open()
    made.due.start()
    await made.clock.wait_until_sleeping()
    try:
        yield made
    finally:
        await made.due.close()


def note(name: str, body: bytes = b"", *, expected: int | None = None) -> Put:
    return Put(key=Key("note.1", "", name), body=body, expected=expected)


async def test_a_change_reaches_the_main_store_at_once() -> None:
    async with stores() as s:
        await s.post(note("a", b"1"), Add(key=Key("count.1", "", "n"), amount=2, at_most=9))
        assert await s.bodies() == [b"1"]
        counted = await s.main.record(Key("count.1", "", "n"))
        assert counted is not None
        assert counted.count == 2
        await s.post(Delete(key=Key("note.1", "", "a")))
        assert await s.bodies() == []
        assert await s.other.records(OUTBOX, limit=9) == ()


async def test_with_tasks_in_the_main_store_there_is_no_outbox() -> None:
    way = MainStore.own(MemoryStore(), ids=SequentialIds("entry"))
    changes = (note("a"), Delete(key=Key("note.1", "", "b")))
    assert way.changes("scope", *changes) == changes


async def test_entries_wait_for_a_main_store_that_is_unusable_in_their_order() -> None:
    async with stores() as s:
        s.main.is_broken = True
        for body in (b"1", b"2", b"3"):
            await s.post(note("a", body))
        for _ in range(25):
            await s.let_pass(300)
        (first, *_) = await s.other.records(OUTBOX, limit=9)
        assert first.attempts > 20
        s.main.is_broken = False
        seen: list[list[bytes]] = []
        for _ in range(5):
            await s.let_pass(300)
            if (found := await s.bodies()) and found not in seen:
                seen.append(found)
        assert seen[-1] == [b"3"]
        assert seen == sorted(seen)
        assert await s.other.records(OUTBOX, limit=9) == ()


@pytest.mark.parametrize(
    "refused",
    [note("a", expected=7), Add(key=Key("count.1", "", "n"), amount=2, at_most=1)],
    ids=["version", "limit"],
)
async def test_an_entry_that_the_main_store_refuses_is_a_dead_letter(refused: Put | Add) -> None:
    async with stores() as s:
        await s.post(note("whole", b"1"), refused)
        await s.post(note("next", b"2"))
        assert await s.bodies() == [b"2"]
        (dead,) = await s.other.records(OUTBOX, tag=DEAD, limit=9)
        assert dead.due_ms is None
        assert b"whole" in dead.body


async def test_an_entry_that_was_worked_off_before_changes_nothing() -> None:
    async with stores() as s:
        (entry,) = s.way.changes("scope", note("a", b"1", expected=0))
        for _ in range(2):
            await s.other.change(entry)
            s.due.wake()
            await settle()
            assert await s.other.records(OUTBOX, limit=9) == ()
        assert await s.bodies() == [b"1"]


any_skew = pytest.mark.parametrize(
    "skew_s", [0.0, 2 * KEPT_S, -2 * KEPT_S], ids=["none", "ahead", "behind"]
)


@any_skew
async def test_an_old_entry_that_may_have_been_worked_off_is_given_up(skew_s: float) -> None:
    async with stores(skew_s=skew_s) as s:
        s.main.is_broken = True
        await s.post(note("a", b"1"))
        s.main.is_broken = False
        await s.let_pass(KEPT_S - 60)
        assert await s.bodies() == []
        assert len(await s.other.records(OUTBOX, tag=DEAD, limit=9)) == 1


@any_skew
async def test_a_young_entry_is_tried_again(skew_s: float) -> None:
    async with stores(skew_s=skew_s) as s:
        s.main.is_broken = True
        await s.post(note("a", b"1"))
        s.main.is_broken = False
        await s.let_pass(KEPT_S - 2 * DAY_S)
        assert await s.bodies() == [b"1"]
        assert await s.other.records(OUTBOX, limit=9) == ()


async def test_a_marker_goes_after_its_time() -> None:
    async with stores() as s:
        await s.post(note("a", b"1"))
        own = MainStore.own(s.main, ids=SequentialIds("x"))
        due = DueWork(store=s.main, clock=s.clock, kinds=own.due_kinds())
        due.start()
        await s.clock.advance(2)
        assert len(await s.main.records(MARKER, limit=9)) == 1
        s.clock.jump(MARKER_KEPT_MS / 1000)
        await s.clock.advance(2)
        assert await s.main.records(MARKER, limit=9) == ()
        await due.close()


async def test_the_body_of_an_entry_stays_as_it_is() -> None:
    """Entries outlive a release: a new format gets a new kind."""
    async with stores() as s:
        body = (
            b'[{"put":{"key":{"kind":"note.1","scope":"","id":"a"},"body":"MQ==",'
            b'"due_in_ms":null,"tags":["t"],"goes_with_task":false,"expected":null}},'
            b'{"delete":{"key":{"kind":"note.1","scope":"","id":"b"},"expected":1}},'
            b'{"add":{"key":{"kind":"count.1","scope":"","id":"n"},"amount":1,"at_most":2}}]'
        )
        changes = (
            Put(key=Key("note.1", "", "a"), body=b"1", tags=("t",)),
            Delete(key=Key("note.1", "", "b"), expected=1),
            Add(key=Key("count.1", "", "n"), amount=1, at_most=2),
        )
        (entry,) = s.way.changes("scope", *changes)
        assert isinstance(entry, Put)
        assert entry.body == body
