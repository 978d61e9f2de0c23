"""`RecordWriter` and `RecordTable`: the records of a store, in a SQLite database.

The SQLite store has them in its file, beside the tasks. The other stores have them in a database
in memory, which gives them order, pages and due times without code of their own.
"""

import sqlite3
import weakref
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Committed, Defer, Delete, Group, Key, Put, Record
from trunkline.stores.records.reader import SQL, RecordReader, record_of_row, tags_of, tags_text
from trunkline.stores.records.refusals import why_change_refused, why_unstorable

# The task of a record as its store numbers or names it.
_Task: TypeAlias = int | str | None

_encode = msgspec.json.Encoder().encode


class _Row(msgspec.Struct, frozen=True, gc=False):
    """A stored record as far as changes go by it; version 0 stands for none."""

    number: int = 0
    version: int = 0
    count: int = 0
    due_ms: int | None = None
    tags: str | None = None


_NONE = _Row()


class _Raised(msgspec.Struct):
    """A count that the batch raises: the stored row, and by how much and how often."""

    row: _Row
    amount: int = 0
    times: int = 0


# From this number of changes on, records are looked up and deleted many at a time.
_MANY = 8


class RecordWriter:
    """Writes records inside the transaction of its caller. `discard` after a rollback."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._db = connection
        self._clock = clock
        # What is written together at the end of the batch; empty in most batches. First the puts
        # that must be new, then the counts: those of a budget are raised by every message.
        self.new: dict[Key, tuple[Put, _Task]] = {}
        self.raised: dict[Key, _Raised] = {}

    def apply_required(
        self, groups: Sequence[Group], task: _Task, *, is_careful: bool = True
    ) -> StoreError | None:
        """Make the changes of the required groups, or none of them. Returns why not."""
        changes: list[Change] = []
        for group in groups:
            if group.is_required:
                changes += group.changes
        return self.apply(changes, task, is_careful=is_careful)

    def apply_optional(self, groups: Sequence[Group], task: _Task) -> Committed | None:
        """Make the changes of each optional group, or skip it."""
        skipped = [
            number
            for number, group in enumerate(groups)
            if not group.is_required and self.apply(group.changes, task) is not None
        ]
        return Committed(tuple(skipped)) if skipped else None

    def apply(
        self, changes: Sequence[Change], task: _Task = None, *, is_careful: bool = True
    ) -> StoreError | None:
        """Make the changes, or none of them. Returns why they are refused.

        Unless it `is_careful`, it does not look for records that must not exist. SQLite then
        refuses the rows later, and the caller repeats the transaction with more care.
        """
        if (unstorable := why_unstorable(changes)) is not None:
            return unstorable
        if not is_careful and self._apply_later(changes, task):
            return None
        if any([change.key in self.new or change.key in self.raised for change in changes]):
            self.write()
        rows = self._find_all(changes)
        for change, row in zip(changes, rows, strict=True):
            refused = why_change_refused(change, version=row.version, count=row.count)
            if refused is not None:
                return refused
        is_many = len(changes) >= _MANY
        deleted: list[tuple[Key, _Row]] = []
        for change, row in zip(changes, rows, strict=True):
            is_plain = row.due_ms is None and row.tags is None
            if is_many and is_plain and isinstance(change, Delete):
                deleted.append((change.key, row))
            else:
                self._make(change, row, task)
        if deleted:
            self._delete_plain(deleted)
        return None

    def _apply_later(self, changes: Sequence[Change], task: _Task) -> bool:
        """Have the changes written at the end of the batch, unless one of them cannot wait or is
        refused."""
        for change in changes:
            if type(change) is Add:
                found = self.raised.get(change.key)
                if found is None:
                    found = self.raised[change.key] = _Raised(self._find(change.key))
                if found.row.count + found.amount + change.amount > change.at_most:
                    return False
            elif type(change) is not Put or change.expected != 0 or change.key in self.new:
                return False
        for change in changes:
            if type(change) is Add:
                found = self.raised[change.key]
                found.amount += change.amount
                found.times += 1
            elif type(change) is Put:
                self.new[change.key] = (change, task)
        return True

    def discard(self) -> None:
        self.new.clear()
        self.raised.clear()

    def write(self) -> None:
        """Write what waits. Raises sqlite3.IntegrityError when the key of a new put exists."""
        if self.new:
            self._write_new()
        if self.raised:
            self._write_raised()

    def _write_raised(self) -> None:
        new: list[Any] = []
        for key, raised in self.raised.items():
            if not raised.times:
                continue
            if raised.row.version:
                values = (raised.times, raised.amount, raised.row.number)
                self._db.execute(SQL["add_to_count"], values)
            else:
                new += (key.kind, key.scope, key.id, raised.times, raised.amount, 0)
                new += (None, None, None, b"")
        self.raised.clear()
        SQL.write_rows(self._db, ("insert_records", 10, new))

    def _write_new(self) -> None:
        now_ms = self._clock.now_ms()
        records: list[Any] = []
        tags: list[str] = []
        dues: dict[tuple[str, str], int] = {}
        for key, (put, task) in self.new.items():
            due_ms = None
            if put.due_in_ms is not None:
                due_ms = now_ms + put.due_in_ms
                place = (key.kind, key.scope)
                dues[place] = min(due_ms, dues.get(place, due_ms))
            for tag in put.tags:
                tags += (key.kind, tag, key.scope, key.id)
            records += (
                key.kind,
                key.scope,
                key.id,
                1,
                0,
                0,
                due_ms,
                task if put.goes_with_task else None,
                tags_text(put.tags),
                bytearray(put.body),
            )
        self.new.clear()
        SQL.write_rows(self._db, ("insert_records", 10, records), ("insert_tags", 4, tags))
        for (kind, scope), due_ms in dues.items():
            self._db.execute(SQL["add_due_scope"], (kind, scope, due_ms))

    def _find(self, key: Key) -> _Row:
        rows = self._db.execute(SQL["find_record"], (key.kind, key.scope, key.id)).fetchall()
        return _Row(*rows[0]) if rows else _NONE

    def _find_all(self, changes: Sequence[Change]) -> list[_Row]:
        """The records of the changes, many with one statement."""
        if len(changes) < _MANY:
            return [self._find(change.key) for change in changes]
        by_scope: dict[tuple[str, str], list[str]] = {}
        for change in changes:
            key = change.key
            by_scope.setdefault((key.kind, key.scope), []).append(key.id)
        found: dict[tuple[str, str, str], _Row] = {}
        for place, ids in by_scope.items():
            # JSON in SQLite ends a text at a zero.
            if any([id.find("\0") >= 0 for id in ids]):
                found |= {(*place, id): self._find(Key(*place, id)) for id in ids}
                continue
            for id, *row in self._db.execute(SQL["find_records"], (_text(ids), *place)):
                found[*place, id] = _Row(*row)
        return [found.get((key.kind, key.scope, key.id), _NONE) for key in _keys(changes)]

    def _delete_plain(self, deleted: Sequence[tuple[Key, _Row]]) -> None:
        """Delete records without tags and due time; a row may stand for none."""
        numbers = [row.number for _, row in deleted]
        self._db.execute(SQL["delete_records"], (_text(numbers),))

    def _make(self, change: Change, row: _Row, task: _Task) -> None:
        key = change.key
        if isinstance(change, Add):
            if row.version:
                self._db.execute(SQL["add_to_count"], (1, change.amount, row.number))
            else:
                self._insert(key, change.amount, None, None, None, b"")
            return
        if isinstance(change, Defer):
            if row.due_ms is not None:
                self._defer(key, change.in_ms)
            return
        due_ms = None
        if isinstance(change, Delete):
            self._delete(key, row)
        else:
            if change.due_in_ms is not None:
                due_ms = self._clock.now_ms() + change.due_in_ms
            self._put(change, row, due_ms, task if change.goes_with_task else None)
        if due_ms is not None or row.due_ms is not None:
            self._reschedule(key, due_ms)

    def replace(
        self, record: Record, task: _Task, *, held_until_ms: int = 0, is_deferred: bool = False
    ) -> None:
        """Make the record with this key exactly this one; version 0 stands for none."""
        key = record.key
        place = (key.kind, key.scope)
        before = self._find(key)
        self._delete(key, before)
        if record.version:
            values = (
                *(key.kind, key.scope, key.id, record.version, record.count, record.attempts),
                *(record.due_ms, task, tags_text(record.tags), record.body),
            )
            tags = [value for tag in record.tags for value in (key.kind, tag, key.scope, key.id)]
            SQL.write_rows(self._db, ("insert_records", 10, values), ("insert_tags", 4, tags))
        if held_until_ms:
            self._db.execute(SQL["add_due_scope"], (*place, record.due_ms))
            self._db.execute(SQL["hold_scope"], (key.id, held_until_ms, is_deferred, *place))
        elif record.due_ms is not None or before.due_ms is not None:
            self._reschedule(key, record.due_ms)

    def _defer(self, key: Key, in_ms: int) -> None:
        now_ms = self._clock.now_ms()
        place = {"kind": key.kind, "scope": key.scope, "id": key.id}
        self._db.execute(SQL["defer_scope"], {**place, "now": now_ms, "until": now_ms + in_ms})

    def _delete(self, key: Key, row: _Row) -> None:
        self._change_tags(key, row, ())
        if row.version:
            self._db.execute(SQL["delete_record"], (row.number,))

    def _change_tags(self, key: Key, row: _Row, tags: Sequence[str]) -> None:
        """Give the record these tags. Most changes of a record keep most of them."""
        before = tags_of(row.tags)
        for tag in before:
            if tag not in tags:
                self._db.execute(SQL["delete_tag"], (key.kind, tag, key.scope, key.id))
        for tag in tags:
            if tag not in before:
                self._db.execute(SQL["insert_tag"], (key.kind, tag, key.scope, key.id))

    def _put(self, put: Put, row: _Row, due_ms: int | None, task: _Task) -> None:
        key, tags = put.key, tags_text(put.tags)
        if row.version:
            values = (row.version + 1, due_ms, task, tags, put.body, row.number)
            self._db.execute(SQL["update_record"], values)
        else:
            self._insert(key, 0, due_ms, task, tags, put.body)
        self._change_tags(key, row, put.tags)

    def _insert(self, key: Key, *values: Any) -> None:
        self._db.execute(SQL["insert_record"], (key.kind, key.scope, key.id, *values))

    def _reschedule(self, key: Key, due_ms: int | None) -> None:
        """Bring the scope up to date with a due time that one of its records got or lost."""
        place = (key.kind, key.scope)
        found = self._db.execute(SQL["get_holder"], place).fetchall()
        if found and found[0][0] == key.id:
            self._release(place)
        elif due_ms is not None:
            self._db.execute(SQL["add_due_scope"], (*place, due_ms))
        # Otherwise the scope may be due too early, and the next claim finds that out.

    def _release(self, place: tuple[str, str]) -> None:
        """End the claim on the scope, which takes its next turn behind all others due by now."""
        ((next_ms,),) = self._db.execute(SQL["next_due"], place).fetchall()
        if next_ms is None:
            self._db.execute(SQL["delete_due_scope"], place)
        else:
            next_ms = max(next_ms, self._clock.now_ms())
            self._db.execute(SQL["release_due_scope"], (next_ms, *place))

    def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        """Claim the first due record of scopes: of each kind as many as its share."""
        now_ms = self._clock.now_ms()
        claims = [self._claim_kind(*share, now_ms, lease_ms) for share in shares.items()]
        return tuple(chain.from_iterable(claims))

    def _claim_kind(self, kind: str, limit: int, now_ms: int, lease_ms: int) -> list[Record]:
        claimed: list[Record] = []
        # A scope whose record has gone or waits longer now costs a row; there may be many.
        while len(claimed) < limit:
            where = {"kind": kind, "now": now_ms, "limit": limit - len(claimed)}
            scopes = self._db.execute(SQL["find_due_scopes"], where).fetchall()
            if not scopes:
                break
            for (scope,) in scopes:
                claimed += self._claim((kind, scope), now_ms, lease_ms)
        return claimed

    def _claim(self, place: tuple[str, str], now_ms: int, lease_ms: int) -> list[Record]:
        found = self._db.execute(SQL["find_due"], (*place, now_ms)).fetchall()
        if not found:
            self._release(place)
            return []
        number, record_id = found[0]
        self._db.execute(SQL["hold_scope"], (record_id, now_ms + lease_ms, False, *place))
        # Two statements: SQLite before 3.35, which some systems have, knows no RETURNING.
        self._db.execute(SQL["claim_record"], (number,))
        rows = self._db.execute(SQL["get_numbered"], (number, *place, record_id)).fetchall()
        key = Key(*place, record_id)
        return [record_of_row(key, *row, claimed_ms=now_ms) for row in rows]

    def release_claims(self) -> None:
        """End the claims of a process that is gone, so that their handlers run again at once."""
        self._db.execute(SQL["release_claims"])

    def release_claim(self, key: Key) -> None:
        """End the claim of this record, unless its handler has put it off."""
        self._db.execute(SQL["release_claim"], (key.kind, key.scope, key.id))

    def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        """Delete the records that have been due the longest. Returns how many."""
        found = self._db.execute(SQL["find_old"], (kind, scope, before_ms, limit)).fetchall()
        for record_id, *row in found:
            self._make(Delete(key=Key(kind, scope, record_id)), _Row(*row), None)
        return len(found)

    def forget_tasks(self, tasks: Sequence[int] | Sequence[str]) -> None:
        """Delete the records that go with the tasks."""
        found = self._db.execute(SQL["find_of_tasks"], (_encode(tasks).decode(),)).fetchall()
        for kind, scope, record_id, *row in found:
            self._make(Delete(key=Key(kind, scope, record_id)), _Row(*row), None)


def _text(values: Sequence[str] | Sequence[int]) -> str:
    return _encode(values).decode()


def _keys(changes: Sequence[Change]) -> list[Key]:
    return [change.key for change in changes]


class RecordTable(RecordWriter, RecordReader):
    """The records of a store that has no database of its own, in memory."""

    def __init__(self, clock: Clock) -> None:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # A put among 100,000 records took 18 µs, and 21 µs with pages of 4 or of 16 KB.
        connection.execute("PRAGMA page_size = 8192")
        connection.executescript(_schema())
        RecordReader.__init__(self, connection)
        RecordWriter.__init__(self, connection, clock)
        # Python 3.13 warns of a connection that goes without this.
        weakref.finalize(self, connection.close)


def _schema() -> str:
    """The tables of records in the schema of the SQLite store, with tasks by their ids."""
    text = files("trunkline.stores.sqlite").joinpath("schema.sql").read_text("utf-8")
    # SQLite would take the ids "7" and "07" for the same number.
    return text[text.index("-- Records:") :].replace("task INTEGER", "task TEXT")
