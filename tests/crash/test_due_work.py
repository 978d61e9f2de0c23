"""Due work, and a crash at every call of its store: a handler runs again until it has committed."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from tests.crash.timeless import TimelessStore, all_answered
from tests.postgres.clock import ClockedStore, DatabaseClock
from tests.unit.stores.jsonfiles import store_on

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Defer, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueKind, DueWork
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.clock import settle

KIND = "check.1"
COUNT = Key("count.1", "", "done")
# Two of a scope, whose order counts, and one that its handler defers once.
RECORDS = [Key(KIND, "s", "1"), Key(KIND, "s", "2"), Key(KIND, "late", "3")]

MakeStore = Callable[[Path, Clock], Store]
FILES: dict[str, MakeStore] = {
    "sqlite": lambda path, clock: SqliteStore(path / "x.db", synchronous="normal", clock=clock),
    "json-file": lambda path, clock: store_on(path / "tasks", clock=clock),
}


class Life:
    """A process that works off the records until it dies."""

    def __init__(self, store: TimelessStore, clock: FakeClock, *, seen: Store) -> None:
        """`seen` shows the records to the test, which is no call of the process."""
        self.store = store
        self.seen = seen
        self.clock = clock
        self.runs: list[str] = []
        self.due = DueWork(
            store=self.store,
            clock=clock,
            kinds=[DueKind(name=KIND, handle=self._handle, workers=2)],
        )

    async def _handle(self, record: Record) -> Sequence[Change]:
        self.runs.append(f"{record.key.id}:{record.attempts}")
        if record.key.scope == "late" and record.attempts == 1:
            return [Defer(key=record.key, in_ms=2000, expected=record.version)]
        return [Add(key=COUNT, amount=1, at_most=len(RECORDS))]

    async def play(self) -> None:
        for key in RECORDS:
            await self.store.change(Put(key=key, due_in_ms=0))
        await self.work_off()

    async def work_off(self) -> None:
        self.due.start()
        while await self.seen.records(KIND, limit=1):
            await all_answered(self.store)
            await self.clock.advance(1)


async def crash(make: MakeStore, folder: Path, crash_on: int, when: Any) -> Life | None:
    """The life that ended in the crash; None when there was none."""
    clock = FakeClock()
    inner = make(folder, clock)
    await inner.open()
    store = TimelessStore(inner, crash_on=crash_on, when=when)
    life, tasks = Life(store, clock, seen=inner), BackgroundTasks("life")
    playing = tasks.start(life.play(), name="play")
    crashed: asyncio.Task[Any] = tasks.start(store.crashed.wait(), name="crash")
    async with asyncio.timeout(10):
        await asyncio.wait({playing, crashed}, return_when=asyncio.FIRST_COMPLETED)
    has_crashed = crashed.done()
    await settle()
    await tasks.close()
    await life.due.close(grace_s=0)
    await inner.close()
    if not has_crashed:
        playing.result()
    return life if has_crashed else None


async def check_restart(make: MakeStore, folder: Path, before: Life) -> None:
    clock = FakeClock(before.clock.now_ms())
    inner = make(folder, clock)
    store = TimelessStore(inner, crash_on=0)
    await store.open()
    left = await store.records(KIND, limit=9)
    done = await store.record(COUNT)
    committed = 0 if done is None else done.count
    life = Life(store, clock, seen=inner)
    async with asyncio.timeout(10):
        await life.work_off()
    await life.due.close()
    # The handlers of the records that are left run, and no others.
    expected = [
        f"{record.key.id}:{attempt}" for record in left for attempt in attempts_to_come(record)
    ]
    assert sorted(life.runs) == sorted(expected)
    assert len(set(before.runs)) == len(before.runs)
    done = await store.record(COUNT)
    assert (0 if done is None else done.count) == committed + len(left)
    assert [run[0] for run in life.runs if run[0] in "12"] == sorted(
        record.key.id for record in left if record.key.scope == "s"
    )
    await store.close()


def attempts_to_come(record: Record) -> range:
    last = 2 if record.key.scope == "late" else 1
    return range(record.attempts + 1, max(record.attempts + 1, last) + 1)


async def crash_at_every_call(
    make: MakeStore, tmp_path: Path, when: Literal["before", "after"]
) -> None:
    crash_on = 0
    while True:
        crash_on += 1
        folder = tmp_path / str(crash_on)
        folder.mkdir()
        life = await crash(make, folder, crash_on, when)
        if life is None:
            break
        await check_restart(make, folder, life)
    assert crash_on > 2 * len(RECORDS)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", FILES)
async def test_a_handler_runs_again_only_after_a_crash_before_its_commit(
    tmp_path: Path, kind: str, when: Literal["before", "after"]
) -> None:
    await crash_at_every_call(FILES[kind], tmp_path, when)


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.full), "after"])
async def test_a_handler_on_postgresql_runs_again_only_after_a_crash_before_its_commit(
    tmp_path: Path, postgres_url: str, when: Literal["before", "after"]
) -> None:
    """Another node may have the claim, so that it lasts as long as its lease."""
    seen = tmp_path
    with closing(DatabaseClock(postgres_url)) as database_clock:

        def make(folder: Path, clock: Clock) -> Store:
            nonlocal seen
            if folder != seen:
                seen = folder
                with psycopg.connect(postgres_url, autocommit=True) as connection:
                    connection.execute("TRUNCATE records, due_scopes")
            return ClockedStore(postgres_url, clock, database_clock)

        await crash_at_every_call(make, tmp_path, when)
