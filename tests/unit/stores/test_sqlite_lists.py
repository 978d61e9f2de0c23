"""A list must not take longer the more tasks there are."""

import sqlite3
from itertools import product

import pytest

from trunkline.ports.store import Scope, TaskQuery
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.statements import count_statement, page_statement

SCOPE = Scope("agent", "", "alice")


def plan(statement: str) -> str:
    db = sqlite3.connect(":memory:")
    db.executescript(shipped_schema().latest)
    names = ("scope", "context", "from_ms", "after_ms", "after_key", "limit")
    rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", dict.fromkeys(names, 1)).fetchall()
    db.close()
    return "\n".join(row[-1] for row in rows)


@pytest.mark.parametrize(
    ("states", "after", "from_ms"),
    list(product([(5,), (1, 2, 5)], [None, (1, 1)], [None, 7])),
)
def test_page_reads_its_rows_in_order_from_the_index(
    states: tuple[int, ...], after: tuple[int, int] | None, from_ms: int | None
) -> None:
    query = TaskQuery(scope=SCOPE, after=after, status_from_ms=from_ms)
    steps = plan(page_statement(states, query))
    assert "SCAN tasks" not in steps
    assert "TEMP B-TREE" not in steps
    assert steps.count("USING COVERING INDEX tasks_by_state") == len(states)


def test_context_is_looked_up() -> None:
    query = TaskQuery(scope=SCOPE, context_id="c")
    assert "INDEX tasks_by_context (scope=? AND context=?)" in plan(page_statement((1,), query))
    assert "INDEX tasks_by_context (scope=? AND context=?)" in plan(count_statement((1,), query))


def test_recent_tasks_are_counted_by_index_alone() -> None:
    query = TaskQuery(scope=SCOPE, status_from_ms=5)
    assert "COVERING INDEX tasks_by_state" in plan(count_statement((1, 5), query))
