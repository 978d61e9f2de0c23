import json

import msgspec
import pytest
from a2a.types import a2a_pb2
from hypothesis import given
from tests.unit.protocol import reference as proto
from tests.unit.protocol.strategies import (
    artifact_updates,
    few,
    messages,
    status_updates,
    tasks,
)

from trunkline.model.calls import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    PushConfigQuery,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry, MessageAccepted
from trunkline.model.values import (
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version

encode = msgspec.json.encode


def same_as_reference(raw: bytes, reference: object) -> None:
    """The reference reads what we wrote, unknown fields refused, and writes the same."""
    assert proto.write(proto.read(raw, reference)) == json.loads(raw)


@few
@given(tasks())
def test_tasks_are_those_of_the_reference(task: Task) -> None:
    raw = encode(task)
    same_as_reference(V1.task(raw), a2a_pb2.Task())
    same_as_reference(b"".join(V1.sent_task(raw)), a2a_pb2.SendMessageResponse())
    same_as_reference(b"".join(V1.sent_task(raw)), a2a_pb2.StreamResponse())
    same_as_reference(b"".join(V1.event(Entry.of(1, task))), a2a_pb2.StreamResponse())


@few
@given(messages())
def test_messages_are_those_of_the_reference(message: Message) -> None:
    raw = encode(message)
    same_as_reference(b"".join(V1.sent_message(raw)), a2a_pb2.SendMessageResponse())
    same_as_reference(b"".join(V1.sent_message(raw)), a2a_pb2.StreamResponse())
    request = SendMessageRequest(message=message)
    same_as_reference(encode(request), a2a_pb2.SendMessageRequest())
    assert V1.decoders[Operation.SEND_MESSAGE](encode(request)) == request
    assert V1.decoders[Operation.SEND_STREAMING_MESSAGE](encode(request)) == request


@few
@given(status_updates(), messages())
def test_status_updates_are_those_of_the_reference(
    event: TaskStatusUpdateEvent, message: Message
) -> None:
    written = b"".join(V1.event(Entry.of(1, event)))
    same_as_reference(written, a2a_pb2.StreamResponse())
    # A further message is seen from outside as the status update that came with it.
    accepted = MessageAccepted(message=message, status_update=event)
    assert b"".join(V1.event(Entry.of(1, accepted))) == written


@few
@given(artifact_updates())
def test_artifact_updates_are_those_of_the_reference(event: TaskArtifactUpdateEvent) -> None:
    same_as_reference(b"".join(V1.event(Entry.of(1, event))), a2a_pb2.StreamResponse())


def test_a_page_has_all_its_members_even_when_empty() -> None:
    assert json.loads(V1.page([], next_page_token="", page_size=50, total_size=0)) == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }
    page = V1.page([b'{"id":"a"}', b'{"id":"b"}'], next_page_token='"x', page_size=2, total_size=9)
    assert json.loads(page)["tasks"] == [{"id": "a"}, {"id": "b"}]
    assert json.loads(page)["nextPageToken"] == '"x'


@pytest.mark.parametrize(
    ("operation", "params", "value"),
    [
        (Operation.GET_TASK, b'{"id":"t","tenant":"x"}', GetTaskRequest(id="t", tenant="x")),
        (Operation.LIST_TASKS, b"{}", ListTasksRequest()),
        (
            Operation.CANCEL_TASK,
            b'{"id":"t","metadata":{"a":1}}',
            CancelTaskRequest(id="t", metadata={"a": 1}),
        ),
        (Operation.SUBSCRIBE_TO_TASK, b'{"id":"t"}', SubscribeToTaskRequest(id="t")),
        (Operation.GET_EXTENDED_AGENT_CARD, b"{}", GetExtendedAgentCardRequest()),
        (
            Operation.CREATE_PUSH_CONFIG,
            b'{"taskId":"t","url":"u"}',
            TaskPushNotificationConfig(task_id="t", url="u"),
        ),
        (
            Operation.GET_PUSH_CONFIG,
            b'{"task_id":"t","id":"c"}',
            PushConfigQuery(task_id="t", id="c"),
        ),
        (Operation.LIST_PUSH_CONFIGS, b'{"taskId":"t"}', PushConfigQuery(task_id="t")),
        (
            Operation.DELETE_PUSH_CONFIG,
            b'{"taskId":"t","id":"c"}',
            PushConfigQuery(task_id="t", id="c"),
        ),
    ],
)
def test_every_operation_decodes(operation: Operation, params: bytes, value: object) -> None:
    assert V1.decoders[operation](params) == value


@pytest.mark.parametrize(
    ("operation", "params", "text"),
    [
        (Operation.CREATE_PUSH_CONFIG, b'{"url":"u"}', "taskId: is required"),
        (Operation.GET_PUSH_CONFIG, b'{"taskId":""}', "taskId: must not be empty"),
        (Operation.GET_PUSH_CONFIG, b'{"taskId":"t"}', "id: is required"),
        (Operation.DELETE_PUSH_CONFIG, b'{"taskId":"t"}', "id: is required"),
    ],
)
def test_push_requests_need_their_ids(operation: Operation, params: bytes, text: str) -> None:
    with pytest.raises(InvalidParams, match=text):
        V1.decoders[operation](params)


def test_the_version() -> None:
    assert V1.version is Version.V1_0
