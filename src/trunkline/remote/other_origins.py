"""`may_go_elsewhere`: when a request may go to another origin that the card of an agent names."""

from collections.abc import Sequence
from copy import copy
from typing import Final

from trunkline.model.calls import (
    CancelTaskRequest,
    GetTaskRequest,
    PushConfigQuery,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.protocol.operations import RequestValue
from trunkline.remote.errors import AddressRefused, PeerUnreachable, RemoteError

# Of this client itself, so another origin makes no difference.
_OWN: Final = frozenset({"CLOSED", "CIRCUIT_OPEN"})


def is_certainly_unsent(error: RemoteError) -> bool:
    return error.is_unsent or isinstance(error, AddressRefused)


def may_go_elsewhere(error: RemoteError, *, is_repeatable: bool) -> bool:
    """`is_repeatable`: the agent may get the request twice, as one with an idempotency key."""
    if error.reason in _OWN:
        return False
    return is_certainly_unsent(error) or (is_repeatable and isinstance(error, PeerUnreachable))


def failure_of(errors: Sequence[RemoteError]) -> RemoteError:
    """One error for all origins that were tried. It is unsent only if none can have got the
    request."""
    may_have_arrived = [each for each in errors if not is_certainly_unsent(each)]
    unreachable = [each for each in errors if not isinstance(each, AddressRefused)]
    chosen, *_ = may_have_arrived or unreachable or errors
    if len(errors) == 1:
        return chosen
    error = copy(chosen).with_traceback(None)
    error.message = "; ".join(dict.fromkeys(each.message for each in errors))
    return error


def task_of(value: RequestValue) -> str:
    """The task that a request is about; empty for none."""
    match value:
        case SendMessageRequest():
            return value.message.task_id
        case GetTaskRequest() | CancelTaskRequest() | SubscribeToTaskRequest():
            return value.id
        case TaskPushNotificationConfig() | PushConfigQuery():
            return value.task_id
        case _:
            return ""
