"""`outcome_of`: how a call of another agent came out, read from the task that it made."""

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from trunkline.engine import gateway_texts
from trunkline.engine.plain_json import MAX_DEPTH, TooDeep, plain
from trunkline.engine.recovery import RESTARTED, restart_reason
from trunkline.engine.structured_answer import BROKEN, of_object, read_answer
from trunkline.engine.turn_ends import TurnEnd
from trunkline.model.call_outcomes import (
    AGENT_CRASHED,
    AGENT_WITHDRAWN,
    GATEWAY_RESTARTED,
    CallOutcome,
    StructuredAnswer,
)
from trunkline.model.values import INTERRUPTED, Artifact, Part, TaskState, TaskStatus, text_of

_CODES: Final = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "rejected",
    TaskState.CANCELED: "canceled",
}

# How the text of a turn begins that its agent did not end. What follows may say how it stopped.
_CRASHES: Final = {
    RESTARTED: GATEWAY_RESTARTED,
    gateway_texts.GATEWAY_STOPPED: GATEWAY_RESTARTED,
    gateway_texts.AGENT_WITHDRAWN: AGENT_WITHDRAWN,
    gateway_texts.AGENT_FAILED: AGENT_CRASHED,
}
# Codes are for programs; what else an agent calls its reason is none.
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOO_DEEP: Final = f"The answer is nested deeper than {MAX_DEPTH} levels. Its task has it."


def outcome_of_turn(end: TurnEnd) -> CallOutcome:
    """The outcome of the call that has asked for the turn."""
    if end.is_lost:
        text = restart_reason(TaskState.WORKING)
        return CallOutcome("error", code=GATEWAY_RESTARTED, text=text)
    return outcome_of(end.status, end.artifacts)


def outcome_of(status: TaskStatus, artifacts: Sequence[Artifact]) -> CallOutcome:
    """The outcome of a turn that left its task with this status and made these artifacts."""
    said = () if status.message is None else status.message.parts
    if status.state in INTERRUPTED:
        return CallOutcome("input_required", text=text_of(said))
    # A task is submitted again where another message waited for the end of the turn.
    if status.state in (TaskState.COMPLETED, TaskState.SUBMITTED):
        parts = [part for artifact in artifacts for part in artifact.parts]
        return CallOutcome("completed", answer=answer_of(parts or said))
    text = text_of(said)
    return CallOutcome("error", code=_code(status, text), text=text)


def _code(status: TaskStatus, text: str) -> str:
    if status.state is TaskState.FAILED:
        for begin, code in _CRASHES.items():
            if text.startswith(begin):
                return code
    if status.message is not None and status.message.metadata is not None:
        reason = status.message.metadata.get("reason")
        if isinstance(reason, str) and _CODE.fullmatch(reason):
            return reason
    return _CODES[status.state]


def answer_of(parts: Sequence[Part]) -> StructuredAnswer:
    """What the parts say, as far as they say it in a structured form."""
    values = [part.data for part in parts if part.data is not UNSET]
    if values:
        try:
            return _of_values(values)
        except TooDeep:
            return StructuredAnswer("", BROKEN, caveats=(_TOO_DEEP,))
    if text := text_of(tuple(parts)):
        return read_answer(text)
    return StructuredAnswer([_file(part) for part in parts if part.text is None] or "")


def _of_values(values: list[Any]) -> StructuredAnswer:
    if len(values) > 1:
        return StructuredAnswer([plain(value) for value in values])
    (value,) = values
    return of_object(value) if isinstance(value, dict) else StructuredAnswer(plain(value))


def _file(part: Part) -> dict[str, Any]:
    """What a file is; its content stays in the task."""
    named = {"filename": part.filename, "mediaType": part.media_type, "url": part.url}
    return {name: value for name, value in named.items() if value}
