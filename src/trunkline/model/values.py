"""Messages, parts, artifacts and tasks, as A2A 1.0 defines them.

A value that breaks a rule of the specification cannot be built: the checks run in
`__post_init__`, so decoding reports them with the path of the field.
"""

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType


class Role(StrEnum):
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"


class TaskState(StrEnum):
    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"


TERMINAL = frozenset(
    {TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED}
)
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
# States without a running turn. A blocking send is answered, and a snapshot is worth its write,
# because the next reader may come much later.
SETTLED = TERMINAL | INTERRUPTED
# States in which the gateway or the agent has work to do for the task.
HAS_WORK = frozenset({TaskState.SUBMITTED, TaskState.WORKING})


class Canonical(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of the objects that clients, stores and agents exchange: their JSON is that of A2A 1.0.

    The garbage collector does not track them, because JSON cannot hold a cycle.
    """


class Part(Canonical, frozen=True, kw_only=True):
    """One piece of content: exactly one of `text`, `raw`, `url` and `data` is set."""

    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    # Any JSON value, null included, so absence needs a mark of its own.
    data: Any | UnsetType = UNSET
    metadata: dict[str, Any] | None = None
    filename: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        others = (self.raw is not None) + (self.url is not None) + (self.data is not UNSET)
        if others != (self.text is None):
            raise ValueError("a part holds exactly one of text, raw, url and data")

    @property
    def is_bare_text(self) -> bool:
        """Whether it is text without metadata, file name and media type."""
        return (
            self.text is not None
            and self.metadata is None
            and not self.filename
            and not self.media_type
        )


class Message(Canonical, frozen=True, kw_only=True):
    message_id: str
    context_id: str = ""
    task_id: str = ""
    role: Role
    parts: tuple[Part, ...]
    metadata: dict[str, Any] | None = None
    extensions: tuple[str, ...] = ()
    reference_task_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.message_id:
            raise ValueError("messageId must not be empty")
        if not self.parts:
            raise ValueError("parts must hold at least one part")


class Artifact(Canonical, frozen=True, kw_only=True):
    artifact_id: str
    name: str = ""
    description: str = ""
    parts: tuple[Part, ...]
    metadata: dict[str, Any] | None = None
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.artifact_id:
            raise ValueError("artifactId must not be empty")


class TaskStatus(Canonical, frozen=True, kw_only=True):
    state: TaskState
    message: Message | None = None
    timestamp: str = ""


class Task(Canonical, frozen=True, kw_only=True):
    id: str
    context_id: str = ""
    status: TaskStatus
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[Message, ...] = ()
    metadata: dict[str, Any] | None = None


class TaskStatusUpdateEvent(Canonical, frozen=True, kw_only=True):
    task_id: str
    context_id: str
    status: TaskStatus
    metadata: dict[str, Any] | None = None


class TaskArtifactUpdateEvent(Canonical, frozen=True, kw_only=True):
    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    # None leaves the member out, which means the same as false.
    last_chunk: bool | None = None
    metadata: dict[str, Any] | None = None


def text_of(parts: tuple[Part, ...]) -> str:
    """The text parts, one per line; other kinds of content are passed over."""
    # A list, which costs half of what a generator does.
    return "\n".join([part.text for part in parts if part.text is not None])
