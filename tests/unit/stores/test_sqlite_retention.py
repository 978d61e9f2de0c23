"""Forgetting ended tasks and exchanges, of many scopes and by several at once."""

import sqlite3
import threading
from functools import partial
from pathlib import Path

from trunkline.model.values import TaskState
from trunkline.ports.store import Exchange, Scope, TaskQuery
from trunkline.stores.sqlite import SqliteStore, retention
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.statements import SQL
from trunkline.testing.stores.kit import ALICE, create, must_put, opened

ENDED = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)


def plan(name: str) -> list[str]:
    db = sqlite3.connect(":memory:")
    db.executescript(shipped_schema().latest)
    values = (1,) * SQL[name].count("?")
    rows = db.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values).fetchall()
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


def test_exchanges_are_read_and_found_by_index_and_never_sorted() -> None:
    assert plan("get_exchanges") == ["SEARCH exchanges USING INDEX exchanges_by_scope (scope=?)"]
    assert plan("get_exchanges_of_context") == [
        "SEARCH exchanges USING INDEX exchanges_by_context (scope=? AND context=?)"
    ]
    old = "USING COVERING INDEX exchanges_by_scope (scope=? AND at_ms<?)"
    assert plan("find_old_exchanges") == [f"SEARCH exchanges {old}"]
    assert plan("get_scopes_with_old_exchanges")[-1] == f"SEARCH e {old}"
    assert plan("count_old_exchanges")[-1] == f"SEARCH e {old}"


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


async def test_to_find_no_old_exchange_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    async with opened(lambda _: store, ""):
        await store.remember(Exchange(ALICE, "c", 5, b"[]"))
        gate = threading.Event()
        held_up = store._enqueue(gate.wait)
        assert await store.forget_exchanges("agent", before_ms=5, limit=9) == 0
        assert not held_up.done()
        gate.set()
        await held_up


async def test_young_exchange_with_the_number_of_one_that_is_gone_stays(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    async with opened(lambda _: store, ""):
        await store.remember(Exchange(ALICE, "c", 1, b"[]"))
        inner = store._require_open()
        found = inner.reader.old_exchanges("agent", 5, 9)
        assert await store.forget_exchanges("agent", before_ms=5, limit=9) == 1
        young = Exchange(ALICE, "c", 5, b"[]")
        await store.remember(young)
        # Somebody else had found the old one too.
        late = partial(retention.forget_exchanges, inner.writer, found, before_ms=5)
        assert await store._enqueue(partial(inner.in_transaction, late)) == 0
        assert await store.exchanges(ALICE, limit=9) == (young,)
