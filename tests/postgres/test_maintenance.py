"""`Maintenance`: deletions beside the appends of several nodes, folded counts, tables of months."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.postgres.proxy import database_proxy

from trunkline.clock import SystemClock
from trunkline.model.errors import StoreUnusable
from trunkline.model.values import TaskState
from trunkline.ports.records import Group, Put
from trunkline.ports.store import Snapshot, TaskQuery
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.maintenance import Maintenance
from trunkline.stores.postgres.reader import Reader
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing.stores.kit import (
    ALICE,
    COMPLETED,
    create,
    entries,
    follow,
    key,
    must_put,
    with_groups,
)


@asynccontextmanager
async def maintained(url: str) -> AsyncIterator[tuple[Reader, Maintenance]]:
    database = Database(url)
    maintenance = Maintenance(database, SystemClock())
    try:
        yield Reader(database), maintenance
    finally:
        await maintenance.close()
        await database.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[PostgresStore, Reader, Maintenance]]:
    store = PostgresStore(url, allow_unsafe=True)
    await store.open()
    try:
        async with maintained(url) as (reader, maintenance):
            yield store, reader, maintenance
    finally:
        await store.close()


@asynccontextmanager
async def session(url: str, *, autocommit: bool = True) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=autocommit) as connection:
        yield connection


async def rows(url: str, sql: str, *params: Any) -> list[Any]:
    async with session(url) as connection:
        cursor = await connection.execute(sql, params or None)
        return [] if cursor.description is None else await cursor.fetchall()


async def until_blocked(url: str) -> None:
    """Until a statement waits for an advisory lock."""
    blocked = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    async with asyncio.timeout(10):
        while not await rows(url, blocked):  # noqa: ASYNC110 - another process waits
            await asyncio.sleep(0.01)


async def total(reader: Reader) -> int:
    """Of the counters, which has to be the number of tasks."""
    page = await reader.list(TaskQuery(scope=ALICE, limit=1000))
    assert page.total == len(page.tasks)
    return page.total


async def test_a_task_goes_with_all_it_has(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, _, maintenance):
        tagged = Put(key=key("mine"), tags=("tag",), goes_with_task=True, due_in_ms=0)
        left = Put(key=key("left"), tags=("tag",))
        snapshot = Snapshot(3, b"{}", b"[]")
        await must_put(
            store,
            with_groups(
                create("old", count=3, state=COMPLETED, snapshot=snapshot, status_ms=1),
                Group((tagged, left)),
            ),
            create("young", state=COMPLETED, snapshot=Snapshot(1, b"{}"), status_ms=10),
        )
        await rows(
            postgres_url,
            "WITH v AS (INSERT INTO large_values SELECT 1, 'v', key, 9 FROM tasks"
            " WHERE id = 'old') INSERT INTO slices VALUES (1, 0, 'text')",
        )
        assert await maintenance.prune("agent", limit=9, before_ms=10) == 1
        assert await maintenance.prune("agent", limit=9, before_ms=10) == 0
        for table, count in {
            "tasks": 1,
            "events": 1,
            "snapshots": 1,
            "records": 1,
            "record_tags": 1,
            "large_values": 0,
            # Someone may still read them.
            "loose_values": 1,
            "slices": 1,
        }.items():
            assert await rows(postgres_url, f"SELECT count(*) FROM {table}") == [(count,)], table


async def test_a_task_that_an_append_is_changing_stays_and_nothing_waits(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as (store, reader, maintenance):
        await must_put(store, *[create(f"t{n}", state=COMPLETED, status_ms=n) for n in range(3)])
        async with session(postgres_url, autocommit=False) as append:
            await append.execute(
                "UPDATE tasks SET last_seq = 2, state = 2, status_ms = 9 WHERE id = 't0'"
            )
            assert await maintenance.prune("agent", limit=2, before_ms=None) == 1
        assert await maintenance.prune("agent", limit=9, before_ms=None) == 1
        assert (await reader.get(ALICE, "t0")) is not None
        assert await rows(postgres_url, "SELECT id, state FROM tasks") == [("t0", 2)]


async def test_a_task_that_changed_since_it_was_found_stays(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, _, maintenance):
        await must_put(store, *[create(f"t{n}", state=COMPLETED, status_ms=n) for n in range(2)])
        # A gate between looking for tasks and locking them.
        await rows(
            postgres_url,
            "CREATE FUNCTION gate() RETURNS bool LANGUAGE plpgsql VOLATILE AS"
            " 'BEGIN PERFORM pg_advisory_lock_shared(9);"
            " PERFORM pg_advisory_unlock_shared(9); RETURN true; END'",
        )
        [(source,)] = await rows(postgres_url, "SELECT pg_get_functiondef('prune_1'::regproc)")
        gated = source.replace("-- Tasks that an append", "PERFORM gate(); -- Tasks that an append")
        assert gated != source
        await rows(postgres_url, gated)
        async with session(postgres_url) as holder:
            await holder.execute("SELECT pg_advisory_lock(9)")
            prune = asyncio.create_task(maintenance.prune("agent", limit=9, before_ms=None))
            await until_blocked(postgres_url)
            await must_put(store, follow("t0", 1, state=COMPLETED, status_ms=0))
            await holder.execute("SELECT pg_advisory_unlock(9)")
        assert await prune == 1
        assert await rows(postgres_url, "SELECT id FROM tasks") == [("t0",)]
        assert await rows(postgres_url, "SELECT count(*) FROM events") == [(2,)]


async def test_two_nodes_that_prune_at_once_count_a_task_once(postgres_url: str) -> None:
    async with (
        opened(postgres_url) as (store, reader, first),
        maintained(postgres_url) as (_, second),
    ):
        states = (COMPLETED, TaskState.FAILED, TaskState.CANCELED)
        ended = [create(f"t{n}", state=states[n % 3], status_ms=n) for n in range(300)]
        await must_put(store, *ended, create("running"))
        steps = [each.prune("agent", limit=40, before_ms=None) for each in (first, second) * 4]
        gone = sum(await asyncio.gather(*steps))
        assert await total(reader) == 301 - gone
        for _ in range(300):
            if not await first.prune("agent", limit=40, before_ms=None):
                break
        assert await total(reader) == 1


async def test_appends_and_prunes_at_once_leave_right_totals(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, reader, maintenance):

        async def append() -> None:
            for step in range(20):
                names = [f"{step}-{n}" for n in range(10)]
                await must_put(store, *[create(name) for name in names])
                await must_put(store, *[follow(name, 1, state=COMPLETED) for name in names])

        async def prune() -> int:
            gone = 0
            while not appending.done():
                gone += await maintenance.prune("agent", limit=15, before_ms=None)
            return gone

        appending = asyncio.create_task(append())
        gone = await prune()
        await appending
        assert await total(reader) == 200 - gone
        [(events,)] = await rows(postgres_url, "SELECT count(DISTINCT task) FROM events")
        assert events == 200 - gone


async def test_a_journal_is_pruned_within_its_rows(postgres_url: str) -> None:
    async with (
        opened(postgres_url) as (store, reader, first),
        maintained(postgres_url) as (_, second),
    ):
        await must_put(store, create("t", count=10), follow("t", 10, count=10))
        # Without a snapshot nothing may go.
        await first.prune_journal("t", up_to=9)
        assert await reader.entries("t", 0, 99) == entries(0, 20)
        await must_put(store, follow("t", 20, snapshot=Snapshot(15, b"{}")))
        for up_to in (4, 4, 3):
            await first.prune_journal("t", up_to=up_to)
            assert await reader.entries("t", 0, 99) == entries(4, 17)
        # Two nodes at once, in any order.
        await asyncio.gather(
            *[first.prune_journal("t", up_to=n) for n in (9, 7)],
            *[second.prune_journal("t", up_to=n) for n in (6, 8)],
        )
        assert await reader.entries("t", 0, 99) == entries(9, 12)
        # Up to the snapshot and no further; the row of one entry is kept as such.
        await first.prune_journal("t", up_to=99)
        assert await reader.entries("t", 0, 99) == entries(15, 6)
        assert await reader.entries("t", 0, 2) == entries(15, 2)
        await must_put(store, follow("t", 21, count=3, snapshot=Snapshot(23, b"{}")))
        await second.prune_journal("t", up_to=99)
        assert await reader.entries("t", 0, 99) == entries(23, 1)
        stored = await reader.get(ALICE, "t")
        assert stored is not None
        assert (stored.last_seq, stored.tail) == (24, entries(23, 1))
        await first.prune_journal("nothing", up_to=99)


async def test_loose_values_are_swept_when_their_time_has_come(postgres_url: str) -> None:
    # Without a store, which would sweep too.
    async with maintained(postgres_url) as (_, first), maintained(postgres_url) as (_, second):
        await rows(
            postgres_url,
            "INSERT INTO loose_values SELECT n, clock_timestamp() +"
            " CASE WHEN n <= 5 THEN interval '1 day' ELSE interval '-1 s' END"
            " FROM generate_series(1, 25) AS n",
        )
        await rows(
            postgres_url,
            "INSERT INTO slices SELECT v, n, 'x'"
            " FROM generate_series(1, 25) AS v, generate_series(0, 39) AS n WHERE v <> 25",
        )
        async with session(postgres_url, autocommit=False) as append:
            # An append takes one over at this moment, with a clock that says it may.
            await append.execute("DELETE FROM loose_values WHERE value = 6")
            await append.execute("INSERT INTO large_values VALUES (6, 'v', 1, 40)")
            await asyncio.gather(first.sweep_values(), second.sweep_values())
        kept = "SELECT DISTINCT value FROM slices ORDER BY value"
        assert await rows(postgres_url, kept) == [(n,) for n in range(1, 7)]
        assert await rows(postgres_url, "SELECT count(*) FROM slices") == [(240,)]
        assert await rows(postgres_url, "SELECT count(*) FROM loose_values") == [(5,)]


async def test_counts_of_writers_that_are_gone_are_folded(postgres_url: str) -> None:
    states = "SELECT state, sum(n) FROM counts GROUP BY state HAVING sum(n) <> 0 ORDER BY state"
    for name in ("a", "b"):
        async with opened(postgres_url) as (store, reader, maintenance):
            await must_put(store, create(f"{name}1"), create(f"{name}2", state=COMPLETED))
    async with opened(postgres_url) as (store, reader, maintenance):
        await must_put(store, follow("a1", 1, state=COMPLETED), create("c"))
        before = await rows(postgres_url, states)
        await maintenance.fold_counts()
        assert await rows(postgres_url, "SELECT count(DISTINCT writer) FROM counts") == [(3,)]
        await rows(postgres_url, "UPDATE writers SET used_at = used_at - interval '2 days'")
        await asyncio.gather(maintenance.fold_counts(), maintenance.fold_counts())
        assert await rows(postgres_url, "SELECT DISTINCT writer FROM counts") == [(0,)]
        assert await rows(postgres_url, states) == before
        # The writer that still lives begins again, beside its folded counts.
        await must_put(store, follow("b1", 1, state=COMPLETED), follow("c", 1, state=COMPLETED))
        assert await total(reader) == 5
        await rows(postgres_url, "UPDATE writers SET used_at = used_at - interval '8 days'")
        await maintenance.fold_counts()
        assert await rows(postgres_url, "SELECT state, writer, n FROM counts") == [(5, 0, 5)]
        assert await rows(postgres_url, "SELECT FROM writers") == []
        await must_put(store, create("d"))
        assert await total(reader) == 6


async def test_counts_hold_while_they_are_folded(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, reader, maintenance):

        async def fold() -> None:
            while not appending.done():
                await rows(postgres_url, "UPDATE writers SET used_at = used_at - interval '2 days'")
                await maintenance.fold_counts()

        async def append() -> None:
            for n in range(40):
                await must_put(store, create(f"t{n}"))
                await must_put(store, follow(f"t{n}", 1, state=COMPLETED))

        appending = asyncio.create_task(append())
        folding = asyncio.create_task(fold())
        while not appending.done():
            await total(reader)
        await asyncio.gather(appending, folding)
        assert await total(reader) == 40


async def test_tables_of_months_are_added_by_two_nodes_at_once(postgres_url: str) -> None:
    months = "SELECT relname FROM pg_class WHERE relname ~ '^events_[0-9_]+$'"
    async with (
        opened(postgres_url) as (store, reader, first),
        maintained(postgres_url) as (_, second),
        session(postgres_url, autocommit=False) as long,
    ):
        before = {name for (name,) in await rows(postgres_url, months)}
        assert len(before) == 3
        for name in sorted(before)[1:3]:
            await rows(postgres_url, f"DROP TABLE {name}")
        # A transaction that reads and writes the journal does not hold it up, nor does it wait.
        await must_put(store, create("t"))
        await long.execute("SELECT count(*) FROM events")
        await long.execute("UPDATE events SET kind = 'x'")
        async with asyncio.timeout(10):
            await asyncio.gather(*[each.add_months() for each in (first, second) * 3])
        assert {name for (name,) in await rows(postgres_url, months)} == before
        assert await reader.entries("t", 0, 9) == entries(0, 1)


async def test_tables_of_past_months_go_with_their_last_task(postgres_url: str) -> None:
    months = "SELECT relname FROM pg_class WHERE relname ~ '^events_[0-9_]+$'"
    async with opened(postgres_url) as (store, _, _):
        await must_put(store, create("t", state=COMPLETED))
    # Without a store, which would drop tables too.
    async with maintained(postgres_url) as (reader, maintenance):
        now = len(await rows(postgres_url, months))
        # The task is three months old, and the month before that has none.
        await rows(
            postgres_url,
            "SELECT add_month(clock_timestamp() - n * interval '1 month')"
            " FROM generate_series(1, 4) AS n",
        )
        await rows(
            postgres_url,
            "WITH old AS (SELECT key, key - (3::int8 << 40) AS was FROM tasks),"
            " t AS (UPDATE tasks SET key = was FROM old WHERE tasks.key = old.key)"
            " UPDATE events SET task = was FROM old WHERE task = old.key",
        )
        assert len(await rows(postgres_url, months)) == now + 4
        await maintenance.drop_months()
        # Those of the task, and of the last month.
        assert len(await rows(postgres_url, months)) == now + 2
        assert await reader.entries("t", 0, 9) == entries(0, 1)
        assert await maintenance.prune("agent", limit=9, before_ms=None) == 1
        async with session(postgres_url, autocommit=False) as long:
            await long.execute("SELECT FROM events")
            # Nothing waits for a transaction that lasts.
            await maintenance.drop_months()
            assert await reader.entries("t", 0, 9) == ()
            assert len(await rows(postgres_url, months)) > now + 1
        await maintenance.drop_months()
        assert len(await rows(postgres_url, months)) == now + 1


async def test_a_database_that_is_away_is_named(postgres_url: str) -> None:
    async with database_proxy(postgres_url) as proxy:
        database = Database(proxy.url)
        maintenance = Maintenance(database, SystemClock())
        assert await maintenance.prune("agent", limit=1, before_ms=None) == 0
        proxy.refuse("maintain")
        proxy.cut("maintain")
        with pytest.raises(StoreUnusable, match="cannot be reached"):
            await maintenance.prune("agent", limit=1, before_ms=None)
        await maintenance.close()
        await database.close()
