"""Requests of clients: one type per A2A operation, and the `Caller`."""

from typing import Any

from msgspec import Struct

from trunkline.model.values import Canonical, Message, TaskState


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


# The principal of every caller without a credential. No key can have this name.
ANONYMOUS = "@anonymous"


class Caller(Struct, frozen=True, gc=False, kw_only=True):
    """The principal, from credentials alone, and the fields of the request beside its body."""

    principal: str
    is_anonymous: bool = False
    tenant: str = ""
    # URIs of the extensions that the client lists and the agent declares.
    extensions: tuple[str, ...] = ()
    idempotency_key: str = ""
