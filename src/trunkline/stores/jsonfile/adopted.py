"""Records of another program: the same files without what the gateway keeps beside them."""

from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry, Event
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import Task
from trunkline.ports.store import Append, Creation, Scope, Snapshot
from trunkline.protocol.v03_reading import Reader03
from trunkline.protocol.v03_types import ArtifactUpdate03, StatusUpdate03, Task03
from trunkline.stores.jsonfile.checks import broken
from trunkline.stores.jsonfile.contents import Contents

_reader = Reader03(is_rest=False)
_encode = msgspec.json.Encoder().encode


class ArtifactUpdateIn(ArtifactUpdate03, frozen=True, kw_only=True, rename="camel"):
    """Others leave out what is false."""

    append: bool = False
    last_chunk: bool = False


class _Kind(Struct, frozen=True):
    kind: str


class _JournalEntry(Struct, frozen=True):
    sequence: int
    event: Raw


_task = msgspec.json.Decoder(Task03).decode
_kind = msgspec.json.Decoder(_Kind).decode
_status = msgspec.json.Decoder(StatusUpdate03).decode
_artifact = msgspec.json.Decoder(ArtifactUpdateIn).decode
_journal_entry = msgspec.json.Decoder(_JournalEntry).decode


def adopt(
    path: Path, scope: Scope, *, task: Raw, journal: list[Raw], current_sequence: int
) -> tuple[Append, Contents]:
    """The task as if the gateway had begun it, with no owner and the journal that it has.

    The gateway's own journal starts with the task itself, so that the event with sequence
    k of the file is entry k + 1.
    """
    try:
        value = _reader.task(_task(task), "task")
    except (msgspec.DecodeError, InvalidParams) as error:
        raise broken(path, "is missing a valid task snapshot", str(error)) from None
    contents = Contents()
    contents.current_sequence, contents.journal = current_sequence, journal
    contents.entries = _entries(path, journal, current_sequence)
    contents.snapshot = _snapshot(value, current_sequence + 1)
    status_ms = _status_ms(value, path)
    append = Append(
        task_id=value.id,
        expected_seq=0,
        epoch=1,
        entries=(),
        state=value.status.state,
        status_ms=status_ms,
        creation=Creation(scope, value.context_id, status_ms, ""),
    )
    return append, contents


def _entries(path: Path, journal: list[Raw], current_sequence: int) -> list[Entry]:
    """As far back as there are no holes."""
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
