"""What a stream shows, in few words."""

from typing import Any

from msgspec import UNSET

from trunkline.model.events import Entry
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    text_of,
)
from trunkline.runtime.fanout import Item, Opening


def told(items: list[Item]) -> list[tuple[Any, ...]]:
    """One line per item: `("task", state)`, `("completed", text)`, `(artifact id, text, …)`."""
    return [_line(item) for item in items]


def _line(item: Item) -> tuple[Any, ...]:
    if isinstance(item, Opening):
        return ("snapshot", item.seq)
    assert isinstance(item, Entry)
    event = item.public
    if isinstance(event, TaskArtifactUpdateEvent):
        return chunk(event)
    state = event.status.state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    if isinstance(event, Task):
        return ("task", state)
    return (state, said_in(event.status.message)) if event.status.message else (state,)


def chunk(event: TaskArtifactUpdateEvent) -> tuple[Any, ...]:
    """The artifact, what is in it, and whether it is appended and the last chunk."""
    flags = ("append",) * event.append + ("last",) * bool(event.last_chunk)
    return (event.artifact.artifact_id, content(event.artifact.parts), *flags)


def said_in(message: Message) -> Any:
    return content(message.parts)


def content(parts: tuple[Part, ...]) -> Any:
    """The text, or, where there is more than text, what is in each part."""
    if all(part.text is not None for part in parts):
        return text_of(parts)
    return [value_of(part) for part in parts]


def value_of(part: Part) -> Any:
    return part.data if part.data is not UNSET else part.text or part.url or part.raw


def artifacts_of(task: Task) -> dict[str, Any]:
    return {artifact.artifact_id: content(artifact.parts) for artifact in task.artifacts}


def artifact_of(task: Task, artifact_id: str) -> Artifact:
    (artifact,) = [each for each in task.artifacts if each.artifact_id == artifact_id]
    return artifact
