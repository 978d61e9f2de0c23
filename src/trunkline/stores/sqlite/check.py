"""`check`: finds every fault of a database file, without changing it.

A gateway may run meanwhile: each step reads one state of the database, beside the writer.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from trunkline.model.errors import StoreError, StoreInUse, StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK, referred_ids, split
from trunkline.ports.store import Scope, Snapshot, StoredTask
from trunkline.stores.findings import TASK_REMEDY, Findings
from trunkline.stores.locks import FileLock
from trunkline.stores.sqlite.connections import cannot_open, connect_reader
from trunkline.stores.sqlite.problems import primary_code
from trunkline.stores.sqlite.reader import Reader
from trunkline.stores.sqlite.schema import check_version, shipped_schema
from trunkline.stores.sqlite.startup_check import check_header, log_bytes, zero_pages
from trunkline.stores.sqlite.statements import SQL

_REMEDY = "Restore a backup. `sqlite3 FILE .recover` may rescue what is left of this one."
_TASKS_AT_ONCE = 500
_ENTRIES_AT_ONCE = 500
_MAX_PAGE_FAULTS = 100

# Rows that point to nothing: how a fault names them, and the statement that counts them.
_REFERENCES = (
    ("tasks of an unknown scope", "count_tasks_without_scope"),
    ("journal rows of no task", "count_events_without_task"),
    ("snapshots of no task", "count_snapshots_without_task"),
    ("records of no task", "count_records_without_task"),
    ("tags of no record", "count_tags_without_record"),
    ("tags that find no record", "count_records_without_tag"),
    ("due records that no claim finds", "count_due_without_scope"),
)


def check(path: Path) -> Findings:
    """Raises StoreUnusable for a file that is not a store of this release."""
    findings = Findings(str(path), "sqlite")
    lock = FileLock(path)
    # A running gateway keeps its lock; otherwise none may start meanwhile. Without permission
    # to write, the check goes on without the lock.
    with suppress(StoreInUse, OSError):
        lock.acquire()
    try:
        _check(path, findings)
    finally:
        lock.release()
    return findings


def _check(path: Path, findings: Findings) -> None:
    has_log = log_bytes(path) is not None
    if not has_log:
        try:
            check_header(path, path.stat().st_size)
        except StoreError as error:
            findings.add("file", error.message, _REMEDY)
            return
        for page in zero_pages(path):
            findings.add("page", f"page {page} is empty", _REMEDY)
    try:
        # Without a log no process has the file open, and the check must not create one.
        with closing(connect_reader(path, is_immutable=not has_log)) as connection:
            _check_version(connection, path)
            _check_pages(connection, findings)
            _check_references(connection, findings)
            _check_tasks(connection, findings)
    except sqlite3.Error as error:
        if primary_code(error) == sqlite3.SQLITE_CANTOPEN:
            raise cannot_open(path, error) from error
        findings.add("page", f"the database cannot be read: {error}", _REMEDY)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    schema = shipped_schema()
    version = check_version(connection, schema, str(path))
    if version != schema.version:
        raise StoreUnusable(
            f"The store {path} has schema {version}, and this release checks {schema.version}. "
            "Start the gateway once to bring it up to date."
        )


def _check_pages(connection: sqlite3.Connection, findings: Findings) -> None:
    for (found,) in connection.execute(f"PRAGMA integrity_check({_MAX_PAGE_FAULTS})"):
        if found != "ok":
            findings.add("page", found.replace("\n", " "), _REMEDY)


def _rows(
    connection: sqlite3.Connection, findings: Findings, fault: str, statement: str, *values: int
) -> list[Any]:
    """The rows of a statement; none, and a fault, when SQLite cannot read them."""
    try:
        return connection.execute(SQL[statement], values).fetchall()
    except sqlite3.Error as error:
        findings.add("page", f"{fault}: {error}", _REMEDY)
        return []


def _check_references(connection: sqlite3.Connection, findings: Findings) -> None:
    for what, statement in _REFERENCES:
        for (count,) in _rows(connection, findings, f"{what} cannot be counted", statement):
            if count:
                findings.add("reference", f"{count} {what}", _REMEDY)
    for (count,) in _rows(connection, findings, "records cannot be counted", "count_records"):
        findings.records = count
    wrong = _rows(connection, findings, "tasks cannot be counted", "find_wrong_counts")
    for scope, state, kept, real in wrong:
        findings.add(
            "count",
            f"scope {scope} is said to have {kept} tasks in state {state} and has {real}",
            "Lists show a wrong total. Restore a backup if that matters.",
        )


def _check_tasks(connection: sqlite3.Connection, findings: Findings) -> None:
    reader = Reader(connection, has_thread=True)
    after = -1
    while True:
        fault = f"tasks after number {after} cannot be read"
        found = _rows(connection, findings, fault, "find_tasks", after, _TASKS_AT_ONCE)
        if not found:
            return
        for key, task_id in found:
            _check_task(connection, reader, key, task_id, findings)
        after = found[-1][0]


def _check_task(
    connection: sqlite3.Connection, reader: Reader, key: int, task_id: str, findings: Findings
) -> None:
    # One state of the task, also when a gateway writes to it.
    connection.execute("BEGIN")
    try:
        stored = reader.by_key(key)
        if stored is not None:
            # With the large texts in place: a snapshot may refer to a text that the journal
            # holds in pieces.
            whole = partial(_whole, reader, stored.scope)
            findings.check_task(_whole_task(stored, whole), _journal(reader, task_id, whole))
    except (sqlite3.Error, msgspec.DecodeError, LookupError, ValueError) as error:
        findings.add("task", f"it cannot be read: {error!r}", TASK_REMEDY, task_id=task_id)
    finally:
        connection.execute("COMMIT")


def _journal(reader: Reader, task_id: str, whole: Callable[[bytes], bytes]) -> Iterator[Entry]:
    after = 0
    while entries := reader.entries(task_id, after, _ENTRIES_AT_ONCE):
        for entry in entries:
            yield Entry(entry.seq, entry.kind, whole(entry.body))
        after = entries[-1].seq


def _whole_task(stored: StoredTask, whole: Callable[[bytes], bytes]) -> StoredTask:
    snapshot = stored.snapshot
    if snapshot is None:
        return stored
    snapshot = Snapshot(snapshot.seq, whole(snapshot.task), whole(snapshot.artifacts))
    return structs.replace(stored, snapshot=snapshot)


def _whole(reader: Reader, scope: Scope, data: bytes) -> bytes:
    """JSON with the large texts that it refers to. Raises ValueError when some are missing."""
    if MARK not in data:
        return data
    sizes = reader.value_sizes(scope, referred_ids(data))
    pieces: list[bytes] = []
    for piece in split(data, sizes):
        if isinstance(piece, str):
            found = b"".join(reader.value_slices(piece, 0, -1))
            if len(found) != sizes[piece]:
                raise ValueError(f"a large text has {len(found)} of {sizes[piece]} bytes")
            pieces.append(found)
        else:
            pieces.append(piece)
    return b"".join(pieces)
