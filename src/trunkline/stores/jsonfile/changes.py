"""Changes of tasks and records, and their form as a line of the log.

Every change has a number `n` that rises over the life of the folder. A file names the last
change that it holds, so that reading the log again applies no change twice.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.ports import store as port


class StoredKey(Struct, frozen=True):
    """From an earlier version: an idempotency key that led to a task."""

    key: str
    digest: bytes


class Appended(Struct, frozen=True):
    n: int
    append: port.Append
    # From an earlier version: the key of the request.
    key: StoredKey | None = None

    @property
    def task_id(self) -> str:
        return self.append.task_id


class Cut(Struct, frozen=True, tag="cut", rename="camel"):
    """The journal up to a sequence was pruned, as far as the snapshot covers it."""

    n: int
    task_id: str
    up_to: int


class Deleted(Struct, frozen=True, tag="delete", rename="camel"):
    n: int
    task_id: str


TaskChange: TypeAlias = Appended | Cut | Deleted


class StoredRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A record with all that the store knows of it. Without a version it was deleted."""

    kind: str
    scope: str
    id: str
    version: int = 0
    count: int = 0
    attempts: int = 0
    due_ms: int | None = None
    # Until then no other record of the scope is claimed, because this one is, or was deferred.
    held_until_ms: int = 0
    is_deferred: bool = False
    task_id: str = ""
    tags: tuple[str, ...] = ()
    body: Raw = Raw(b"null")


class Recorded(Struct, frozen=True, tag="records"):
    """Records that a commit put or deleted."""

    n: int
    rows: tuple[StoredRecord, ...]


Change: TypeAlias = TaskChange | Recorded


class Said(Struct, frozen=True, tag="exchange", rename="camel"):
    """From an earlier version: an answer without a task. JSON array of message and answer."""

    n: int
    scope: port.Scope
    context_id: str
    at_ms: int
    messages: Raw


class Forgot(Struct, frozen=True, tag="forget"):
    """From an earlier version: answers without a task that expired, by the numbers of changes."""

    n: int
    gone: tuple[int, ...]


class Noted(Struct, frozen=True, tag="note", rename="camel"):
    """From an earlier version: a text that a backend keeps under a name; empty to forget it."""

    n: int
    scope: port.Scope
    context_id: str
    name: str
    text: str
    at_ms: int


class Claimed(Struct, frozen=True, tag="claim"):
    """From an earlier version: the process that works on a task changed."""

    n: int


EarlierChange: TypeAlias = Said | Forgot | Noted | Claimed
# What a log may hold.
LoggedChange: TypeAlias = Change | EarlierChange


class StoredEntry(Struct, frozen=True, omit_defaults=True, rename="camel"):
    seq: int
    kind: str
    body: Raw
    # The time of its commit; None for entries of earlier versions.
    committed_ms: int | None = None


class StoredSnapshot(Struct, frozen=True):
    seq: int
    task: Raw
    artifacts: Raw


class _StoredAppend(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="append", rename="camel"
):
    n: int
    task_id: str
    expected_seq: int
    state: TaskState
    status_ms: int
    entries: tuple[StoredEntry, ...] = ()
    creation: port.Creation | None = None
    snapshot: StoredSnapshot | None = None
    # From an earlier version.
    idempotency: StoredKey | None = None


# The fields that an append has as they are in the log.
_SHARED = ("task_id", "expected_seq", "state", "status_ms", "creation")
_skip = msgspec.json.Decoder(Raw).decode
_MARK = b'"base64:'
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(
    tuple[_StoredAppend | Claimed | Cut | Deleted | Said | Forgot | Noted | Recorded, ...]
).decode


def encode(changes: Sequence[Change]) -> bytes:
    """JSON on one line."""
    return _encode(
        [_stored(change) if isinstance(change, Appended) else change for change in changes]
    )


def decode(line: bytes) -> list[LoggedChange]:
    """Raises msgspec.DecodeError."""
    return [
        _appended(stored) if isinstance(stored, _StoredAppend) else stored
        for stored in _decode(line)
    ]


def fields_of(of: Struct, names: Iterable[str]) -> dict[str, Any]:
    """By name, for another struct that has fields of the same names."""
    return {name: getattr(of, name) for name in names}


def stored_entries(entries: Sequence[Entry]) -> tuple[StoredEntry, ...]:
    return tuple(
        [
            StoredEntry(each.seq, each.kind, to_json(each.body), each.committed_ms)
            for each in entries
        ]
    )


def entries_of(stored: Sequence[StoredEntry]) -> tuple[Entry, ...]:
    return tuple(
        [
            Entry(each.seq, each.kind, from_json(each.body), committed_ms=each.committed_ms)
            for each in stored
        ]
    )


def stored_snapshot(given: port.Snapshot | None) -> StoredSnapshot | None:
    if given is None:
        return None
    return StoredSnapshot(given.seq, to_json(given.task), to_json(given.artifacts))


def snapshot_of(stored: StoredSnapshot | None) -> port.Snapshot | None:
    if stored is None:
        return None
    return port.Snapshot(stored.seq, from_json(stored.task), from_json(stored.artifacts))


def _stored(change: Appended) -> _StoredAppend:
    append = change.append
    return _StoredAppend(
        n=change.n,
        entries=stored_entries(append.entries),
        snapshot=stored_snapshot(append.snapshot),
        **fields_of(append, _SHARED),
    )


def _appended(stored: _StoredAppend) -> Appended:
    append = port.Append(
        entries=entries_of(stored.entries),
        snapshot=snapshot_of(stored.snapshot),
        **fields_of(stored, _SHARED),
    )
    return Appended(stored.n, append, stored.idempotency)


def to_json(data: bytes) -> Raw:
    """The bytes themselves when they are JSON on one line, else base64 as a marked text."""
    if b"\n" not in data and not data.startswith(_MARK) and _is_json(data):
        return Raw(data)
    return Raw(_MARK + base64.b64encode(data) + b'"')


def from_json(raw: Raw) -> bytes:
    data = bytes(raw)
    return base64.b64decode(data[len(_MARK) : -1]) if data.startswith(_MARK) else data


def _is_json(data: bytes) -> bool:
    try:
        # Space around a value is not part of it, and would be lost.
        return bytes(_skip(data)) == data
    except msgspec.DecodeError:
        return False
