"""`V03Dialect`: A2A 0.3 on either binding, and in the form of clients that are older than it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.calls import (
    GetExtendedAgentCardRequest,
    ListTasksRequest,
    Operation,
    PushConfigQuery,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry
from trunkline.model.values import Message, Task, TaskArtifactUpdateEvent, TaskState
from trunkline.protocol import cards, protojson
from trunkline.protocol import v03_types as v03
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.operations import Decoder
from trunkline.protocol.v03_reading import (
    Reader03,
    read_configuration,
    read_push_config,
    read_state,
)
from trunkline.protocol.v03_writing import Writer03
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version

_encode = msgspec.json.Encoder().encode
_task = msgspec.json.Decoder(Task).decode
_message = msgspec.json.Decoder(Message).decode


class V03Dialect:
    """Over JSON-RPC an object names its kind. REST, which in practice is the ProtoJSON of
    the gRPC definition, puts a name around it instead."""

    version = Version.V0_3
    streams_whole_tasks = False

    def __init__(self, reader: Reader03, writer: Writer03, *, is_legacy: bool = False) -> None:
        self.reader = reader
        self.writer = writer
        self._is_legacy = is_legacy
        # The keys of encoded events in `Entry.wire`: for the last event of a stream, and for
        # others.
        memo = "0.3-rest" if reader.is_rest else "0.3"
        self._memos = (memo, f"{memo}-on")
        self.decoders: Mapping[Operation, Decoder] = _DECODERS | {
            Operation.SEND_MESSAGE: self.decode_send,
            Operation.SEND_STREAMING_MESSAGE: self.decode_send,
        }

    def decode_send(self, params: bytes) -> SendMessageRequest:
        if not self.reader.is_rest:
            return self._send(protojson.decode(params, v03.Send))
        given = protojson.decode(params, v03.RestSend)
        message = given.message or given.request
        if message is None:
            raise InvalidParams.at("message", "is required")
        configuration = given.configuration
        if configuration is not None and configuration.blocking is None:
            # ProtoJSON leaves out a value of false, so a client that does not wait sends a
            # configuration without `blocking`.
            configuration = replace(configuration, blocking=False)
        return self._send(
            v03.Send(message=message, configuration=configuration, metadata=given.metadata)
        )

    def _send(self, request: v03.Send) -> SendMessageRequest:
        configuration = request.configuration
        return SendMessageRequest(
            message=self.reader.message(request.message, "message"),
            configuration=None if configuration is None else read_configuration(configuration),
            metadata=request.metadata,
        )

    def task(self, task: bytes) -> bytes:
        return _encode(self.writer.task(_task(task)))

    def sent_task(self, task: bytes) -> tuple[bytes, ...]:
        return (self._named(b"task", self.writer.task(_task(task))),)

    streamed_task = sent_task

    def sent_message(self, message: bytes) -> tuple[bytes, ...]:
        return (self._named(b"message", self.writer.message(_message(message))),)

    def event(self, entry: Entry, *, goes_on: bool = False) -> tuple[bytes, ...]:
        memo = self._memos[goes_on]
        body = entry.wire.get(memo)
        if body is None:
            body = entry.wire[memo] = self._event(entry, goes_on)
        return (body,)

    def _event(self, entry: Entry, goes_on: bool) -> bytes:
        event, writer = entry.public, self.writer
        if isinstance(event, Task):
            return self._named(b"task", writer.task(event))
        if isinstance(event, TaskArtifactUpdateEvent):
            return self._named(b"artifactUpdate", writer.artifact_update(event))
        return self._named(b"statusUpdate", writer.status_update(event, goes_on=goes_on))

    def _named(self, name: bytes, value: Struct) -> bytes:
        return b'{"%b":%b}' % (name, _encode(value)) if self.reader.is_rest else _encode(value)

    def page(
        self, tasks: Sequence[bytes], *, next_page_token: str, page_size: int, total_size: int
    ) -> bytes:
        # 0.3 cannot list over JSON-RPC, so the page is that of 1.0.
        return V1.page(
            [self.task(task) for task in tasks],
            next_page_token=next_page_token,
            # Older clients read the size of a page as the number of tasks on it.
            page_size=len(tasks) if self._is_legacy else page_size,
            total_size=total_size,
        )

    def card(self, card: AgentCard, shape: Shape = STANDARD) -> bytes:
        return cards.encode(card, "0.3", shape)


def read_list(request: v03.ListTasks) -> ListTasksRequest:
    status = read_state(request.status, "status") if request.status else TaskState.UNSPECIFIED
    # The conversion applies the rules for lists, which 1.0 and 0.3 share.
    tree = {name: getattr(request, name) for name in request.__struct_fields__} | {"status": status}
    return protojson.convert(tree, ListTasksRequest)


def _decode_list(params: bytes) -> ListTasksRequest:
    return read_list(protojson.decode(params, v03.ListTasks))


def _create_push_config(params: bytes) -> TaskPushNotificationConfig:
    given = protojson.decode(params, v03.SetPushConfig)
    if not given.task_id:
        raise InvalidParams.at("taskId", "must not be empty")
    config = read_push_config(given.push_notification_config, "pushNotificationConfig")
    return replace(config, task_id=given.task_id)


def _query_push_config(params: bytes, *, needs_id: bool = False) -> PushConfigQuery:
    query = protojson.decode(params, v03.PushConfigQuery)
    if not query.id:
        raise InvalidParams.at("id", "must not be empty")
    if needs_id and not query.push_notification_config_id:
        raise InvalidParams.at("pushNotificationConfigId", "is required")
    return PushConfigQuery(task_id=query.id, id=query.push_notification_config_id)


def _decode_extended_card(_: bytes) -> GetExtendedAgentCardRequest:
    # 0.3, 7.10: agent/getAuthenticatedExtendedCard has no parameters.
    return GetExtendedAgentCardRequest()


_DECODERS: Final[dict[Operation, Decoder]] = {**V1.decoders} | {
    Operation.LIST_TASKS: _decode_list,
    Operation.CREATE_PUSH_CONFIG: _create_push_config,
    # 0.3, 7.6: get without the id of a configuration means any one of the task.
    Operation.GET_PUSH_CONFIG: _query_push_config,
    Operation.LIST_PUSH_CONFIGS: _query_push_config,
    Operation.DELETE_PUSH_CONFIG: partial(_query_push_config, needs_id=True),
    Operation.GET_EXTENDED_AGENT_CARD: _decode_extended_card,
}

V03: Final = V03Dialect(Reader03(is_rest=False, requires_kind=True), Writer03(is_rest=False))
V03_REST: Final = V03Dialect(Reader03(is_rest=True), Writer03(is_rest=True))
