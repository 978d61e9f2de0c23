"""Answers of agents that speak protocol v1, as their callers see them: with the ids that the relay
gave the caller, and as changes for a stream."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.events import Event
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.relay.v1.tasks import V1Task

_MAX_ID_CHARS: Final = 1024


def check_ids(task: Task) -> None:
    ids = (task.id, task.context_id)
    # PostgreSQL has no U+0000.
    if not task.id or any(len(id) > _MAX_ID_CHARS or "\0" in id for id in ids):
        raise InvalidAgentResponse("The agent has answered with a task whose id is not valid")


def as_known(task: Task, known: V1Task) -> Task:
    """The task of the agent with the ids that its caller knows."""
    if (task.id, task.context_id) == (known.id, known.context_id):
        return task
    status = task.status
    if status.message is not None:
        status = replace(status, message=_renamed(status.message, known))
    return replace(
        task,
        id=known.id,
        context_id=known.context_id,
        status=status,
        history=tuple([_renamed(message, known) for message in task.history]),
    )


def _renamed(message: Message, known: V1Task) -> Message:
    return replace(
        message,
        task_id=known.id if message.task_id else "",
        context_id=known.context_id if message.context_id else "",
    )


def from_answer(answer: Task | Message, given: Task, known: V1Task) -> Task:
    """What became of a task from the mailbox, whose message the agent has answered."""
    if isinstance(answer, Task):
        task = as_known(answer, known)
        return task if task.history else replace(task, history=given.history)
    status = TaskStatus(
        state=TaskState.COMPLETED,
        message=replace(answer, task_id=given.id, context_id=given.context_id),
        timestamp=given.status.timestamp,
    )
    return replace(given, status=status)


def failed(given: Task, text: str) -> Task:
    message = Message(
        message_id=f"{given.id}-failed",
        task_id=given.id,
        context_id=given.context_id,
        role=Role.AGENT,
        parts=(Part(text=text),),
    )
    status = TaskStatus(state=TaskState.FAILED, message=message, timestamp=given.status.timestamp)
    return replace(given, status=status)


def changes(before: Task, now: Task) -> Iterator[Event]:
    """What a stream tells of a task that was read twice."""
    known = {artifact.artifact_id: artifact for artifact in before.artifacts}
    for artifact in now.artifacts:
        if known.get(artifact.artifact_id) != artifact:
            yield TaskArtifactUpdateEvent(
                task_id=now.id, context_id=now.context_id, artifact=artifact, last_chunk=True
            )
    if now.status != before.status:
        yield TaskStatusUpdateEvent(task_id=now.id, context_id=now.context_id, status=now.status)
