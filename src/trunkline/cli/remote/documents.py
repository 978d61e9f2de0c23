"""Values of A2A as JSON for programs: one document, or one line for each event."""

from typing import Any

import msgspec

from trunkline.cli.remote.clean import clean_json
from trunkline.model.values import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.remote import StreamItem

_NAMES: dict[type, str] = {
    Task: "task",
    Message: "message",
    TaskStatusUpdateEvent: "statusUpdate",
    TaskArtifactUpdateEvent: "artifactUpdate",
}


def wrapped(item: StreamItem) -> dict[str, StreamItem]:
    """The item under the name that A2A 1.0 gives it in an answer."""
    return {_NAMES[type(item)]: item}


def document(value: Any) -> str:
    return clean_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def line(value: Any) -> str:
    return clean_json(msgspec.json.encode(value).decode())
