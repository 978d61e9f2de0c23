"""The objects, roles and states of A2A 0.3, in one set of structs for both its bindings.

JSON-RPC and REST differ in a handful of names. A struct here has the members of both: `v03_writing`
chooses those of one binding, and `v03_reading` accepts either.
"""

from typing import Any, Final

from msgspec import Struct, field

from trunkline.model.values import Role, TaskState

ROLES: Final = {"user": Role.USER, "agent": Role.AGENT}
STATES: Final = {
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
STATE_NAMES: Final = {state: name for name, state in STATES.items()}
# The proto of 0.3 spells one state with two Ls.
CANCELLED: Final = "TASK_STATE_CANCELLED"

ROLE_OF: Final = ROLES | {str(role): role for role in Role}
STATE_OF: Final = (
    STATES | {str(state): state for state in TaskState} | {CANCELLED: TaskState.CANCELED}
)

# Marks a value that 1.0 allows as data and 0.3 does not; a2a-sdk uses the same mark.
WRAPPED: Final = "data_part_compat"


class File(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    name: str = ""
    mime_type: str = ""
    content: bytes | None = field(default=None, name="bytes")
    uri: str | None = None
    # The names of `bytes` and `uri` in REST.
    file_with_bytes: bytes | None = None
    file_with_uri: str | None = None


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str = ""
    # The name of `kind` before 0.3; never written.
    type: Any = None
    text: str | None = None
    file: File | None = None
    # REST has one more object around it: {"data": {"data": {…}}}.
    data: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str = ""
    message_id: str
    role: str
    parts: tuple[Part, ...] = ()
    # The name of `parts` in REST.
    content: tuple[Part, ...] = ()
    context_id: str = ""
    task_id: str = ""
    reference_task_ids: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None


class Artifact(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    artifact_id: str
    name: str = ""
    description: str = ""
    parts: tuple[Part, ...]
    metadata: dict[str, Any] | None = None
    extensions: tuple[str, ...] = ()


class Status(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    state: str
    message: Message | None = None
    timestamp: str = ""


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str = ""
    id: str
    # 0.3 requires `contextId` and the flags of the updates below, so the gateway writes them even
    # if they are empty or false. Some agents leave them out.
    context_id: str | None = None
    status: Status
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[Message, ...] = ()
    metadata: dict[str, Any] | None = None


class StatusUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str = ""
    task_id: str
    context_id: str
    status: Status
    final: bool | None = None
    metadata: dict[str, Any] | None = None


class ArtifactUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str = ""
    task_id: str
    context_id: str
    artifact: Artifact
    append: bool | None = None
    last_chunk: bool | None = None
    metadata: dict[str, Any] | None = None


class Authentication(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    schemes: tuple[str, ...] = ()
    credentials: str = ""


class PushConfig(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    url: str
    id: str = ""
    token: str = ""
    authentication: Authentication | None = None


class Configuration(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    accepted_output_modes: tuple[str, ...] = ()
    blocking: bool | None = None
    history_length: int | None = None
    push_notification_config: PushConfig | None = None
    # The name of `push_notification_config` in REST.
    push_notification: PushConfig | None = None


class Send(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    message: Message
    configuration: Configuration | None = None
    metadata: dict[str, Any] | None = None


class LooseMessage(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A message whose parts may be of any kind, also of unknown kinds."""

    message_id: str = ""
    role: str
    parts: tuple[dict[str, Any], ...]
    context_id: str = ""
    task_id: str = ""
    reference_task_ids: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None


class LooseSend(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    message: LooseMessage
    configuration: Configuration | None = None
    metadata: dict[str, Any] | None = None


class RestSend(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    message: Message | None = None
    # Its name in the proto, where `message` is only the JSON name; a2a-sdk sends this one.
    request: Message | None = None
    configuration: Configuration | None = None
    metadata: dict[str, Any] | None = None


class ListTasks(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Our addition: 0.3 itself cannot list."""

    context_id: str = ""
    status: str = ""
    page_size: int | None = None
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str = ""
    include_artifacts: bool = False


class SetPushConfig(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    task_id: str
    push_notification_config: PushConfig


class PushConfigQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    push_notification_config_id: str = ""
