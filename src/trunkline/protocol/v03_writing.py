"""`Writer03`: values of the model as objects of A2A 0.3."""

import base64
from typing import Any

from msgspec import UNSET

from trunkline.model.values import (
    TERMINAL,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.v03_types import (
    CANCELLED,
    ROLES,
    STATE_NAMES,
    WRAPPED,
    Artifact03,
    ArtifactUpdate03,
    File03,
    Message03,
    Part03,
    Status03,
    StatusUpdate03,
    Task03,
)


class Writer03:
    """For one of the two bindings of 0.3."""

    def __init__(self, *, is_rest: bool, question_is_final: bool = True) -> None:
        self._is_rest = is_rest
        # 0.3, 7.2.2: true on the last event of the stream, which a question ends as well.
        self._final = TERMINAL | {TaskState.INPUT_REQUIRED} if question_is_final else TERMINAL
        if is_rest:
            self._roles = {role: str(role) for role in Role}
            self._states = {state: str(state) for state in TaskState}
            self._states[TaskState.CANCELED] = CANCELLED
        else:
            self._roles = {role: name for name, role in ROLES.items()}
            self._states = STATE_NAMES

    def _kind(self, name: str) -> str:
        return "" if self._is_rest else name

    def part(self, part: Part) -> Part03:
        if part.text is not None:
            return Part03(kind=self._kind("text"), text=part.text, metadata=part.metadata)
        if part.data is not UNSET:
            return self._data_part(part.data, part.metadata)
        file = (
            File03(
                name=part.filename,
                mime_type=part.media_type,
                file_with_bytes=None if part.raw is None else base64.b64encode(part.raw),
                file_with_uri=part.url,
            )
            if self._is_rest
            else File03(
                name=part.filename, mime_type=part.media_type, content=part.raw, uri=part.url
            )
        )
        return Part03(kind=self._kind("file"), file=file, metadata=part.metadata)

    def _data_part(self, data: Any, metadata: dict[str, Any] | None) -> Part03:
        # 0.3, 6.5.3: data is an object.
        if not isinstance(data, dict):
            data = {"value": data}
            metadata = (metadata or {}) | {WRAPPED: True}
        if self._is_rest:
            data = {"data": data}
        return Part03(kind=self._kind("data"), data=data, metadata=metadata)

    def message(self, message: Message) -> Message03:
        parts = tuple([self.part(part) for part in message.parts])
        return Message03(
            kind=self._kind("message"),
            message_id=message.message_id,
            role=self._roles[message.role],
            parts=() if self._is_rest else parts,
            content=parts if self._is_rest else (),
            context_id=message.context_id,
            task_id=message.task_id,
            # The proto of 0.3 does not have it, and its parsers refuse unknown fields.
            reference_task_ids=() if self._is_rest else message.reference_task_ids,
            extensions=message.extensions,
            metadata=message.metadata,
        )

    def artifact(self, artifact: Artifact) -> Artifact03:
        return Artifact03(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            parts=tuple([self.part(part) for part in artifact.parts]),
            metadata=artifact.metadata,
            extensions=artifact.extensions,
        )

    def status(self, status: TaskStatus) -> Status03:
        return Status03(
            state=self._states[status.state],
            message=None if status.message is None else self.message(status.message),
            timestamp=status.timestamp,
        )

    def task(self, task: Task) -> Task03:
        return Task03(
            kind=self._kind("task"),
            id=task.id,
            context_id=task.context_id,
            status=self.status(task.status),
            artifacts=tuple([self.artifact(artifact) for artifact in task.artifacts]),
            history=tuple([self.message(message) for message in task.history]),
            metadata=task.metadata,
        )

    def status_update(
        self, event: TaskStatusUpdateEvent, *, goes_on: bool = False
    ) -> StatusUpdate03:
        """`goes_on`: the stream does not end with it, though it may be a question."""
        state = event.status.state
        return StatusUpdate03(
            kind=self._kind("status-update"),
            task_id=event.task_id,
            context_id=event.context_id,
            status=self.status(event.status),
            final=state in (TERMINAL if goes_on else self._final),
            metadata=event.metadata,
        )

    def artifact_update(self, event: TaskArtifactUpdateEvent) -> ArtifactUpdate03:
        return ArtifactUpdate03(
            kind=self._kind("artifact-update"),
            task_id=event.task_id,
            context_id=event.context_id,
            artifact=self.artifact(event.artifact),
            append=event.append,
            last_chunk=bool(event.last_chunk),
            metadata=event.metadata,
        )
