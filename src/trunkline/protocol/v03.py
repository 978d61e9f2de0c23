"""A2A 0.3 over JSON-RPC: objects that say of what kind they are."""

from collections.abc import Sequence
from typing import Final

import msgspec
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
from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry
from trunkline.model.values import Message, Task, TaskArtifactUpdateEvent, TaskState
from trunkline.protocol import cards, protojson
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.dialect import Dialect, Dispatching, PushConfigQuery, page_of
from trunkline.protocol.operations import Operation
from trunkline.protocol.v03_reading import (
    Reader03,
    push_config_for,
    read_configuration,
    read_push_config,
    read_state,
)
from trunkline.protocol.v03_types import List03, PushConfigQuery03, Send03, SetPushConfig03
from trunkline.protocol.v03_writing import Writer03
from trunkline.protocol.versions import Version

_encode = msgspec.json.Encoder().encode
_task = msgspec.json.Decoder(Task).decode
_message = msgspec.json.Decoder(Message).decode


class V03Dialect(Dispatching):
    version = Version.V0_3

    def __init__(self, memo: str, reader: Reader03, writer: Writer03) -> None:
        # Under which names an encoded event is kept at its entry: the last of a stream, or not.
        self._memos = (memo, f"{memo}-on")
        self.reader = reader
        self.writer = writer

    def decode_send(self, params: bytes) -> SendMessageRequest:
        return self._send(protojson.decode(params, Send03))

    def _send(self, request: Send03) -> SendMessageRequest:
        configuration = request.configuration
        return SendMessageRequest(
            message=self.reader.message(request.message, "message"),
            configuration=None if configuration is None else read_configuration(configuration),
            metadata=request.metadata,
        )

    def decode_get(self, params: bytes) -> GetTaskRequest:
        return protojson.decode(params, GetTaskRequest)

    def decode_list(self, params: bytes) -> ListTasksRequest:
        return read_list(protojson.decode(params, List03))

    def decode_cancel(self, params: bytes) -> CancelTaskRequest:
        return protojson.decode(params, CancelTaskRequest)

    def decode_subscribe(self, params: bytes) -> SubscribeToTaskRequest:
        return protojson.decode(params, SubscribeToTaskRequest)

    def decode_extended_card(self, params: bytes) -> GetExtendedAgentCardRequest:
        return GetExtendedAgentCardRequest()

    def decode_push(
        self, operation: Operation, params: bytes
    ) -> TaskPushNotificationConfig | PushConfigQuery:
        if operation is Operation.CREATE_PUSH_CONFIG:
            given = protojson.decode(params, SetPushConfig03)
            if not given.task_id:
                raise InvalidParams.at("taskId", "must not be empty")
            config = read_push_config(given.push_notification_config, "pushNotificationConfig")
            return push_config_for(given.task_id, config)
        query = protojson.decode(params, PushConfigQuery03)
        if not query.id:
            raise InvalidParams.at("id", "must not be empty")
        # 0.3: get without the id of a configuration means any one of the task.
        if operation is Operation.DELETE_PUSH_CONFIG and not query.push_notification_config_id:
            raise InvalidParams.at("pushNotificationConfigId", "is required")
        return PushConfigQuery(task_id=query.id, id=query.push_notification_config_id)

    def task(self, task: bytes) -> bytes:
        return _encode(self.writer.task(_task(task)))

    def sent_task(self, task: bytes) -> bytes:
        return self.task(task)

    def sent_message(self, message: bytes) -> bytes:
        return _encode(self.writer.message(_message(message)))

    def event(self, entry: Entry, *, goes_on: bool = False) -> bytes:
        memo = self._memos[goes_on]
        body = entry.wire.get(memo)
        if body is None:
            body = entry.wire[memo] = self._event(entry, goes_on)
        return body

    def _event(self, entry: Entry, goes_on: bool) -> bytes:
        event, writer = entry.public, self.writer
        if isinstance(event, Task):
            return self._named("task", writer.task(event))
        if isinstance(event, TaskArtifactUpdateEvent):
            return self._named("artifactUpdate", writer.artifact_update(event))
        return self._named("statusUpdate", writer.status_update(event, goes_on=goes_on))

    def _named(self, name: str, value: Struct) -> bytes:
        """The event as the binding wraps it; over JSON-RPC its kind is inside."""
        return _encode(value)

    def stream_task(self, task: bytes) -> bytes:
        return self.sent_task(task)

    def stream_message(self, message: bytes) -> bytes:
        return self.sent_message(message)

    def page(
        self, tasks: Sequence[bytes], *, next_page_token: str, page_size: int, total_size: int
    ) -> bytes:
        return page_of(
            [self.task(task) for task in tasks],
            next_page_token=_encode(next_page_token),
            page_size=page_size,
            total_size=total_size,
        )

    def card(self, card: AgentCard, shape: Shape = STANDARD) -> bytes:
        return cards.encode(card, "0.3", shape)


def read_list(request: List03) -> ListTasksRequest:
    status = read_state(request.status, "status") if request.status else TaskState.UNSPECIFIED
    # Through the tree once more, so that the rules for lists are stated in one place.
    tree = {name: getattr(request, name) for name in request.__struct_fields__} | {"status": status}
    return protojson.convert(tree, ListTasksRequest)


V03: Final[Dialect] = V03Dialect(
    "0.3", Reader03(is_rest=False, requires_kind=True), Writer03(is_rest=False)
)
