"""A2A 1.0 on both bindings: the canonical JSON with a name around it."""

from collections.abc import Sequence
from typing import Final

import msgspec

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
from trunkline.model.errors import InvalidParams
from trunkline.model.events import (
    ARTIFACT,
    MESSAGE,
    RETRIED,
    SHOWN,
    STATUS,
    SUBMITTED,
    TASK,
    Entry,
)
from trunkline.protocol import cards, protojson
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.dialect import Dialect, Dispatching, PushConfigQuery, page_of
from trunkline.protocol.operations import Operation
from trunkline.protocol.versions import Version

# How an event begins; behind it come its JSON and a brace.
_MEMBER: Final = {
    TASK: b'{"task":',
    SUBMITTED: b'{"task":',
    STATUS: b'{"statusUpdate":',
    ARTIFACT: b'{"artifactUpdate":',
    # The public form of a further message is the status update that came with it.
    MESSAGE: b'{"statusUpdate":',
    SHOWN: b'{"statusUpdate":',
    RETRIED: b'{"statusUpdate":',
}
_encode = msgspec.json.Encoder().encode


class _V1(Dispatching):
    version = Version.V1_0

    def decode_send(self, params: bytes) -> SendMessageRequest:
        return protojson.decode(params, SendMessageRequest)

    def decode_get(self, params: bytes) -> GetTaskRequest:
        return protojson.decode(params, GetTaskRequest)

    def decode_list(self, params: bytes) -> ListTasksRequest:
        return protojson.decode(params, ListTasksRequest)

    def decode_cancel(self, params: bytes) -> CancelTaskRequest:
        return protojson.decode(params, CancelTaskRequest)

    def decode_subscribe(self, params: bytes) -> SubscribeToTaskRequest:
        return protojson.decode(params, SubscribeToTaskRequest)

    def decode_extended_card(self, params: bytes) -> GetExtendedAgentCardRequest:
        return protojson.decode(params, GetExtendedAgentCardRequest)

    def decode_push(
        self, operation: Operation, params: bytes
    ) -> TaskPushNotificationConfig | PushConfigQuery:
        if operation is Operation.CREATE_PUSH_CONFIG:
            config = protojson.decode(params, TaskPushNotificationConfig)
            if not config.task_id:
                raise InvalidParams.at("taskId", "is required")
            return config
        query = protojson.decode(params, PushConfigQuery)
        if not query.task_id:
            raise InvalidParams.at("taskId", "must not be empty")
        if operation is not Operation.LIST_PUSH_CONFIGS and not query.id:
            raise InvalidParams.at("id", "is required")
        return query

    def task(self, task: bytes) -> bytes:
        return task

    def sent_task(self, task: bytes) -> bytes:
        return b"".join((b'{"task":', task, b"}"))

    def sent_message(self, message: bytes) -> bytes:
        return b"".join((b'{"message":', message, b"}"))

    def event(self, entry: Entry, *, goes_on: bool = False) -> bytes:
        return b"".join((_MEMBER[entry.kind], entry.public_body, b"}"))

    def stream_task(self, task: bytes) -> bytes:
        return b"".join((b'{"task":', task, b"}"))

    def stream_message(self, message: bytes) -> bytes:
        return b"".join((b'{"message":', message, b"}"))

    def page(
        self, tasks: Sequence[bytes], *, next_page_token: str, page_size: int, total_size: int
    ) -> bytes:
        return page_of(
            tasks,
            next_page_token=_encode(next_page_token),
            page_size=page_size,
            total_size=total_size,
        )

    def card(self, card: AgentCard, shape: Shape = STANDARD) -> bytes:
        return cards.encode(card, "1.0")


V1: Final[Dialect] = _V1()
