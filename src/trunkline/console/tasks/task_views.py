"""How the views of tasks are made of what stores and folds have."""

from typing import Final

import msgspec
from msgspec import Struct

from trunkline.engine.event_rows import EventRow, last_words, preview
from trunkline.engine.task_timeline import TimelineFold
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Message, Task, TaskStatus
from trunkline.ports.call_views import CallView
from trunkline.ports.store import StoredTask
from trunkline.ports.task_views import IdleGap, StateBand, TaskEvent, TaskView, Timeline, TurnSpan

MAX_TEXT: Final = 200


class _Asked(Struct, rename="camel"):
    """The part of a stored task that says what it is about; the rest is not decoded."""

    status: TaskStatus
    history: list[msgspec.Raw] = []


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_message = msgspec.json.Decoder(Message).decode


def view_of(stored: StoredTask, text: str) -> TaskView:
    scope = stored.scope
    return TaskView(
        id=stored.task_id,
        agent=scope.agent,
        principal=scope.principal,
        tenant=scope.tenant,
        context_id=stored.context_id,
        state=stored.state,
        status_at=format_timestamp(stored.status_ms),
        created_at=format_timestamp(stored.created_ms),
        text=text,
    )


def text_of_status(status: TaskStatus | None) -> str:
    """What a status says, cut; empty for one without a message."""
    message = None if status is None else status.message
    return "" if message is None else preview(message.parts, MAX_TEXT)


def text_of_task(task: bytes) -> str:
    """What a stored task says last, or what was asked first, cut."""
    try:
        asked = _decode_asked(task)
    except msgspec.DecodeError:
        return ""
    text = text_of_status(asked.status)
    if text or not asked.history:
        return text
    try:
        return preview(_decode_message(asked.history[0]).parts, MAX_TEXT)
    except msgspec.DecodeError:
        return ""


def text_of_first(task: Task) -> str:
    return last_words(task, MAX_TEXT)


def event_view(row: EventRow, size: int, event: bytes | None = None) -> TaskEvent:
    return TaskEvent(
        seq=row.seq,
        at=time_text(row.at_ms),
        kind=row.kind,
        name=row.name,
        state=row.state,
        text=row.text,
        size=size,
        artifact_id=row.artifact_id,
        event=None if event is None else msgspec.Raw(event),
    )


def time_text(ms: int | None) -> str | None:
    return None if ms is None else format_timestamp(ms)


def timeline_of(fold: TimelineFold, calls: list[CallView]) -> Timeline:
    return Timeline(
        states=[
            StateBand(
                state=band.state,
                seq=band.seq,
                from_=time_text(band.from_ms),
                to=time_text(band.to_ms),
            )
            for band in fold.bands
        ],
        turns=[
            TurnSpan(
                number=turn.number,
                message_id=turn.message_id,
                queued_at=time_text(turn.queued_ms),
                started_at=time_text(turn.started_ms),
                ended_at=time_text(turn.ended_ms),
                outcome=turn.outcome,
                first_seq=turn.first_seq,
                last_seq=turn.last_seq,
            )
            for turn in fold.shown_turns()
        ],
        gaps=[
            IdleGap(
                from_=format_timestamp(gap.from_ms),
                to=format_timestamp(gap.to_ms),
                ms=gap.ms,
                after_seq=gap.after_seq,
            )
            for gap in fold.gaps()
        ],
        calls=calls,
    )
