import sqlite3

import pytest

from trunkline.stores.sqlite.statements import SQL, parse_statements, statement_for, write_rows


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
    write_rows(db, ("put_snapshots", 4, [value for row in rows for value in row]))
    assert db.execute("SELECT * FROM snapshots ORDER BY task").fetchall() == rows
    db.close()


def test_bulk_statement_has_a_place_for_every_value() -> None:
    assert statement_for("insert_events", 3, 2).endswith("VALUES (?, ?, ?), (?, ?, ?)")


def test_every_statement_has_one_verb_and_no_end() -> None:
    for statement in SQL.values():
        assert statement.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE"}
        assert ";" not in statement
