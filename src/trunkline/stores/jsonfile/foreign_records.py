"""Records of other programs: `check_record` before one is read, `adopt` to take it over.

Such a record is the same file without the member in which the gateway keeps its own data.
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trunkline.model.errors import InvalidParams, StoreUnusable
from trunkline.model.events import Entry, Event
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import Task
from trunkline.ports.store import Scope, Snapshot
from trunkline.protocol import v03_types as v03
from trunkline.protocol.v03_reading import Reader03
from trunkline.stores.jsonfile.public_record import Binding
from trunkline.stores.jsonfile.tasks import Contents, TaskHead

_REMEDY = "Restore the file from a backup, or move it out of the folder to go on without this task."
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_PUBLIC = {"schemaVersion", "task", "binding", "currentSequence", "journal"}
_EVENT_KINDS = ("status-update", "artifact-update")


def broken(path: Path, fault: str, detail: str = "") -> StoreUnusable:
    reason = f" ({detail})" if detail else ""
    return StoreUnusable(f"Task record {path} {fault}{reason}. {_REMEDY}")


def check_record(path: Path, data: bytes) -> None:
    """Raises StoreUnusable that names the file, its fault and the remedy."""
    try:
        members = _members(data)
        record = {name: msgspec.json.decode(members[name]) for name in _PUBLIC & members.keys()}
    except (msgspec.DecodeError, ValueError) as error:
        raise broken(path, "is missing an object payload", str(error)) from None
    if not _is_task(record.get("task")):
        raise broken(path, "is missing a valid task snapshot")
    if "binding" in record and not _is_binding(record["binding"]):
        raise broken(path, "contains an invalid binding")
    version = record.get("schemaVersion")
    if not _is_count(version) or version not in (1, 2):
        raise broken(path, "is missing schemaVersion 1 or 2")
    if version == 2:
        _check_journal(path, record)


def _check_journal(path: Path, record: dict[str, Any]) -> None:
    current: Any = record.get("currentSequence")
    journal: Any = record.get("journal")
    if not _is_count(current):
        raise broken(path, "contains an invalid currentSequence")
    if not isinstance(journal, list):
        raise broken(path, "contains an invalid journal")
    last = 0
    for entry in journal:
        if not isinstance(entry, dict):
            raise broken(path, "contains an invalid journal entry")
        sequence: Any = entry.get("sequence")
        event: Any = entry.get("event")
        if not _is_count(sequence) or sequence < 1:
            raise broken(path, "contains an invalid journal sequence")
        if sequence <= last:
            raise broken(path, "contains out-of-order journal entries")
        if not isinstance(event, dict):
            raise broken(path, "contains an invalid journal event")
        if event.get("kind") not in _EVENT_KINDS:
            raise broken(path, "contains an invalid journal event kind")
        last = sequence
    if current < last:
        raise broken(path, "currentSequence trails the journal")


def _is_task(task: Any) -> bool:
    return (
        isinstance(task, dict)
        and task.get("kind") == "task"
        and _is_text(task.get("id"))
        and _is_text(task.get("contextId"))
        and isinstance(task.get("status"), dict)
        and _is_text(task["status"].get("state"))
    )


def _is_binding(binding: Any) -> bool:
    try:
        msgspec.convert(binding, Binding)
    except msgspec.ValidationError:
        return False
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    # True is an int in Python.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_reader = Reader03(is_rest=False)
_encode = msgspec.json.Encoder().encode


class ArtifactUpdateIn(v03.ArtifactUpdate, frozen=True, kw_only=True, rename="camel"):
    """Other programs leave out members that are false."""

    append: bool = False
    last_chunk: bool = False


class _Kind(Struct, frozen=True):
    kind: str


class _JournalEntry(Struct, frozen=True):
    sequence: int
    event: Raw


_task = msgspec.json.Decoder(v03.Task).decode
_kind = msgspec.json.Decoder(_Kind).decode
_status = msgspec.json.Decoder(v03.StatusUpdate).decode
_artifact = msgspec.json.Decoder(ArtifactUpdateIn).decode
_journal_entry = msgspec.json.Decoder(_JournalEntry).decode


def adopt(
    path: Path, scope: Scope, task: Raw, journal: list[Raw], current_sequence: int
) -> tuple[TaskHead, Contents]:
    """The task as if the gateway had begun it, with no owner and the journal of the file.

    The gateway's own journal starts with the task itself, so the event with sequence k of the
    file is entry k + 1.
    """
    try:
        value = _reader.task(_task(task), "task")
    except (msgspec.DecodeError, InvalidParams) as error:
        raise broken(path, "is missing a valid task snapshot", str(error)) from None
    contents = Contents(
        entries=_entries(path, journal, current_sequence),
        snapshot=_snapshot(value, current_sequence + 1),
        current_sequence=current_sequence,
        journal=journal,
    )
    status_ms = _status_ms(value, path)
    head = TaskHead(
        key=0,
        id=value.id,
        scope=scope,
        context_id=value.context_id,
        created_ms=status_ms,
        state=value.status.state,
        status_ms=status_ms,
        last_seq=current_sequence + 1,
    )
    return head, contents


def _entries(path: Path, journal: list[Raw], current_sequence: int) -> list[Entry]:
    """The events after the last hole of the journal."""
    entries: list[Entry] = []
    wanted = current_sequence
    for raw in reversed(journal):
        try:
            item = _journal_entry(raw)
            if item.sequence != wanted:
                break
            entries.append(Entry.of(wanted + 1, _event(item.event)))
        except (msgspec.DecodeError, InvalidParams) as error:
            raise broken(path, "contains an invalid journal event", str(error)) from None
        wanted -= 1
    return entries[::-1]


def _event(raw: Raw) -> Event:
    if _kind(raw).kind == "status-update":
        return _reader.status_update(_status(raw))
    return _reader.artifact_update(_artifact(raw))


def _snapshot(task: Task, seq: int) -> Snapshot:
    artifacts = _encode(task.artifacts) if task.artifacts else b""
    return Snapshot(seq, _encode(msgspec.structs.replace(task, artifacts=())), artifacts)


def _status_ms(task: Task, path: Path) -> int:
    try:
        return parse_timestamp(task.status.timestamp)
    except ValueError:
        return path.stat().st_mtime_ns // 1_000_000
