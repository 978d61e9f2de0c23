"""A file of any earlier version ends up with the schema of a new one."""

import sqlite3
from pathlib import Path

import pytest

from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports.store import Snapshot, TaskQuery
from trunkline.stores.sqlite import SqliteStore
from trunkline.stores.sqlite.schema import (
    APPLICATION_ID,
    Schema,
    load_schema,
    prepare,
    shipped_schema,
)
from trunkline.testing.stores.kit import ALICE, entries, follow, must_get, must_put, opened

# The schema of every release, as it was.
SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.sql"))


def connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def build(version: int, script: str) -> sqlite3.Connection:
    db = connect()
    prepare(db, Schema(script, {n: "" for n in range(2, version + 1)}), "old.db")
    assert db.execute("PRAGMA user_version").fetchone() == (version,)
    return db


def shape(db: sqlite3.Connection) -> dict[str, object]:
    """Tables with their columns and constraints, and indices, without layout and comments."""
    found: dict[str, object] = {}
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        found[name] = (kind, db.execute(f"PRAGMA table_xinfo({name})").fetchall())
        if kind == "index":
            found[name] = (
                db.execute(f"PRAGMA index_xinfo({name})").fetchall(),
                (sql or "").partition(" WHERE ")[2],
            )
    return found


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.stem)
def test_every_earlier_schema_becomes_the_latest(file: Path) -> None:
    schema = shipped_schema()
    old = build(int(file.stem), file.read_text())
    prepare(old, schema, "old.db")
    new = connect()
    prepare(new, schema, "new.db")
    assert shape(old) == shape(new)
    assert old.execute("PRAGMA user_version").fetchone() == (schema.version,)
    old.close()
    new.close()


def test_the_schema_of_every_version_is_kept() -> None:
    assert [int(file.stem) for file in SCHEMAS] == list(range(1, shipped_schema().version + 1))


def fabricated(tmp_path: Path, **scripts: str) -> Schema:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "schema.sql").write_text("CREATE TABLE a (x, y); CREATE INDEX a_y ON a (y);")
    for name, script in scripts.items():
        (tmp_path / "migrations" / f"{name[1:]}.sql").write_text(script)
    return load_schema(tmp_path)


def test_migrations_run_in_order_and_keep_the_rows(tmp_path: Path) -> None:
    schema = fabricated(
        tmp_path,
        _002_add_y="ALTER TABLE a ADD COLUMN y; UPDATE a SET y = x + 1;",
        _003_index_y="CREATE INDEX a_y ON a (y);",
    )
    assert schema.version == 3
    old = build(1, "CREATE TABLE a (x);")
    old.execute("INSERT INTO a VALUES (7)")
    prepare(old, schema, "old.db")
    new = connect()
    prepare(new, schema, "new.db")
    assert shape(old) == shape(new)
    assert old.execute("SELECT x, y FROM a").fetchall() == [(7, 8)]
    prepare(old, schema, "old.db")
    old.close()
    new.close()


def test_failed_migration_leaves_the_version_before(tmp_path: Path) -> None:
    schema = fabricated(
        tmp_path,
        _002_add_y="ALTER TABLE a ADD COLUMN y;",
        _003_broken="CREATE TABLE b (z); SELECT nonsense FROM nowhere;",
    )
    old = build(1, "CREATE TABLE a (x);")
    with pytest.raises(sqlite3.OperationalError):
        prepare(old, schema, "old.db")
    assert old.execute("PRAGMA user_version").fetchone() == (2,)
    assert "b" not in shape(old)
    old.close()


def test_missing_migration_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not numbered"):
        fabricated(tmp_path, _003_too_far="SELECT 1;")


async def test_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    newer = sqlite3.connect(path)
    newer.execute("CREATE TABLE a (x)")
    newer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreUnusable, match=r"newer release .*Run that release"):
        await SqliteStore(path).open()


async def test_tasks_of_the_first_version_are_read_continued_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = sqlite3.connect(path, isolation_level=None)
    prepare(first, Schema(SCHEMAS[0].read_text(), {}), "old.db")
    first.executescript("""
        INSERT INTO scopes VALUES (1, 'agent', '', 'alice');
        INSERT INTO nodes VALUES (1, 'node-1');
        INSERT INTO tasks VALUES
            (1, 'ended', 1, 'c', 5, 1, 1, 5, 5), (2, 'open', 1, 'c', 5, 1, 1, 2, 5);
        INSERT INTO counts VALUES (5, 1, 1), (2, 1, 1);
        INSERT INTO snapshots VALUES (1, 2, x'7b7d', x'');
        INSERT INTO events VALUES
            (1 << 24 | 1, 'task.1', x'61'), (1 << 24 | 2, 'status.1', x'62'),
            (2 << 24 | 1, 'task.1', x'63'), (2 << 24 | 2, 'status.1', x'64');
    """)
    first.close()
    async with opened(lambda _: SqliteStore(path), "") as store:
        old = (Entry(1, "task.1", b"c"), Entry(2, "status.1", b"d"))
        assert await store.entries("open", after=0, limit=9) == old
        assert (await must_get(store, "ended")).snapshot == Snapshot(2, b"{}")
        await must_put(store, follow("open", 2, count=3))
        assert (await must_get(store, "open")).tail == (*old, *entries(2, 3))
        assert await store.prune(ALICE.agent, before_ms=6, limit=9) == 1
        assert [task.task_id for task in (await store.list(TaskQuery(scope=ALICE))).tasks] == [
            "open"
        ]
