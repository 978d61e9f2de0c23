"""What happens to a task or a conversation, and how the log writes it down.

Every change has a number `n` that rises over the life of the folder. A record says which
change it holds last, so that reading the log again does nothing twice.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.ports.store import Append, Creation, IdempotencyRecord, Scope, Snapshot
from trunkline.stores.jsonfile.blobs import from_json, to_json


class Appended(Struct, frozen=True):
    n: int
    append: Append

    @property
    def task_id(self) -> str:
        return self.append.task_id


class Claimed(Struct, frozen=True, tag="claim", rename="camel"):
    n: int
    task_id: str
    epoch: int
    node: str


class Cut(Struct, frozen=True, tag="cut", rename="camel"):
    """The journal up to a sequence was forgotten, as far as the snapshot covers it."""

    n: int
    task_id: str
    up_to: int


class Deleted(Struct, frozen=True, tag="delete", rename="camel"):
    n: int
    task_id: str


TaskChange: TypeAlias = Appended | Claimed | Cut | Deleted


class Said(Struct, frozen=True, tag="exchange", rename="camel"):
    """An exchange that made no task."""

    n: int
    scope: Scope
    context_id: str
    at_ms: int
    messages: Raw


class Forgot(Struct, frozen=True, tag="forget", rename="camel"):
    """Exchanges of a conversation were forgotten: those of the changes with these numbers."""

    n: int
    scope: Scope
    context_id: str
    gone: tuple[int, ...]


ConversationChange: TypeAlias = Said | Forgot


class Noted(Struct, frozen=True, tag="note", rename="camel"):
    """A backend keeps a text; an empty one was forgotten."""

    n: int
    scope: Scope
    context_id: str
    name: str
    text: str
    at_ms: int


Change: TypeAlias = TaskChange | ConversationChange | Noted


class StoredEntry(Struct, frozen=True):
    seq: int
    kind: str
    body: Raw


class StoredSnapshot(Struct, frozen=True):
    seq: int
    task: Raw
    artifacts: Raw


class StoredKey(Struct, frozen=True):
    key: str
    digest: bytes


class _StoredAppend(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="append", rename="camel"
):
    n: int
    task_id: str
    expected_seq: int
    epoch: int
    state: TaskState
    status_ms: int
    entries: tuple[StoredEntry, ...] = ()
    creation: Creation | None = None
    snapshot: StoredSnapshot | None = None
    idempotency: StoredKey | None = None
    # Whose the idempotency key is.
    scope: Scope | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(
    tuple[_StoredAppend | Claimed | Cut | Deleted | Said | Forgot | Noted, ...]
).decode


def encode(changes: Sequence[Change]) -> bytes:
    """JSON on one line."""
    return _encode(
        [_stored(change) if isinstance(change, Appended) else change for change in changes]
    )


def decode(line: bytes) -> list[Change]:
    """Raises msgspec.DecodeError."""
    return [
        _appended(stored) if isinstance(stored, _StoredAppend) else stored
        for stored in _decode(line)
    ]


def stored_entry(entry: Entry) -> StoredEntry:
    return StoredEntry(entry.seq, entry.kind, to_json(entry.body))


def entry_of(stored: StoredEntry) -> Entry:
    return Entry(stored.seq, stored.kind, from_json(stored.body))


def stored_snapshot(snapshot: Snapshot) -> StoredSnapshot:
    return StoredSnapshot(snapshot.seq, to_json(snapshot.task), to_json(snapshot.artifacts))


def snapshot_of(stored: StoredSnapshot) -> Snapshot:
    return Snapshot(stored.seq, from_json(stored.task), from_json(stored.artifacts))


def _stored(change: Appended) -> _StoredAppend:
    append = change.append
    record = append.idempotency
    return _StoredAppend(
        n=change.n,
        task_id=append.task_id,
        expected_seq=append.expected_seq,
        epoch=append.epoch,
        state=append.state,
        status_ms=append.status_ms,
        entries=tuple([stored_entry(entry) for entry in append.entries]),
        creation=append.creation,
        snapshot=None if append.snapshot is None else stored_snapshot(append.snapshot),
        idempotency=None if record is None else StoredKey(record.key, record.digest),
        scope=None if record is None else record.scope,
    )


def _appended(stored: _StoredAppend) -> Appended:
    key, scope = stored.idempotency, stored.scope
    append = Append(
        task_id=stored.task_id,
        expected_seq=stored.expected_seq,
        epoch=stored.epoch,
        entries=tuple([entry_of(entry) for entry in stored.entries]),
        state=stored.state,
        status_ms=stored.status_ms,
        creation=stored.creation,
        snapshot=None if stored.snapshot is None else snapshot_of(stored.snapshot),
        idempotency=None
        if key is None or scope is None
        else IdempotencyRecord(scope, key.key, key.digest, stored.task_id),
    )
    return Appended(stored.n, append)
