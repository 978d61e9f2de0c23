"""`LoggedRecords`: the records of the folder in memory; `RecordsFile`: their file.

A commit writes every record that it changes to the log. The file lags behind the log, and is
written again as a whole when the log has grown long, so it is made for some ten thousand records.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.ports.clock import Clock
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Change, Key, Record
from trunkline.stores.jsonfile.changes import StoredRecord, from_json, to_json
from trunkline.stores.records.reader import SQL, tags_of
from trunkline.stores.records.table import RecordTable

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredRecord).decode


class LoggedRecords(RecordTable):
    """Changes are made inside `trial` to see what they lead to, and undone. They count once the
    log has the result and it comes back through `put_row`, so no reader sees them before."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        # The records that a trial changed, and the scopes where it found none that is due.
        self._changed: dict[Key, None] = {}
        self._idle: list[tuple[str, str]] = []

    @contextmanager
    def trial(self) -> Iterator[Callable[[], tuple[StoredRecord, ...]]]:
        """Yields a function that returns the records changed so far."""
        self._changed, self._idle = {}, []
        self._db.execute("BEGIN")
        try:
            yield lambda: tuple([self._row(key) for key in self._changed])
        finally:
            self._db.execute("ROLLBACK")
            # Files have nothing of that, and the next claim need not find it out again.
            for place in self._idle:
                self._release(place)

    def _make(self, change: Change, *args: Any) -> None:
        super()._make(change, *args)
        self._changed[change.key] = None

    def _delete_plain(self, deleted: Sequence[tuple[Key, Any]]) -> None:
        super()._delete_plain(deleted)
        for key, _ in deleted:
            self._changed[key] = None

    def _claim(self, place: tuple[str, str], now_ms: int, lease_ms: int) -> list[Record]:
        claimed = super()._claim(place, now_ms, lease_ms)
        for record in claimed:
            self._changed[record.key] = None
        if not claimed:
            self._idle.append(place)
        return claimed

    def _row(self, key: Key) -> StoredRecord:
        place = (key.kind, key.scope, key.id)
        rows = self._rows("r.kind = ? AND r.scope = ? AND r.id = ?", *place)
        return rows[0] if rows else StoredRecord(kind=key.kind, scope=key.scope, id=key.id)

    def has_task(self, key: Key) -> bool:
        """Whether there is such a record, and it goes with a task."""
        return bool(self._row(key).task_id)

    def rows(self) -> list[StoredRecord]:
        return self._rows("true")

    def _rows(self, condition: str, *values: str | int) -> list[StoredRecord]:
        rows = self._db.execute(SQL["get_rows"].format(filter=condition), values)
        return [_stored(*row) for row in rows.fetchall()]

    def copies_after(self, key: Key | None, limit: int) -> list[RecordCopy]:
        """The records behind the key, in the order of their keys."""
        place = ("", "", "") if key is None else (key.kind, key.scope, key.id)
        filter_ = "(r.kind, r.scope, r.id) > (?, ?, ?) ORDER BY r.kind, r.scope, r.id LIMIT ?"
        return [
            RecordCopy(
                record=record_of(row),
                task_id=row.task_id,
                held_until_ms=row.held_until_ms if row.is_deferred else 0,
            )
            for row in self._rows(filter_, *place, limit)
        ]

    def put_row(self, row: StoredRecord) -> None:
        """Make the record what a commit made of it."""
        self.replace(
            record_of(row),
            row.task_id or None,
            held_until_ms=row.held_until_ms,
            is_deferred=row.is_deferred,
        )

    def copy(self) -> "LoggedRecords":
        copy = LoggedRecords(self._clock)
        self._db.backup(copy._db)
        return copy


def _stored(
    kind: str,
    scope: str,
    record_id: str,
    version: int,
    count: int,
    attempts: int,
    due_ms: int | None,
    task_id: str | None,
    tags: str | None,
    body: bytes,
    held_until_ms: int | None,
    is_deferred: int | None,
) -> StoredRecord:
    return StoredRecord(
        kind=kind,
        scope=scope,
        id=record_id,
        version=version,
        count=count,
        attempts=attempts,
        due_ms=due_ms,
        task_id=task_id or "",
        tags=tags_of(tags),
        body=to_json(body),
        held_until_ms=held_until_ms or 0,
        is_deferred=bool(is_deferred),
    )


def record_of(row: StoredRecord, *, claimed_ms: int = 0) -> Record:
    return Record(
        key=Key(row.kind, row.scope, row.id),
        version=row.version,
        body=from_json(row.body),
        count=row.count,
        due_ms=row.due_ms,
        attempts=row.attempts,
        tags=row.tags,
        claimed_ms=claimed_ms,
    )


def stored_copy(copy: RecordCopy) -> StoredRecord:
    record = copy.record
    return StoredRecord(
        kind=record.key.kind,
        scope=record.key.scope,
        id=record.key.id,
        version=record.version,
        count=record.count,
        attempts=record.attempts,
        due_ms=record.due_ms,
        held_until_ms=copy.held_until_ms,
        is_deferred=bool(copy.held_until_ms),
        task_id=copy.task_id,
        tags=record.tags,
        body=to_json(record.body),
    )


class _Head(Struct, frozen=True):
    """The first line: the last change that the file holds."""

    n: int


_decode_head = msgspec.json.Decoder(_Head).decode


class RecordsFile(Struct, eq=False):
    """The records and their last change, for a file that may lag behind the log."""

    file_name: ClassVar[str] = "records.jsonl"

    records: LoggedRecords
    n: int = 0
    file_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return self.file_bytes

    def capture(self) -> "RecordsFile":
        """With a copy of the records, for the thread that writes the file."""
        return RecordsFile(self.records.copy(), self.n)

    def written(self, n: int, size: int) -> None:
        """The file is always written as a whole."""
        self.file_bytes = size

    def rendered(self) -> bytes:
        """Empty when there are no records."""
        lines = [_encode(row) for row in self.records.rows()]
        return b"\n".join([_encode(_Head(self.n)), *lines, b""]) if lines else b""

    def read(self, folder: Path) -> None:
        """Load the file into the records. Raises StoreUnusable."""
        path = folder / self.file_name
        if not path.exists():
            return
        n, rows = decoded_after_head(_decode, path, "record")
        for row in rows:
            self.records.put_row(row)
        self.n, self.file_bytes = n, path.stat().st_size


def decoded_after_head(
    decode: Callable[[bytes], T], path: Path, what: str
) -> tuple[int, Iterator[T]]:
    """The last change that the file holds, and what follows in it."""
    first, *rest = path.read_bytes().splitlines() or [b""]
    (head,) = decoded(_decode_head, [first], path, what)
    return head.n, decoded(decode, rest, path, what, first=2)


def decoded(
    decode: Callable[[bytes], T], lines: Iterable[bytes], path: Path, what: str, *, first: int = 1
) -> Iterator[T]:
    """Raises StoreUnusable that names the line."""
    for number, line in enumerate(lines, first):
        try:
            yield decode(line)
        except msgspec.DecodeError as error:
            raise StoreUnusable(
                f"{path} is damaged in line {number} ({error}). Restore the file from a backup, "
                f"or take out the line to go on without this {what}."
            ) from None
