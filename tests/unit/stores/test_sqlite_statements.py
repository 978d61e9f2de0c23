"""Statements by name and for many rows; a list must not take longer the more tasks there are."""

import sqlite3
from itertools import product

import pytest

from trunkline.ports.store import Scope, TaskQuery
from trunkline.stores.records.reader import SQL as RECORDS_SQL
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.statements import SQL, count_statement, page_statement
from trunkline.stores.statements import parse_statements


def test_statements_are_found_by_name_without_comments() -> None:
    text = "-- About.\n-- name: a\n-- Why.\nSELECT 1\n-- and\nFROM x;\n\n-- name: b\nSELECT 2;\n"
    assert parse_statements(text) == {"a": "SELECT 1\nFROM x", "b": "SELECT 2"}


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two statements are named a"):
        parse_statements("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;\n")


@pytest.mark.parametrize("count", [0, 1, 3, 4, 15, 16, 63, 64, 65, 200])
def test_any_number_of_rows_is_written(count: int) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE snapshots (task INTEGER PRIMARY KEY, seq, body, artifacts)")
    rows = [(number, 1, b"body", b"") for number in range(count)]
    SQL.write_rows(db, ("put_snapshots", 4, [value for row in rows for value in row]))
    assert db.execute("SELECT * FROM snapshots ORDER BY task").fetchall() == rows
    db.close()


def test_bulk_statement_has_a_place_for_every_value() -> None:
    assert SQL.for_rows["insert_events", 4, 2].endswith("VALUES (?, ?, ?, ?), (?, ?, ?, ?)")


def test_every_statement_has_one_verb_and_no_end() -> None:
    fragments = {"all_records", "tagged_records"}
    for name, statement in [*SQL.items(), *RECORDS_SQL.items()]:
        if name in fragments:
            continue
        assert statement.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE"}
        assert ";" not in statement


SCOPE = Scope("agent", "", "alice")


def plan(statement: str) -> str:
    db = sqlite3.connect(":memory:")
    db.executescript(shipped_schema().latest)
    names = ("scope", "context", "from_ms", "after_ms", "after_key", "limit")
    values = dict.fromkeys(names, 1) if ":" in statement else [1] * statement.count("?")
    rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
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


def test_record_that_was_read_before_is_found_by_the_number_of_its_row() -> None:
    assert "USING INTEGER PRIMARY KEY (rowid=?)" in plan(RECORDS_SQL["get_numbered"])
