"""Tasks, their journals and timelines, as the HTTP interface shows them."""

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from trunkline.model.values import TaskState
from trunkline.ports.call_views import CallView

EventName: TypeAlias = Literal["task", "statusUpdate", "artifactUpdate"]

MAX_TASKS: Final = 200
MAX_EVENTS: Final = 2000

Detail: TypeAlias = Literal["summary", "full"]


class TaskListQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=256)] = ""
    # Names of states, separated by commas.
    state: Annotated[str, Meta(max_length=400)] = ""
    context_id: Annotated[str, Meta(max_length=512)] = ""
    principal: Annotated[str, Meta(max_length=200)] = ""
    tenant: Annotated[str, Meta(max_length=200)] = ""
    since: Annotated[str, Meta(max_length=40)] = ""
    page_size: Annotated[int, Meta(ge=1, le=MAX_TASKS)] = 50
    page_token: Annotated[str, Meta(max_length=2000, pattern=r"^[A-Za-z0-9_-]*$")] = ""


class EventQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    after: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 200
    detail: Detail = "summary"


class TaskView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task of any agent, as a line of a list."""

    id: str
    agent: str
    principal: str
    tenant: str
    context_id: str
    state: TaskState
    status_at: str
    created_at: str
    text: str


class TaskList(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[TaskView]
    # Empty on the last page.
    next_page_token: str
    total: int


class LargeText(Struct, frozen=True, kw_only=True, rename="camel"):
    """A text of which only the beginning is shown."""

    # Of the whole text, in JSON.
    size: int
    preview: str


class TaskDetails(TaskView, frozen=True, kw_only=True, rename="camel"):
    # The task as A2A 1.0 has it, with previews in place of large texts.
    task: Any
    large_texts: list[LargeText]
    first_seq: int
    last_seq: int
    # None for a task that does not wait, or that waits at another node.
    queue_position: int | None
    # The ids of calls.
    calls: list[str]


class TaskEvent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """An entry of the journal of a task."""

    seq: int
    # None for an entry of an earlier release, unless it has a status.
    at: str | None
    kind: str
    name: EventName
    state: TaskState | None
    text: str
    # Of its JSON.
    size: int
    artifact_id: str | None
    # None unless it was asked for.
    event: Any = None


class TaskEvents(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[TaskEvent]
    # None after the last entry so far.
    next_after: int | None
    # Earlier entries were pruned.
    pruned_to: int


class StateBand(Struct, frozen=True, kw_only=True, rename="camel"):
    """A time in which a task was in one state."""

    state: TaskState
    seq: int
    from_: str | None = field(name="from")
    to: str | None


class TurnSpan(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of the caller, and the run of the agent for it."""

    number: int
    message_id: str
    queued_at: str | None
    started_at: str | None
    ended_at: str | None
    outcome: TaskState | None
    first_seq: int
    last_seq: int


class IdleGap(Struct, frozen=True, kw_only=True, rename="camel"):
    """A time in which nothing was recorded of a task that had not ended."""

    from_: str = field(name="from")
    to: str
    ms: int
    after_seq: int


class Timeline(Struct, frozen=True, kw_only=True, rename="camel"):
    states: list[StateBand]
    turns: list[TurnSpan]
    gaps: list[IdleGap]
    calls: list[CallView]


class TaskExport(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task as a file."""

    format: Literal["trunkline-task.1"]
    exported_at: str
    agent: str
    principal: str
    tenant: str
    context_id: str
    created_at: str
    task: Any
    pruned_to: int
    calls: list[CallView]
    events: list[TaskEvent]
