"""What every version of the protocol can do: requests in, answers out."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from trunkline.model.calls import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.card import AgentCard
from trunkline.model.events import Entry
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.operations import Operation
from trunkline.protocol.versions import Version


class PushConfigQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Which push configuration to get or delete, or whose to list (`id` is empty then)."""

    tenant: str = ""
    task_id: str
    id: str = ""
    page_size: int | None = None
    page_token: str = ""


RequestValue: TypeAlias = (
    SendMessageRequest
    | GetTaskRequest
    | ListTasksRequest
    | CancelTaskRequest
    | SubscribeToTaskRequest
    | GetExtendedAgentCardRequest
    | TaskPushNotificationConfig
    | PushConfigQuery
)


class Dialect(Protocol):
    """One version on one binding.

    Decoders take the JSON of the parameters and raise ParseFailed, InvalidRequest or
    InvalidParams. Encoders take the canonical JSON of the model, which is that of 1.0.
    """

    version: Version

    def decode(self, operation: Operation, params: bytes) -> RequestValue: ...
    def decode_send(self, params: bytes) -> SendMessageRequest: ...
    def decode_get(self, params: bytes) -> GetTaskRequest: ...
    def decode_list(self, params: bytes) -> ListTasksRequest: ...
    def decode_cancel(self, params: bytes) -> CancelTaskRequest: ...
    def decode_subscribe(self, params: bytes) -> SubscribeToTaskRequest: ...
    def decode_extended_card(self, params: bytes) -> GetExtendedAgentCardRequest: ...
    def decode_push(
        self, operation: Operation, params: bytes
    ) -> TaskPushNotificationConfig | PushConfigQuery: ...

    def task(self, task: bytes) -> bytes:
        """A task as the answer to get and cancel."""

    def sent_task(self, task: bytes) -> bytes:
        """A task as the answer to send."""

    def sent_message(self, message: bytes) -> bytes:
        """A message as the answer to send."""

    def event(self, entry: Entry, *, goes_on: bool = False) -> bytes:
        """A journal entry as an event of a stream, which `goes_on` after it or ends there."""

    def stream_task(self, task: bytes) -> bytes:
        """A snapshot as an event of a stream."""

    def stream_message(self, message: bytes) -> bytes:
        """A message as the only event of a stream."""

    def page(
        self, tasks: Sequence[bytes], *, next_page_token: str, page_size: int, total_size: int
    ) -> bytes: ...

    def card(self, card: AgentCard, shape: Shape = STANDARD) -> bytes: ...


# By names of their own where it counts: Python 3.11 looks members up through the metaclass.
_SENDS = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE})
_GET_TASK = Operation.GET_TASK


class Dispatching:
    """`decode` for dialects: one method per operation behind it."""

    def decode(self: Dialect, operation: Operation, params: bytes) -> RequestValue:
        # By how often they are called.
        if operation in _SENDS:
            return self.decode_send(params)
        if operation is _GET_TASK:
            return self.decode_get(params)
        match operation:
            case Operation.LIST_TASKS:
                return self.decode_list(params)
            case Operation.CANCEL_TASK:
                return self.decode_cancel(params)
            case Operation.SUBSCRIBE_TO_TASK:
                return self.decode_subscribe(params)
            case Operation.GET_EXTENDED_AGENT_CARD:
                return self.decode_extended_card(params)
            case _:
                return self.decode_push(operation, params)


def page_of(
    tasks: Sequence[bytes], *, next_page_token: bytes, page_size: int, total_size: int
) -> bytes:
    # All four members are required, so they are there when empty or zero, too.
    return b'{"tasks":[%b],"nextPageToken":%b,"pageSize":%d,"totalSize":%d}' % (
        b",".join(tasks),
        next_page_token,
        page_size,
        total_size,
    )
