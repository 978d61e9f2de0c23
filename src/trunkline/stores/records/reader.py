"""`RecordReader`: reads the records in a SQLite database."""

import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from trunkline.ports.records import Key, Record
from trunkline.stores.statements import Statements

SQL = Statements.of_package(__package__)

# About 3 MB with the keys.
_MAX_NUMBERS = 8192

_encode = msgspec.json.Encoder().encode
_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class RecordReader:
    """Reads records."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        # The rows of records that were read before. A row is found by its number in half as
        # many pages as by its key.
        self._numbers: dict[Key, int] = {}

    def record(self, key: Key) -> Record | None:
        place = (key.kind, key.scope, key.id)
        number = self._numbers.get(key)
        if number is not None:
            rows = self._db.execute(SQL["get_numbered"], (number, *place)).fetchall()
            if rows:
                return record_of_row(key, *rows[0])
        rows = self._db.execute(SQL["get_record"], place).fetchall()
        if not rows:
            return None
        if len(self._numbers) >= _MAX_NUMBERS:
            self._numbers.clear()
        number, *row = rows[0]
        self._numbers[key] = number
        return record_of_row(key, *row)

    def of_task(self, task: int | str) -> tuple[Record, ...]:
        """The records that go with the task."""
        rows = self._db.execute(SQL["get_of_task"], (task,)).fetchall()
        return tuple([record_of_row(Key(*row[:3]), *row[3:]) for row in rows])

    def has_due(self, kinds: Iterable[str], now_ms: int) -> bool:
        """Whether a claim would find something, or a scope to bring up to date."""
        wheres = [{"kind": kind, "now": now_ms, "limit": 1} for kind in kinds]
        return any(self._db.execute(SQL["find_due_scopes"], where).fetchall() for where in wheres)

    def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        rows = self._db.execute(SQL["count_old"], (kind, scope, before_ms)).fetchall()
        return int(rows[0][0])

    def has_older(self, kind: str, scope: str, *, before_ms: int) -> bool:
        """Whether a record has been due since before then."""
        ((first_ms,),) = self._db.execute(SQL["next_due"], (kind, scope)).fetchall()
        return first_ms is not None and first_ms < before_ms

    def page(
        self,
        kind: str,
        *,
        scope: str | None,
        tag: str | None,
        after: Key | None,
        limit: int,
        newest_first: bool,
    ) -> tuple[Record, ...]:
        sql = _page_statement(scope is None, tag is None, after is None, newest_first)
        values: dict[str, Any] = {"kind": kind, "scope": scope, "tag": tag, "limit": limit}
        if after is not None:
            values |= {"after_scope": after.scope, "after_id": after.id}
        rows = self._db.execute(sql, values).fetchall()
        return tuple([record_of_row(Key(kind, *row[:2]), *row[2:]) for row in rows])


@cache
def _page_statement(
    is_any_scope: bool, is_any_tag: bool, is_first: bool, newest_first: bool
) -> str:
    by = "r" if is_any_tag else "t"
    direction, sign = ("DESC", "<") if newest_first else ("ASC", ">")
    filters = [f"{by}.kind = :kind"]
    if not is_any_tag:
        filters.append("t.tag = :tag")
    if is_any_scope:
        order = f"{by}.scope {direction}, {by}.id {direction}"
        position = f"({by}.scope, {by}.id) {sign} (:after_scope, :after_id)"
    else:
        filters.append(f"{by}.scope = :scope")
        order = f"{by}.id {direction}"
        position = f"{by}.id {sign} :after_id"
    if not is_first:
        filters.append(position)
    source = "all_records" if is_any_tag else "tagged_records"
    return SQL["page"].format(source=SQL[source], filters=" AND ".join(filters), order=order)


def record_of_row(
    key: Key,
    version: int,
    body: bytes,
    count: int,
    due_ms: int | None,
    attempts: int,
    tags: str | None,
    *,
    claimed_ms: int = 0,
) -> Record:
    return Record(
        key=key,
        version=version,
        body=body,
        count=count,
        due_ms=due_ms,
        attempts=attempts,
        tags=tags_of(tags),
        claimed_ms=claimed_ms,
    )


def tags_text(tags: tuple[str, ...]) -> str | None:
    return _encode(tags).decode() if tags else None


def tags_of(text: str | None) -> tuple[str, ...]:
    return () if text is None else _decode_tags(text)
