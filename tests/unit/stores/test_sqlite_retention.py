"""Forgetting ended tasks, of many scopes and by several at once."""

import asyncio
import sqlite3
from pathlib import Path

from trunkline.model.values import TaskState
from trunkline.ports.store import Scope, TaskQuery
from trunkline.stores.sqlite import SqliteStore
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.statements import SQL
from trunkline.testing.stores.kit import ALICE, create, must_put, opened

ENDED = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)


def test_ended_tasks_are_looked_up_scope_by_scope() -> None:
    db = sqlite3.connect(":memory:")
    db.executescript(shipped_schema().latest)
    plans = [
        [row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values).fetchall()]
        for name, values in (("get_ended", ("agent",)), ("find_ended", (1, 1, 1, 1)))
    ]
    db.close()
    assert plans == [
        ["SEARCH c USING PRIMARY KEY (state=?)", "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)"],
        ["SEARCH tasks USING COVERING INDEX tasks_by_state (scope=? AND state=? AND status_ms<?)"],
    ]


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
    async with opened(lambda _: SqliteStore(tmp_path / "store.db"), "") as store:
        ended = [create(f"t{n}", state=TaskState.COMPLETED, status_ms=9) for n in range(8)]
        await must_put(store, *ended, create("young", state=TaskState.COMPLETED, status_ms=10))
        steps = await asyncio.gather(
            *[store.prune("agent", before_ms=10, limit=5) for _ in range(2)]
        )
        assert sum(steps) == 5
        page = await store.list(TaskQuery(scope=ALICE))
        assert page.total == len(page.tasks) == 4
