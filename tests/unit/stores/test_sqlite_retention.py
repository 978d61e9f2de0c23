"""Deleting ended tasks and old records, of many scopes and by several at once."""

import sqlite3
import threading
from functools import partial
from pathlib import Path

from trunkline.model.values import TaskState
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Scope, TaskQuery
from trunkline.stores.records.reader import SQL as RECORD_SQL
from trunkline.stores.sqlite import SqliteStore, retention
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.statements import SQL
from trunkline.stores.statements import Statements
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import ALICE, create, must_put, opened

ENDED = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)


def plan(name: str, statements: Statements = SQL) -> list[str]:
    db = sqlite3.connect(":memory:")
    db.executescript(shipped_schema().latest)
    values = (1,) * statements[name].count("?")
    rows = db.execute(f"EXPLAIN QUERY PLAN {statements[name]}", values).fetchall()
    db.close()
    return [row[-1] for row in rows]


def test_ended_tasks_are_looked_up_scope_by_scope() -> None:
    assert plan("get_ended") == [
        "SEARCH c USING PRIMARY KEY (state=?)",
        "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
    ]
    assert plan("find_ended") == [
        "SEARCH tasks USING COVERING INDEX tasks_by_state (scope=? AND state=? AND status_ms<?)"
    ]


def test_old_records_are_found_by_index_and_never_sorted() -> None:
    for name in ("find_old", "count_old"):
        (found,) = plan(name, RECORD_SQL)
        assert "INDEX records_by_due (kind=? AND scope=? AND due_ms<?)" in found


async def test_every_scope_and_state_is_pruned_in_steps(tmp_path: Path) -> None:
    scopes = [Scope("agent", "", f"user-{number}") for number in range(3)]
    async with opened(lambda _: SqliteStore(tmp_path / "store.db"), "") as store:
        for scope in scopes:
            name = scope.principal
            old = [create(f"{name}-{s}", scope=scope, state=s, status_ms=9) for s in ENDED]
            await must_put(store, *old, create(f"{name}-running", scope=scope, status_ms=9))
        steps = [await store.prune("agent", before_ms=10, limit=5) for _ in range(4)]
        assert steps == [5, 5, 2, 0]
        for scope in scopes:
            page = await store.list(TaskQuery(scope=scope))
            assert [task.task_id for task in page.tasks] == [f"{scope.principal}-running"]
            assert page.total == 1


async def test_two_prunes_at_once_count_a_task_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    async with opened(lambda _: store, ""):
        ended = [create(f"t{n}", state=TaskState.COMPLETED, status_ms=9) for n in range(8)]
        await must_put(store, *ended, create("young", state=TaskState.COMPLETED, status_ms=10))
        inner = store._require_open()
        found = inner.reader.ended("agent", 10, 9)
        assert len(found) == 8
        assert await store.prune("agent", before_ms=10, limit=9) == 8
        # Somebody else had found them too.
        late = partial(retention.prune, inner.writer, found)
        assert await store._enqueue(partial(inner.in_transaction, late)) == 0
        page = await store.list(TaskQuery(scope=ALICE))
        assert page.total == len(page.tasks) == 1


async def test_to_find_no_old_record_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", clock=FakeClock(5))
    async with opened(lambda _: store, ""):
        await store.change(Put(key=Key("check.1", "agent", "a"), due_in_ms=0))
        gate = threading.Event()
        held_up = store._enqueue(gate.wait)
        assert await store.delete_due("check.1", "agent", before_ms=5, limit=9) == 0
        assert not held_up.done()
        gate.set()
        await held_up


async def test_a_record_that_was_put_again_meanwhile_stays(tmp_path: Path) -> None:
    clock = FakeClock(1)
    store = SqliteStore(tmp_path / "store.db", clock=clock)
    key = Key("check.1", "agent", "a")
    async with opened(lambda _: store, ""):
        await store.change(Put(key=key, due_in_ms=0))
        inner = store._require_open()
        assert inner.reader.records.has_older("check.1", "agent", before_ms=5)
        # Between the look and the deletion.
        await store.change(Put(key=key, due_in_ms=9))
        delete = partial(inner.writer.records.delete_due, "check.1", "agent", before_ms=5, limit=9)
        assert await store._enqueue(partial(inner.in_transaction, delete)) == 0
        assert await store.record(key) is not None


def test_records_of_tasks_are_found_by_index() -> None:
    assert plan("find_of_tasks", RECORD_SQL)[-1].startswith(
        "SEARCH r USING INDEX records_by_task (task=?)"
    )
