"""A PostgreSQL database of an earlier release is migrated and served, and the nodes of both
releases use it side by side."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.cluster.postgres import on_postgres
from tests.postgres.server import PostgresServer
from tests.runtime.world import said

from trunkline.model.values import TaskState
from trunkline.ports.records import Key, Put
from trunkline.stores.postgres.check import check
from trunkline.stores.postgres.schema import migrate, migrations

# The database of every schema that was released, as it was. None of them is ever changed.
DATABASES = sorted((Path(__file__).parent / "postgres").glob("*.sql"))
DONE, PAUSED, RUNNING, QUEUED, FAILED = [f"a0-00000{number}" for number in range(1, 6)]
TIMERS = {"timer.1": 9}
YEARS_MS = 10**12

_SHAPE = {
    "columns": """
        SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default,
            generation_expression, is_identity
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace""",
    "options": """
        SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace""",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace""",
}


def load(url: str, file: Path) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(file.read_bytes())


def shape(url: str) -> dict[str, list[str]]:
    """Everything but rows and the tables of months."""
    with psycopg.connect(url) as connection:
        return {
            what: sorted(str(row) for row in connection.execute(sql.encode()) if _counts(row))
            for what, sql in _SHAPE.items()
        }


def _counts(row: tuple[object, ...]) -> bool:
    return "events_2" not in str(row)


@pytest.mark.parametrize("file", DATABASES, ids=lambda file: file.stem)
def test_every_earlier_database_gets_the_schema_of_a_new_one(
    file: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """So no migration that was released has been edited since."""
    url = postgres_server.create_database(lambda empty: load(empty, file))
    assert asyncio.run(migrate(url)).version == len(migrations())
    old, new = shape(url), shape(postgres_url)
    for what, found in new.items():
        assert old[what] == found, what
    postgres_server.drop_database(url)


def _fill(url: str) -> None:
    load(url, DATABASES[0])


@pytest.fixture
def earlier_url(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create_database(_fill)
    yield url
    postgres_server.drop_database(url)


async def test_tasks_are_served_and_continued(earlier_url: str) -> None:
    async with on_postgres(earlier_url, count=1, retention_s=0) as cluster:
        (w,) = cluster.worlds
        assert said(await w.ended(QUEUED)) == "queued"
        states = {task.id: task.status.state for task in await w.listed()}
        assert states == {
            DONE: TaskState.COMPLETED,
            PAUSED: TaskState.INPUT_REQUIRED,
            RUNNING: TaskState.FAILED,
            QUEUED: TaskState.COMPLETED,
            FAILED: TaskState.FAILED,
        }
        assert (await w.send("say done", context="d", id="m-done", key="once")).id == DONE
        assert said(await w.send("say blue", task=PAUSED)) == "blue"
    assert (await check(earlier_url)).faults == []


async def test_claims_of_nodes_of_both_releases_do_not_meet(earlier_url: str) -> None:
    """A node of the release before claims as it always did, and its claims end with their lease."""
    async with on_postgres(earlier_url, count=1, retention_s=0) as cluster:
        store = cluster.nodes[0].store
        (due,) = await store.claim_due(TIMERS, lease_ms=YEARS_MS)
        assert (due.key, due.body, due.attempts) == (timer("due"), b"due", 1)
        # The next claim of the same scope is one of the other release.
        await store.change(Put(key=due.key, due_in_ms=0, expected=due.version))
        assert claim_as_before(earlier_url) == ["due"]
        await store.change(Put(key=timer("new"), due_in_ms=0))
        (new,) = await store.claim_due(TIMERS, lease_ms=YEARS_MS)
        assert new.key == timer("new")
        await cluster.kill(0)
        await cluster.add()
        store = cluster.nodes[1].store
        (again,) = await store.claim_due(TIMERS, lease_ms=YEARS_MS)
        assert (again.key, again.attempts) == (new.key, 2)
        assert claim_as_before(earlier_url) == []
    assert (await check(earlier_url)).faults == []


def timer(scope: str) -> Key:
    return Key("timer.1", scope, "t")


def claim_as_before(url: str) -> list[str]:
    """Claim as the nodes of schema 5 do. Returns the scopes."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT scope FROM claim_due_1('{timer.1}', '{9}', %s)", [YEARS_MS]
        )
        return [scope for (scope,) in rows]


async def test_entries_of_before_have_no_time_and_later_ones_have(earlier_url: str) -> None:
    async with on_postgres(earlier_url, count=1, retention_s=0) as cluster:
        (w,) = cluster.worlds
        store = cluster.nodes[0].store
        before = len(await store.entries(PAUSED, after=0, limit=100))
        assert said(await w.send("say blue", task=PAUSED)) == "blue"
        found = await store.entries(PAUSED, after=0, limit=100)
        times = [entry.committed_ms for entry in found]
        assert times[:before] == [None] * before
        assert None not in times[before:]
    # A node of the release before names no time, and the database sets it.
    with psycopg.connect(earlier_url, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO events (task, seq, kind, body)"
            " SELECT task, 1000000, kind, body FROM events LIMIT 1 RETURNING committed_ms"
        ).fetchone()
        assert row is not None
        assert row[0] is not None
