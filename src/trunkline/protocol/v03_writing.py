"""`Writer03`: values of the model as objects of A2A 0.3."""

import base64
from typing import Any

from msgspec import UNSET

from trunkline.model import values
from trunkline.model.values import TERMINAL, Role, TaskState
from trunkline.protocol import v03_types as v03


class Writer03:
    """For one of the two bindings of 0.3."""

    def __init__(self, *, is_rest: bool, question_is_final: bool = True) -> None:
        self._is_rest = is_rest
        # 0.3, 7.2.2: true on the last event of the stream, which a question ends as well.
        self._final = TERMINAL | {TaskState.INPUT_REQUIRED} if question_is_final else TERMINAL
        if is_rest:
            self._roles = {role: str(role) for role in Role}
            self._states = {state: str(state) for state in TaskState}
            self._states[TaskState.CANCELED] = v03.CANCELLED
        else:
            self._roles = {role: name for name, role in v03.ROLES.items()}
            self._states = v03.STATE_NAMES

    def _kind(self, name: str) -> str:
        return "" if self._is_rest else name

    def part(self, part: values.Part) -> v03.Part:
        if part.text is not None:
            return v03.Part(kind=self._kind("text"), text=part.text, metadata=part.metadata)
        if part.data is not UNSET:
            return self._data_part(part.data, part.metadata)
        name, mime_type = part.filename, part.media_type
        if self._is_rest:
            raw = None if part.raw is None else base64.b64encode(part.raw)
            file = v03.File(
                name=name, mime_type=mime_type, file_with_bytes=raw, file_with_uri=part.url
            )
        else:
            file = v03.File(name=name, mime_type=mime_type, content=part.raw, uri=part.url)
        return v03.Part(kind=self._kind("file"), file=file, metadata=part.metadata)

    def _data_part(self, data: Any, metadata: dict[str, Any] | None) -> v03.Part:
        # 0.3, 6.5.3: data is an object.
        if not isinstance(data, dict):
            data = {"value": data}
            metadata = (metadata or {}) | {v03.WRAPPED: True}
        if self._is_rest:
            data = {"data": data}
        return v03.Part(kind=self._kind("data"), data=data, metadata=metadata)

    def message(self, message: values.Message) -> v03.Message:
        parts = tuple([self.part(part) for part in message.parts])
        return v03.Message(
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

    def artifact(self, artifact: values.Artifact) -> v03.Artifact:
        return v03.Artifact(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            parts=tuple([self.part(part) for part in artifact.parts]),
            metadata=artifact.metadata,
            extensions=artifact.extensions,
        )

    def status(self, status: values.TaskStatus) -> v03.Status:
        return v03.Status(
            state=self._states[status.state],
            message=None if status.message is None else self.message(status.message),
            timestamp=status.timestamp,
        )

    def task(self, task: values.Task) -> v03.Task:
        return v03.Task(
            kind=self._kind("task"),
            id=task.id,
            context_id=task.context_id,
            status=self.status(task.status),
            artifacts=tuple([self.artifact(artifact) for artifact in task.artifacts]),
            history=tuple([self.message(message) for message in task.history]),
            metadata=task.metadata,
        )

    def status_update(
        self, event: values.TaskStatusUpdateEvent, *, goes_on: bool = False
    ) -> v03.StatusUpdate:
        """`goes_on`: the stream does not end with it, though it may be a question."""
        state = event.status.state
        return v03.StatusUpdate(
            kind=self._kind("status-update"),
            task_id=event.task_id,
            context_id=event.context_id,
            status=self.status(event.status),
            final=state in (TERMINAL if goes_on else self._final),
            metadata=event.metadata,
        )

    def artifact_update(self, event: values.TaskArtifactUpdateEvent) -> v03.ArtifactUpdate:
        return v03.ArtifactUpdate(
            kind=self._kind("artifact-update"),
            task_id=event.task_id,
            context_id=event.context_id,
            artifact=self.artifact(event.artifact),
            append=event.append,
            last_chunk=bool(event.last_chunk),
            metadata=event.metadata,
        )
