"""The steps of a recorded task as outputs of the scripted agent."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from trunkline.backends.scripted.script import Timed
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Failed,
    Note,
    Output,
    Question,
    Refused,
)
from trunkline.model.outputs import Final as Done
from trunkline.model.recordings import MAX_GAP_MS, RecordedStep, RecordedTurn, Recording
from trunkline.model.values import Role, text_of
from trunkline.ports.backend import TurnRequest

# An agent cannot cancel a task by itself, so the turn ends as a failure that says so.
CANCELED: Final = "The recorded task was canceled here"
_NOTHING: Final = Recording(turns=())

_decode = msgspec.json.Decoder(Recording).decode


def recording_of(text: str) -> Recording:
    """Raises ValueError."""
    if not text:
        return _NOTHING
    recording = _decode(text.encode())
    if not recording.turns:
        raise ValueError("it has no turn")
    return recording


def problems(text: str, path: Path) -> Iterable[Problem]:
    try:
        recording_of(text)
    except ValueError as error:
        remedy = "Leave it out; `POST /api/v1/recordings` writes recordings."
        yield bad_value((*path, "recording"), f"is no recording: {str(error)[:200]}", remedy)


def turn_of(recording: Recording, request: TurnRequest) -> RecordedTurn:
    """The turn to play: the first for the first message of a task, and so on."""
    earlier = sum(message.role is Role.USER for message in request.history)
    return recording.turns[min(earlier, len(recording.turns) - 1)]


def outputs_of_turn(turn: RecordedTurn) -> Iterator[Timed]:
    for step in turn.steps:
        yield min(max(step.after_ms, 0), MAX_GAP_MS) / 1000, _output(step)


def _output(step: RecordedStep) -> Output:
    if step.artifact is not None:
        return ArtifactEmitted(
            artifact=step.artifact, append=step.append, last_chunk=step.last_chunk
        )
    match step.ending:
        case "completed":
            return Done(metadata=step.metadata, said=step.said)
        case "failed":
            return Failed(text_of(step.said))
        case "rejected":
            return Refused(text_of(step.said))
        case "input":
            return Question(step.said)
        case "auth":
            return AuthNeeded(step.said)
        case "canceled":
            return Failed(CANCELED)
        case None:
            return Note(step.said)
