"""`Recording`: the output of a task, turn by turn, for an agent that plays it again."""

from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from trunkline.model.values import Artifact, Message, Part, TaskState, TaskStatusUpdateEvent

# The longest pause between two steps that a recording may have.
MAX_GAP_MS: Final = 60_000

Ending: TypeAlias = Literal["completed", "failed", "rejected", "input", "auth", "canceled"]
_ENDINGS: Final[dict[TaskState, Ending]] = {
    TaskState.COMPLETED: "completed",
    # A turn after which another message waited has ended like one that completes its task.
    TaskState.SUBMITTED: "completed",
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "rejected",
    TaskState.INPUT_REQUIRED: "input",
    TaskState.AUTH_REQUIRED: "auth",
    TaskState.CANCELED: "canceled",
}


class RecordedStep(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One output: an artifact or a chunk of it, a note, or with `ending` the end of the turn."""

    # The pause before it.
    after_ms: int = 0
    artifact: Artifact | None = None
    append: bool = False
    last_chunk: bool = False
    # What the status said.
    said: tuple[Part, ...] = ()
    metadata: dict[str, Any] | None = None
    ending: Ending | None = None


class RecordedTurn(Struct, frozen=True, kw_only=True):
    steps: tuple[RecordedStep, ...] = ()


class Recording(Struct, frozen=True, kw_only=True):
    # A task that plays it begins with the first turn; each further message plays the next one, and
    # those after the last turn play the last one again.
    turns: tuple[RecordedTurn, ...]


def status_step(event: TaskStatusUpdateEvent, after_ms: int) -> RecordedStep:
    """The step of a status that ends a turn or says something."""
    message: Message | None = event.status.message
    return RecordedStep(
        after_ms=after_ms,
        said=() if message is None else message.parts,
        metadata=None if message is None else message.metadata,
        ending=_ENDINGS.get(event.status.state),
    )
