"""The statements of `queries.sql`: by name, for many rows, and for a list with filters."""

import sqlite3
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from trunkline.ports.store import TaskQuery

_NAME = "-- name: "


def parse_statements(text: str) -> dict[str, str]:
    """Statements by name; comments are left out. Raises ValueError for a name used twice."""
    found: dict[str, str] = {}
    for piece in f"\n{text}".split(f"\n{_NAME}")[1:]:
        name, _, rest = piece.partition("\n")
        if name.strip() in found:
            raise ValueError(f"two statements are named {name.strip()}")
        lines = [line for line in rest.splitlines() if not line.lstrip().startswith("--")]
        found[name.strip()] = "\n".join(lines).strip().removesuffix(";")
    return found


SQL = parse_statements(files(__package__).joinpath("queries.sql").read_text("utf-8"))


# Statements for these numbers of rows exist; any number is put together from them.
_SIZES = (64, 32, 16, 8, 4, 2, 1)


@cache
def statement_for(name: str, columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return SQL[name].format(rows=", ".join([row] * rows))


def write_rows(db: sqlite3.Connection, *tables: tuple[str, int, Sequence[Any]]) -> None:
    """Write many rows with few calls. For each table: the name of the statement, the number of
    columns, and the values of all rows, one row after the other.

    Each call into SQLite gives up the interpreter lock and takes it again, which `executemany`
    does for every row. One statement for up to 64 rows took 15 % fewer instructions for a
    whole send, and does not let a busy thread in between the rows.
    """
    for name, columns, values in tables:
        start = 0
        end = len(values)
        for size in _SIZES if values else ():
            width = size * columns
            while end - start >= width:
                db.execute(statement_for(name, columns, size), values[start : start + width])
                start += width


def needs_count(query: TaskQuery) -> bool:
    """Whether SQLite has to count the rows, because no counter holds the total."""
    return bool(query.context_id) or query.status_from_ms is not None


def count_statement(states: tuple[int, ...], query: TaskQuery) -> str:
    filters = [*_filters(query), _one_of(states)]
    return SQL["count_by_index"].format(index=_index(query), filters=" AND ".join(filters))


def page_statement(states: tuple[int, ...], query: TaskQuery) -> str:
    filters = _filters(query)
    if query.after is not None:
        filters.append("(status_ms, key) < (:after_ms, :after_key)")
    if query.context_id:
        # A context is a conversation: few enough tasks to be sorted.
        branches = [[*filters, _one_of(states)]]
    else:
        # Each state is in order in its index; SQLite merges them and stops in time.
        branches = [[*filters, f"state = {state}"] for state in states]
    keys = [
        SQL["page_keys"].format(index=_index(query), filters=" AND ".join(branch))
        for branch in branches
    ]
    return SQL["page"].format(
        keys=" UNION ALL ".join(keys),
        artifacts="s.artifacts" if query.with_artifacts else "x''",
    )


def _index(query: TaskQuery) -> str:
    # Named, because SQLite has no statistics to choose by and takes the wrong one.
    return "tasks_by_context" if query.context_id else "tasks_by_state"


def _filters(query: TaskQuery) -> list[str]:
    filters = ["scope = :scope"]
    if query.context_id:
        filters.append("context = :context")
    if query.status_from_ms is not None:
        filters.append("status_ms >= :from_ms")
    return filters


def _one_of(states: tuple[int, ...]) -> str:
    return f"state IN ({', '.join(map(str, states))})"
