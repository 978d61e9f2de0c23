"""What a task record must be, whoever wrote it."""

from pathlib import Path
from typing import Any

import msgspec

from trunkline.model.errors import StoreUnusable

_REMEDY = "Restore the file from a backup, or move it out of the folder to go on without this task."
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_PUBLIC = {"schemaVersion", "task", "binding", "currentSequence", "journal"}
_EVENT_KINDS = ("status-update", "artifact-update")
_BINDING_TEXTS = (
    "agentId",
    "channel",
    "accountId",
    "matchedBy",
    "sessionKey",
    "mainSessionKey",
    "storePath",
)


def broken(path: Path, fault: str, detail: str = "") -> StoreUnusable:
    reason = f" ({detail})" if detail else ""
    return StoreUnusable(f"Task record {path} {fault}{reason}. {_REMEDY}")


def check_record(path: Path, data: bytes) -> None:
    """Raises StoreUnusable that names the file, what is wrong with it and what to do."""
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
    if not isinstance(binding, dict) or binding.get("schemaVersion") != 1:
        return False
    peer = binding.get("peer")
    return (
        all(isinstance(binding.get(name), str) for name in _BINDING_TEXTS)
        and isinstance(peer, dict)
        and all(isinstance(peer.get(name), str) for name in ("kind", "id", "source"))
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    # True is an int in Python.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
