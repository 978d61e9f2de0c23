"""`EventRow`: one line about an entry of a journal, for lists that people read."""

from typing import Final

import msgspec
from msgspec import UNSET, Struct

from trunkline.engine.task_timeline import time_of
from trunkline.model.events import Entry, PublicEvent
from trunkline.model.values import (
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from trunkline.ports.task_views import EventName

PREVIEW_CHARS: Final = 120

_encode = msgspec.json.Encoder().encode


class EventRow(Struct, frozen=True, kw_only=True):
    seq: int
    at_ms: int | None
    # How the journal calls it, such as `status.1`.
    kind: str
    name: EventName
    # None for artifacts.
    state: TaskState | None
    # The beginning of what it says.
    text: str
    artifact_id: str | None


def row_of(entry: Entry) -> EventRow:
    """Large values of the entry are references, or previews of them."""
    event = entry.public
    return EventRow(
        seq=entry.seq,
        at_ms=time_of(entry),
        kind=entry.kind,
        name=name_of(event),
        state=None if isinstance(event, TaskArtifactUpdateEvent) else event.status.state,
        text=_text_of_event(event),
        artifact_id=event.artifact.artifact_id
        if isinstance(event, TaskArtifactUpdateEvent)
        else None,
    )


def name_of(event: PublicEvent) -> EventName:
    match event:
        case Task():
            return "task"
        case TaskArtifactUpdateEvent():
            return "artifactUpdate"
        case TaskStatusUpdateEvent():
            return "statusUpdate"


def _text_of_event(event: PublicEvent) -> str:
    if isinstance(event, TaskArtifactUpdateEvent):
        return preview(event.artifact.parts)
    message = event.status.message
    if message is None and isinstance(event, Task) and event.history:
        message = event.history[-1]
    return "" if message is None else preview(message.parts)


def preview(parts: tuple[Part, ...], limit: int = PREVIEW_CHARS) -> str:
    """The texts of the parts in one, with the name of each file and the JSON of data; cut."""
    pieces: list[str] = []
    left = limit
    for part in parts:
        piece = _piece(part, left)
        pieces.append(piece)
        left -= len(piece) + 1
        if left <= 0:
            break
    return "\n".join(pieces)[:limit]


def _piece(part: Part, limit: int) -> str:
    if part.text is not None:
        return part.text[:limit]
    if part.data is not UNSET:
        # A small value in full; of a large one more is encoded than shown, which costs time only.
        return _encode(part.data)[: 4 * limit].decode(errors="ignore")[:limit]
    return (part.filename or part.url or part.media_type or "file")[:limit]


def last_words(task: Task, limit: int) -> str:
    """What the task says last, or what was asked first."""
    message: Message | None = task.status.message
    if message is None and task.history:
        message = task.history[0]
    return "" if message is None else preview(message.parts, limit)
