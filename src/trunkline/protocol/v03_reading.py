"""`Reader03`: objects of A2A 0.3 as values of the model. InvalidParams names the field at fault."""

import base64
import binascii
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from trunkline.model import values
from trunkline.model.calls import (
    AuthenticationInfo,
    SendMessageConfiguration,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import InvalidParams
from trunkline.protocol import v03_types as v03
from trunkline.protocol.protojson import check_int32
from trunkline.protocol.protojson_fields import join, quote

A = TypeVar("A")
B = TypeVar("B")


class Reader03(Struct, frozen=True, kw_only=True):
    """For one of the two bindings of 0.3."""

    is_rest: bool
    # A part may say `type` in place of `kind`.
    is_legacy: bool = False
    # A part must say its kind, as 0.3 demands over JSON-RPC. Some agents leave it out of answers.
    requires_kind: bool = False

    def part(self, part: v03.Part, path: str) -> values.Part:
        if (part.text is not None) + (part.file is not None) + (part.data is not None) != 1:
            raise InvalidParams.at(path, "a part holds exactly one of text, file and data")
        if part.text is not None:
            self._check_kind(part, "text", path)
            return values.Part(text=part.text, metadata=part.metadata)
        if part.file is not None:
            self._check_kind(part, "file", path)
            return _file(part.file, part.metadata, join(path, "file"))
        self._check_kind(part, "data", path)
        return self._data(part)

    def _check_kind(self, part: v03.Part, kind: str, path: str) -> None:
        if part.kind:
            _check_kind(part.kind, kind, join(path, "kind"))
        elif self.requires_kind:
            raise InvalidParams.at(join(path, "kind"), f'is required; here it is "{kind}"')
        elif self.is_legacy and part.type is not None:
            _check_kind(str(part.type), kind, join(path, "type"))

    def _data(self, part: v03.Part) -> values.Part:
        data: dict[str, Any] = part.data or {}
        # A REST client that sends the shapes of JSON-RPC names the kind, and does not wrap the
        # data.
        if self.is_rest and not part.kind and isinstance(data.get("data"), dict):
            data = data["data"]
        metadata = part.metadata
        if metadata and metadata.get(v03.WRAPPED) is True and "value" in data:
            metadata = {key: value for key, value in metadata.items() if key != v03.WRAPPED} or None
            return values.Part(data=data["value"], metadata=metadata)
        return values.Part(data=data, metadata=metadata)

    def message(self, message: v03.Message, path: str) -> values.Message:
        name = "content" if message.content else "parts"
        if message.content and message.parts:
            raise InvalidParams.at(path, "has parts and content; send one of them")
        parts = message.content or message.parts
        if self.requires_kind and message.kind not in ("", "message"):
            why = f'is {quote(message.kind)}, but here it must be "message"'
            raise InvalidParams.at(join(path, "kind"), why)
        if not message.message_id:
            raise InvalidParams.at(join(path, "messageId"), "must not be empty")
        if not parts:
            where = join(path, "content" if self.is_rest else "parts")
            raise InvalidParams.at(where, "must hold at least one part")
        return values.Message(
            message_id=message.message_id,
            context_id=message.context_id,
            task_id=message.task_id,
            role=read_role(message.role, join(path, "role")),
            parts=_each(self.part, parts, join(path, name)),
            metadata=message.metadata,
            extensions=message.extensions,
            reference_task_ids=message.reference_task_ids,
        )

    def artifact(self, artifact: v03.Artifact, path: str) -> values.Artifact:
        if not artifact.artifact_id:
            raise InvalidParams.at(join(path, "artifactId"), "must not be empty")
        return values.Artifact(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            parts=_each(self.part, artifact.parts, join(path, "parts")),
            metadata=artifact.metadata,
            extensions=artifact.extensions,
        )

    def status(self, status: v03.Status, path: str) -> values.TaskStatus:
        message = status.message
        return values.TaskStatus(
            state=read_state(status.state, join(path, "state")),
            message=None if message is None else self.message(message, join(path, "message")),
            timestamp=status.timestamp,
        )

    def task(self, task: v03.Task, path: str = "") -> values.Task:
        return values.Task(
            id=task.id,
            context_id=task.context_id or "",
            status=self.status(task.status, join(path, "status")),
            artifacts=_each(self.artifact, task.artifacts, join(path, "artifacts")),
            history=_each(self.message, task.history, join(path, "history")),
            metadata=task.metadata,
        )

    def status_update(self, event: v03.StatusUpdate) -> values.TaskStatusUpdateEvent:
        return values.TaskStatusUpdateEvent(
            task_id=event.task_id,
            context_id=event.context_id,
            status=self.status(event.status, "status"),
            metadata=event.metadata,
        )

    def artifact_update(self, event: v03.ArtifactUpdate) -> values.TaskArtifactUpdateEvent:
        return values.TaskArtifactUpdateEvent(
            task_id=event.task_id,
            context_id=event.context_id,
            artifact=self.artifact(event.artifact, "artifact"),
            append=bool(event.append),
            last_chunk=event.last_chunk or None,
            metadata=event.metadata,
        )


def _each(read: Callable[[A, str], B], items: tuple[A, ...], path: str) -> tuple[B, ...]:
    return tuple([read(item, f"{path}[{index}]") for index, item in enumerate(items)])


def read_role(name: str, path: str) -> values.Role:
    role = v03.ROLE_OF.get(name)
    if role is None:
        raise InvalidParams.at(path, f"unknown value {quote(name)}; one of {', '.join(v03.ROLES)}")
    return role


def read_state(name: str, path: str) -> values.TaskState:
    state = v03.STATE_OF.get(name)
    if state is None:
        raise InvalidParams.at(path, f"unknown value {quote(name)}; one of {', '.join(v03.STATES)}")
    return state


def _check_kind(said: str, kind: str, path: str) -> None:
    if said != kind:
        why = f"is {quote(said)}, but the part holds {kind}"
        if said not in ("text", "file", "data"):
            why = f"unknown value {quote(said)}; one of text, file, data"
        raise InvalidParams.at(path, why)


def _file(file: v03.File, metadata: dict[str, Any] | None, path: str) -> values.Part:
    contents = (file.content, file.file_with_bytes, file.uri, file.file_with_uri)
    if sum(content is not None for content in contents) != 1:
        raise InvalidParams.at(path, "a file holds exactly one of bytes and uri")
    raw = file.content
    if file.file_with_bytes is not None:
        raw = _unwrapped_bytes(file.file_with_bytes)
    return values.Part(
        raw=raw,
        url=file.file_with_uri if file.uri is None else file.uri,
        metadata=metadata,
        filename=file.name,
        media_type=file.mime_type,
    )


def _unwrapped_bytes(content: bytes) -> bytes:
    # a2a-sdk puts the base64 text of 0.3 where the proto has the bytes themselves, so its clients
    # send and expect text that is encoded twice. Content that is not base64 stays as it is.
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        return content


def read_push_config(config: v03.PushConfig, path: str) -> TaskPushNotificationConfig:
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


def read_configuration(configuration: v03.Configuration) -> SendMessageConfiguration:
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
        task_push_notification_config=None if push is None else read_push_config(push, path),
        history_length=length,
        # 0.3 leaves the default open; 1.0 (3.2.2) and a2a-sdk wait.
        return_immediately=configuration.blocking is False,
    )
