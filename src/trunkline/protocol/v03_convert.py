"""Between the values of the model and the shapes of A2A 0.3."""

import base64
import binascii
from typing import Any, Final

from msgspec import UNSET, structs

from trunkline.model.calls import (
    AuthenticationInfo,
    SendMessageConfiguration,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import InvalidParams
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
from trunkline.protocol.protojson import check_int32
from trunkline.protocol.readers import join, quote
from trunkline.protocol.v03_types import (
    Artifact03,
    ArtifactUpdate03,
    Configuration03,
    File03,
    Message03,
    Part03,
    PushConfig03,
    Status03,
    StatusUpdate03,
    Task03,
)

_ROLES: Final = {"user": Role.USER, "agent": Role.AGENT}
_STATES: Final = {
    "submitted": TaskState.SUBMITTED,
    "working": TaskState.WORKING,
    "input-required": TaskState.INPUT_REQUIRED,
    "completed": TaskState.COMPLETED,
    "canceled": TaskState.CANCELED,
    "failed": TaskState.FAILED,
    "rejected": TaskState.REJECTED,
    "auth-required": TaskState.AUTH_REQUIRED,
    "unknown": TaskState.UNSPECIFIED,
}
STATE_NAMES: Final = {state: name for name, state in _STATES.items()}
# The proto of 0.3 spells one state with two Ls.
_CANCELLED: Final = "TASK_STATE_CANCELLED"

_ROLE_IN: Final = _ROLES | {str(role): role for role in Role}
_STATE_IN: Final = (
    _STATES | {str(state): state for state in TaskState} | {_CANCELLED: TaskState.CANCELED}
)

# Marks a value that 1.0 allows as data and 0.3 does not; a2a-sdk uses the same mark.
_WRAPPED: Final = "data_part_compat"


class Converter:
    """Between both worlds, for one of the two bindings of 0.3."""

    def __init__(
        self, *, is_rest: bool, is_legacy: bool = False, question_is_final: bool = True
    ) -> None:
        """`is_legacy`: a part may say `type` in place of `kind`."""
        self._is_rest = is_rest
        self._is_legacy = is_legacy
        # 0.3: true on the last event of the stream, which a question ends as well.
        self._final = TERMINAL | {TaskState.INPUT_REQUIRED} if question_is_final else TERMINAL
        if is_rest:
            self._roles = {role: str(role) for role in Role}
            self._states = {state: str(state) for state in TaskState}
            self._states[TaskState.CANCELED] = _CANCELLED
        else:
            self._roles = {role: name for name, role in _ROLES.items()}
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
        # 0.3: data is an object.
        if not isinstance(data, dict):
            data = {"value": data}
            metadata = (metadata or {}) | {_WRAPPED: True}
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
            # The proto of 0.3 does not have it, and its parsers refuse what they do not know.
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

    def status_update(self, event: TaskStatusUpdateEvent) -> StatusUpdate03:
        state = event.status.state
        return StatusUpdate03(
            kind=self._kind("status-update"),
            task_id=event.task_id,
            context_id=event.context_id,
            status=self.status(event.status),
            final=state in self._final,
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

    def core_part(self, part: Part03, path: str) -> Part:
        if (part.text is not None) + (part.file is not None) + (part.data is not None) != 1:
            raise InvalidParams.at(path, "a part holds exactly one of text, file and data")
        if part.text is not None:
            self._check_kind(part, "text", path)
            return Part(text=part.text, metadata=part.metadata)
        if part.file is not None:
            self._check_kind(part, "file", path)
            return _core_file(part.file, part.metadata, join(path, "file"))
        self._check_kind(part, "data", path)
        return self._core_data(part)

    def _check_kind(self, part: Part03, kind: str, path: str) -> None:
        # The kind may be left out; the member that is there tells it.
        if part.kind:
            _check_kind(part.kind, kind, join(path, "kind"))
        elif self._is_legacy and part.type is not None:
            _check_kind(str(part.type), kind, join(path, "type"))

    def _core_data(self, part: Part03) -> Part:
        data: dict[str, Any] = part.data or {}
        # A client of the REST binding that writes the shapes of JSON-RPC names the kind.
        if self._is_rest and not part.kind and isinstance(data.get("data"), dict):
            data = data["data"]
        metadata = part.metadata
        if metadata and metadata.get(_WRAPPED) is True and "value" in data:
            metadata = {key: value for key, value in metadata.items() if key != _WRAPPED} or None
            return Part(data=data["value"], metadata=metadata)
        return Part(data=data, metadata=metadata)

    def core_message(self, message: Message03, path: str) -> Message:
        name = "content" if message.content else "parts"
        if message.content and message.parts:
            raise InvalidParams.at(path, "has parts and content; send one of them")
        parts = message.content or message.parts
        if not message.message_id:
            raise InvalidParams.at(join(path, "messageId"), "must not be empty")
        if not parts:
            where = join(path, "content" if self._is_rest else "parts")
            raise InvalidParams.at(where, "must hold at least one part")
        return Message(
            message_id=message.message_id,
            context_id=message.context_id,
            task_id=message.task_id,
            role=core_role(message.role, join(path, "role")),
            parts=tuple(
                [
                    self.core_part(part, f"{join(path, name)}[{index}]")
                    for index, part in enumerate(parts)
                ]
            ),
            metadata=message.metadata,
            extensions=message.extensions,
            reference_task_ids=message.reference_task_ids,
        )

    def core_artifact(self, artifact: Artifact03, path: str) -> Artifact:
        if not artifact.artifact_id:
            raise InvalidParams.at(join(path, "artifactId"), "must not be empty")
        return Artifact(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            parts=tuple(
                [
                    self.core_part(part, f"{join(path, 'parts')}[{index}]")
                    for index, part in enumerate(artifact.parts)
                ]
            ),
            metadata=artifact.metadata,
            extensions=artifact.extensions,
        )

    def core_status(self, status: Status03, path: str) -> TaskStatus:
        message = status.message
        return TaskStatus(
            state=core_state(status.state, join(path, "state")),
            message=None if message is None else self.core_message(message, join(path, "message")),
            timestamp=status.timestamp,
        )

    def core_task(self, task: Task03, path: str = "") -> Task:
        return Task(
            id=task.id,
            context_id=task.context_id or "",
            status=self.core_status(task.status, join(path, "status")),
            artifacts=tuple(
                [
                    self.core_artifact(artifact, f"{join(path, 'artifacts')}[{index}]")
                    for index, artifact in enumerate(task.artifacts)
                ]
            ),
            history=tuple(
                [
                    self.core_message(message, f"{join(path, 'history')}[{index}]")
                    for index, message in enumerate(task.history)
                ]
            ),
            metadata=task.metadata,
        )

    def core_status_update(self, event: StatusUpdate03, path: str = "") -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(
            task_id=event.task_id,
            context_id=event.context_id,
            status=self.core_status(event.status, join(path, "status")),
            metadata=event.metadata,
        )

    def core_artifact_update(
        self, event: ArtifactUpdate03, path: str = ""
    ) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=event.task_id,
            context_id=event.context_id,
            artifact=self.core_artifact(event.artifact, join(path, "artifact")),
            append=bool(event.append),
            last_chunk=event.last_chunk or None,
            metadata=event.metadata,
        )


class TerseConverter(Converter):
    """Leaves `append` and `lastChunk` out where they say nothing, as OpenClaw's channel does."""

    def artifact_update(self, event: TaskArtifactUpdateEvent) -> ArtifactUpdate03:
        whole = super().artifact_update(event)
        return structs.replace(whole, append=event.append or None, last_chunk=event.last_chunk)


def core_role(name: str, path: str) -> Role:
    role = _ROLE_IN.get(name)
    if role is None:
        raise InvalidParams.at(path, f"unknown value {quote(name)}; one of {', '.join(_ROLES)}")
    return role


def core_state(name: str, path: str) -> TaskState:
    state = _STATE_IN.get(name)
    if state is None:
        raise InvalidParams.at(path, f"unknown value {quote(name)}; one of {', '.join(_STATES)}")
    return state


def _check_kind(said: str, kind: str, path: str) -> None:
    if said != kind:
        why = f"is {quote(said)}, but the part holds {kind}"
        if said not in ("text", "file", "data"):
            why = f"unknown value {quote(said)}; one of text, file, data"
        raise InvalidParams.at(path, why)


def _core_file(file: File03, metadata: dict[str, Any] | None, path: str) -> Part:
    contents = (file.content, file.file_with_bytes, file.uri, file.file_with_uri)
    if sum(content is not None for content in contents) != 1:
        raise InvalidParams.at(path, "a file holds exactly one of bytes and uri")
    raw = file.content
    if file.file_with_bytes is not None:
        raw = _unwrapped_bytes(file.file_with_bytes)
    return Part(
        raw=raw,
        url=file.file_with_uri if file.uri is None else file.uri,
        metadata=metadata,
        filename=file.name,
        media_type=file.mime_type,
    )


def _unwrapped_bytes(content: bytes) -> bytes:
    # a2a-sdk puts the base64 text of 0.3 where the proto has the bytes themselves, so
    # what its clients send and expect is encoded twice. Anything else is left as it is.
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        return content


def core_push_config(config: PushConfig03, path: str) -> TaskPushNotificationConfig:
    if not config.url:
        raise InvalidParams.at(join(path, "url"), "must not be empty")
    given = config.authentication
    authentication = None
    if given is not None and (given.schemes or given.credentials):
        if not given.schemes or not given.schemes[0]:
            where = join(path, "authentication.schemes")
            raise InvalidParams.at(where, "must hold at least one scheme")
        # 0.3 lists the schemes that the receiver takes, 1.0 names one: the first is preferred.
        authentication = AuthenticationInfo(scheme=given.schemes[0], credentials=given.credentials)
    return TaskPushNotificationConfig(
        id=config.id, url=config.url, token=config.token, authentication=authentication
    )


def core_configuration(configuration: Configuration03) -> SendMessageConfiguration:
    push = configuration.push_notification_config
    path = "configuration.pushNotificationConfig"
    if push is None:
        push, path = configuration.push_notification, "configuration.pushNotification"
    length = configuration.history_length
    check_int32(length, "configuration.historyLength")
    if length is not None and length < 0:
        raise InvalidParams.at("configuration.historyLength", "must not be negative")
    return SendMessageConfiguration(
        accepted_output_modes=configuration.accepted_output_modes,
        task_push_notification_config=None if push is None else core_push_config(push, path),
        history_length=length,
        # 0.3 leaves the default open; to wait is what 1.0 says and what a2a-sdk does.
        return_immediately=configuration.blocking is False,
    )


def push_config_for(task_id: str, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
    return structs.replace(config, task_id=task_id)
