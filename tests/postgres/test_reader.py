"""`Reader`: one statement for each answer, found by an index whatever size the tables have."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres.test_maintenance import opened, rows

from trunkline.model.errors import StoreUnusable
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.store import OperatorQuery, Scope, Snapshot, TaskQuery
from trunkline.stores.postgres.connection import PLANNING, Params, Row
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.reader import Reader
from trunkline.stores.postgres.rows import mark
from trunkline.testing.stores.kit import ALICE, BOB, COMPLETED, create, entries, follow, must_put

# These grow with the number of tasks; scopes and counts do with that of callers.
GROWING = ("tasks", "events", "snapshots", "large_values", "slices")


class Recorded:
    """A database that remembers what was read."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self._database = database
        self.read_rows: list[int] = []
        self.statements: set[str] = set()

    async def read(self, sql: str, params: Params = ()) -> list[Row]:
        found = await self._database.read(sql, params)
        self.read_rows.append(len(found))
        self.statements.add(sql)
        return found

    def counts(self) -> list[int]:
        """The number of rows of each statement since the last time."""
        found, self.read_rows = self.read_rows, []
        return found


async def read_all(reader: Reader) -> None:
    """Every read, with every filter."""
    for state in (None, COMPLETED):
        for since_ms in (None, 5):
            for context in ("", "context"):
                await reader.list(
                    TaskQuery(scope=ALICE, state=state, status_from_ms=since_ms, context_id=context)
                )
            await reader.list_all(OperatorQuery(status_from_ms=since_ms))
        await reader.count_ended("agent", None if state is None else 5)
    await reader.get(ALICE, "t0")
    await reader.by_key(1)
    await reader.key("t0")
    await reader.owner("t0")
    await reader.entries("t0", 0, 9)
    await reader.unfinished()
    await reader.scopes()
    await reader.value_sizes(ALICE, ["v"])
    await reader.value_slices("v", 0, 9)
    await reader._bodies([1])


def scans(plan: Any) -> Iterator[dict[str, Any]]:
    if "Relation Name" in plan:
        yield plan
    for part in plan.get("Plans", ()):
        yield from scans(part)


# Tasks of one context each, of two callers.
FILL = """
WITH new AS (
    INSERT INTO tasks (key, id, scope, context, created_ms, status_ms, last_seq, state)
    SELECT task_key(), 't' || n, 1 + n % 2, 'c' || n, n, n, 2, n % 9
    FROM generate_series(1, 2000) AS n RETURNING key
),
journal AS (INSERT INTO events SELECT key, n, 'k', 'b' FROM new, generate_series(1, 2) AS n)
INSERT INTO snapshots SELECT key, 2, 'b', 'a' FROM new
"""


async def plans(url: str, statements: set[str]) -> list[tuple[str, Any]]:
    """How PostgreSQL would run these statements, for any values."""
    options = " ".join(f"-c {setting}" for setting in PLANNING)
    found = []
    async with await psycopg.AsyncConnection.connect(url, options=options) as connection:
        for sql in statements:
            explain = f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {sql}"
            cursor = await connection.execute(explain.encode())
            [(plan,)] = await cursor.fetchall()
            found.append((sql, plan[0]["Plan"]))
    return found


@pytest.mark.parametrize("is_filled", [False, True], ids=["new", "filled"])
async def test_every_read_finds_its_rows_by_an_index(postgres_url: str, is_filled: bool) -> None:
    if is_filled:
        await rows(postgres_url, FILL)
        # PostgreSQL then knows that the tables of the next month are empty.
        await rows(postgres_url, "VACUUM (ANALYZE)")
    database = Database(postgres_url)
    recorded = Recorded(database)
    with pytest.raises(StoreUnusable, match="lacks the slices of value 1"):
        await read_all(Reader(recorded))
    await database.close()
    for sql, plan in await plans(postgres_url, recorded.statements):
        for scan in scans(plan):
            if scan["Relation Name"].startswith(GROWING):
                assert "Index Cond" in scan, (sql, scan)
                assert "Filter" not in scan, (sql, scan)


async def test_an_answer_is_one_statement(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, _, _):
        for n in range(9):
            await must_put(store, create(f"t{n}", snapshot=Snapshot(1, b"{}"), status_ms=n))
            await must_put(store, follow(f"t{n}", 1, status_ms=n))
        database = Database(postgres_url)
        recorded = Recorded(database)
        reader = Reader(recorded)
        found = await reader.get(ALICE, "t3")
        assert found is not None
        assert (found.last_seq, found.snapshot, found.tail) == (
            2,
            Snapshot(1, b"{}"),
            entries(1, 1),
        )
        assert recorded.counts() == [1]
        page = await reader.list(TaskQuery(scope=ALICE, limit=4))
        assert [(task.task_id, task.tail) for task in page.tasks] == [
            (f"t{n}", entries(1, 1)) for n in (8, 7, 6, 5)
        ]
        assert recorded.counts() == [5]
        await reader.list_all(OperatorQuery(limit=4))
        # The name of a new scope is read once, and never changes.
        assert recorded.counts() == [5, 1]
        await reader.list_all(OperatorQuery(limit=4))
        assert recorded.counts() == [5]
        # An empty page still has the total.
        page = await reader.list(TaskQuery(scope=ALICE, after=(-1, 0)))
        assert (page.tasks, page.total, recorded.counts()) == ((), 9, [1])
        await database.close()


