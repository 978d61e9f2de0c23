"""`Operation`: the operations of A2A; the request of each, its `Caller` and its `Refusal`."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from trunkline.model.errors import TooManyRequests
from trunkline.model.principal import Principal
from trunkline.model.routed_calls import CallOrigin, TaskRecord
from trunkline.model.values import Canonical, Message, TaskState


class Operation(StrEnum):
    """The value is the JSON-RPC method of 1.0 and the name of the gRPC call."""

    SEND_MESSAGE = "SendMessage"
    SEND_STREAMING_MESSAGE = "SendStreamingMessage"
    GET_TASK = "GetTask"
    LIST_TASKS = "ListTasks"
    CANCEL_TASK = "CancelTask"
    SUBSCRIBE_TO_TASK = "SubscribeToTask"
    CREATE_PUSH_CONFIG = "CreateTaskPushNotificationConfig"
    GET_PUSH_CONFIG = "GetTaskPushNotificationConfig"
    LIST_PUSH_CONFIGS = "ListTaskPushNotificationConfigs"
    DELETE_PUSH_CONFIG = "DeleteTaskPushNotificationConfig"
    GET_EXTENDED_AGENT_CARD = "GetExtendedAgentCard"


class AuthenticationInfo(Canonical, frozen=True, kw_only=True):
    scheme: str
    credentials: str = ""


class TaskPushNotificationConfig(Canonical, frozen=True, kw_only=True):
    tenant: str = ""
    id: str = ""
    task_id: str = ""
    url: str
    token: str = ""
    authentication: AuthenticationInfo | None = None


class PushConfigQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The push configuration to get or delete, or the task to list them of (`id` is empty then)."""

    tenant: str = ""
    task_id: str
    id: str = ""
    page_size: int | None = None
    page_token: str = ""


def _check_history_length(value: int | None) -> None:
    if value is not None and value < 0:
        raise ValueError("historyLength must not be negative")


class SendMessageConfiguration(Canonical, frozen=True, kw_only=True):
    accepted_output_modes: tuple[str, ...] = ()
    task_push_notification_config: TaskPushNotificationConfig | None = None
    history_length: int | None = None
    return_immediately: bool = False

    def __post_init__(self) -> None:
        _check_history_length(self.history_length)


class SendMessageRequest(Canonical, frozen=True, kw_only=True):
    tenant: str = ""
    message: Message
    configuration: SendMessageConfiguration | None = None
    metadata: dict[str, Any] | None = None


class TaskRequest(Canonical, frozen=True, kw_only=True):
    """Base of the requests about one task."""

    tenant: str = ""
    id: str

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("id must not be empty")


class GetTaskRequest(TaskRequest, frozen=True, kw_only=True):
    history_length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_history_length(self.history_length)


class ListTasksRequest(Canonical, frozen=True, kw_only=True):
    tenant: str = ""
    context_id: str = ""
    status: TaskState = TaskState.UNSPECIFIED
    page_size: int | None = None
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str = ""
    include_artifacts: bool = False

    def __post_init__(self) -> None:
        _check_history_length(self.history_length)
        if self.page_size is not None and not 1 <= self.page_size <= 100:
            raise ValueError("pageSize must be between 1 and 100")


class CancelTaskRequest(TaskRequest, frozen=True, kw_only=True):
    metadata: dict[str, Any] | None = None


class SubscribeToTaskRequest(TaskRequest, frozen=True, kw_only=True):
    """It has no further members."""


class GetExtendedAgentCardRequest(Canonical, frozen=True, kw_only=True):
    tenant: str = ""


class Caller(Struct, frozen=True, gc=False, kw_only=True):
    """The principal, and the fields of the request beside its body."""

    principal: Principal
    tenant: str = ""
    # URIs of the extensions that the client lists and the agent declares.
    extensions: tuple[str, ...] = ()
    idempotency_key: str = ""
    # The marks of the agents through which the call came, the first one first.
    call_chain: tuple[str, ...] = ()
    # The operation and the binding of the request, where they are known: for audits.
    operation: str = ""
    binding: str = ""
    # The id of the request in the wire log, if it is recorded.
    wire_id: str = ""
    # For a message of another agent of the gateway: how it came about, the handle of that agent,
    # and the record to keep with the task.
    call: CallOrigin | None = None
    asked_by: str = ""
    joins: TaskRecord | None = None


class Refusal(Struct, frozen=True):
    """The reason why a valid request is not accepted. `reason` is for programs and does not change;
    `text` is for people."""

    reason: str
    text: str
    # How long the caller should wait. The end of a turn cannot be predicted.
    retry_after_s: int = 5
    # The daily budget of the agent that is used up, for profiles whose sentence names it.
    limit: int | None = None

    def as_error(self) -> TooManyRequests:
        return TooManyRequests(self.text, retry_after_s=self.retry_after_s)