async def test_no_more_rows_of_a_journal_are_read_than_hold_the_entries(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, _, maintenance):
        await must_put(store, create("t", count=640))
        database = Database(postgres_url)
        recorded = Recorded(database)
        reader = Reader(recorded)
        for after, limit, read_rows in (
            (0, 64, 1),
            (0, 65, 2),
            (63, 1, 1),
            (63, 2, 2),
            (100, 500, 9),
            (0, 1000, 10),
            (640, 9, 0),
            (1 << 40, 9, 0),
        ):
            found = await reader.entries("t", after, limit)
            assert found == entries(after, min(limit, max(640 - after, 0)))
            assert recorded.counts() == [read_rows], (after, limit)
        await must_put(store, follow("t", 640, snapshot=Snapshot(640, b"{}")))
        await maintenance.prune_journal("t", up_to=600)
        # The first entry says that others were pruned.
        assert await reader.entries("t", 0, 3) == entries(600, 3)
        assert await reader.entries("none", 0, 3) == ()
        await database.close()


async def test_ids_that_the_database_cannot_hold_are_not_there(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, reader, _):
        await must_put(store, create("t"), create("other", scope=BOB))
        for bad in ("a\0b", "\ud800", "\0"):
            scope = Scope("agent", "", bad)
            assert await reader.get(ALICE, bad) is None
            assert await reader.get(scope, "t") is None
            assert await reader.owner(bad) is None
            assert await reader.key(bad) is None
            assert await reader.entries(bad, 0, 9) == ()
            assert await reader.value_sizes(ALICE, [bad]) == {}
            assert await reader.value_slices(bad, 0, 9) == ()
            assert await reader.count_ended(bad, None) == 0
            assert (await reader.list(TaskQuery(scope=ALICE, context_id=bad))).total == 0
            assert (await reader.list(TaskQuery(scope=scope))).total == 0
            for query in (
                OperatorQuery(agent=bad),
                OperatorQuery(principal=bad),
                OperatorQuery(tenant=bad),
            ):
                page = await reader.list_all(query)
                assert (page.tasks, page.total) == ((), 0), query


async def test_bodies_in_slices_are_put_together(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, reader, _):
        await must_put(store, create("t", snapshot=Snapshot(1, b"{}", b"[]")))
        await must_put(store, follow("t", 1, state=COMPLETED))
        bodies = [bytes([65 + number]) * (SLICE_BYTES * number + 1) for number in (0, 1, 40)]
        for number, body in enumerate(bodies):
            for place in range(0, len(body), SLICE_BYTES):
                await rows(
                    postgres_url,
                    "INSERT INTO slices VALUES (%s, %s, %s)",
                    number,
                    place // SLICE_BYTES,
                    body[place : place + SLICE_BYTES],
                )
        await rows(postgres_url, "UPDATE snapshots SET body = %s, artifacts = %s", mark(0), mark(1))
        await rows(postgres_url, "UPDATE events SET body = %s WHERE seq = 2", mark(2))
        found = await reader.get(ALICE, "t")
        assert found is not None
        assert found.snapshot == Snapshot(1, bodies[0], bodies[1])
        assert found.tail[0].body == bodies[2]
        assert (await reader.entries("t", 1, 9))[0].body == bodies[2]
        page = await reader.list(TaskQuery(scope=ALICE))
        assert page.tasks[0].snapshot == Snapshot(1, bodies[0])
        page = await reader.list(TaskQuery(scope=ALICE, with_artifacts=True))
        assert page.tasks == (found,)


async def test_damaged_rows_are_named(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, reader, _):
        await must_put(store, create("t", count=3))
        await rows(postgres_url, "UPDATE events SET body = 'x'")
        for read in (reader.get(ALICE, "t"), reader.entries("t", 0, 9)):
            with pytest.raises(StoreUnusable, match=r"damaged data in .*task t: .*db check"):
                await read
        with pytest.raises(StoreUnusable, match="damaged data in a page"):
            await reader.list(TaskQuery(scope=ALICE))


async def test_a_migration_does_not_disturb_reads(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, reader, _):
        await must_put(store, create("t"))
        assert await reader.owner("t") == ALICE
        # PostgreSQL then refuses what was prepared: the type of the answer has changed.
        await rows(postgres_url, "ALTER TABLE scopes ALTER COLUMN agent TYPE varchar")
        for _ in range(9):
            assert await reader.owner("t") == ALICE


async def test_reads_work_without_prepared_statements(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, prepared, _):
        await must_put(store, create("t0", count=3, snapshot=Snapshot(1, b"{}")), create("t1"))
        database = Database(postgres_url, prepares=False)
        reader = Reader(database)
        with pytest.raises(StoreUnusable, match="lacks the slices of value 1"):
            await read_all(reader)
        for query in (TaskQuery(scope=ALICE), TaskQuery(scope=ALICE, context_id="context")):
            assert await reader.list(query) == await prepared.list(query)
        assert await reader.get(ALICE, "t0") == await prepared.get(ALICE, "t0")
        await database.close()


async def test_pages_of_any_size_share_few_statements(postgres_url: str) -> None:
    async with opened(postgres_url) as (store, _, _):
        await must_put(store, *[create(f"t{n}", status_ms=n) for n in range(150)])
        database = Database(postgres_url)
        recorded = Recorded(database)
        reader = Reader(recorded)
        for limit in (*range(1, 160, 7), 100_000):
            page = await reader.list(TaskQuery(scope=ALICE, limit=limit))
            assert [task.status_ms for task in page.tasks] == [*range(149, 149 - limit, -1)][:150]
        assert len(recorded.statements) == 4
        await database.close()
