import json
from typing import Any

import msgspec
import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as types_03
from a2a.types import a2a_pb2
from hypothesis import given
from tests.unit.protocol import reference as proto
from tests.unit.protocol.strategies import (
    artifact_updates,
    few,
    messages,
    parts_03,
    status_updates,
    tasks,
)

from trunkline.model.calls import (
    AuthenticationInfo,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    PushConfigQuery,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry
from trunkline.model.profile import Profile
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.dialects import v03_dialect
from trunkline.protocol.v03 import V03
from trunkline.protocol.versions import Version

encode = msgspec.json.encode

OK: dict[str, Any] = {
    "kind": "message",
    "messageId": "m",
    "role": "user",
    "parts": [{"kind": "text", "text": "hi"}],
}


def send(**members: Any) -> bytes:
    return json.dumps({"message": OK | members}).encode()


def dump(value: Any) -> Any:
    return json.loads(value.model_dump_json(by_alias=True, exclude_none=True))


@few
@given(tasks())
def test_tasks_are_those_of_the_reference(task: Task) -> None:
    raw = encode(task)
    reference = conversions.to_compat_task(proto.read(raw, a2a_pb2.Task()))
    written = V03.task(raw)
    assert types_03.Task.model_validate_json(written) == reference
    assert b"".join(V03.sent_task(raw)) == b"".join(V03.sent_task(raw)) == written
    assert b"".join(V03.event(Entry.of(1, task))) == written


@few
@given(messages())
def test_messages_are_those_of_the_reference(message: Message) -> None:
    raw = encode(message)
    reference = conversions.to_compat_message(proto.read(raw, a2a_pb2.Message()))
    assert types_03.Message.model_validate_json(b"".join(V03.sent_message(raw))) == reference
    assert b"".join(V03.sent_message(raw)) == b"".join(V03.sent_message(raw))


@few
@given(status_updates())
def test_status_updates_are_those_of_the_reference(event: TaskStatusUpdateEvent) -> None:
    core = proto.read(encode(event), a2a_pb2.TaskStatusUpdateEvent())
    reference = conversions.to_compat_task_status_update_event(core)
    # The reference forgets that a question ends the stream as well.
    if event.status.state is TaskState.INPUT_REQUIRED:
        reference.final = True
    written = b"".join(V03.event(Entry.of(1, event)))
    assert types_03.TaskStatusUpdateEvent.model_validate_json(written) == reference
    assert json.loads(written)["final"] is reference.final


@few
@given(artifact_updates())
def test_artifact_updates_are_those_of_the_reference(event: TaskArtifactUpdateEvent) -> None:
    core = proto.read(encode(event), a2a_pb2.TaskArtifactUpdateEvent())
    reference = conversions.to_compat_task_artifact_update_event(core)
    written = b"".join(V03.event(Entry.of(1, event)))
    assert types_03.TaskArtifactUpdateEvent.model_validate_json(written) == reference


@few
@given(messages(parts_03))
def test_what_is_written_is_read(message: Message) -> None:
    raw = b'{"message":%b}' % b"".join(V03.sent_message(encode(message)))
    assert V03.decode_send(raw).message == message


@few
@given(messages(parts_03))
def test_what_the_reference_writes_is_read(message: Message) -> None:
    compat = conversions.to_compat_message(proto.read(encode(message), a2a_pb2.Message()))
    assert V03.decode_send(json.dumps({"message": dump(compat)}).encode()).message == message


@pytest.mark.parametrize(
    ("state", "final"),
    [
        (TaskState.SUBMITTED, False),
        (TaskState.WORKING, False),
        (TaskState.AUTH_REQUIRED, False),
        (TaskState.INPUT_REQUIRED, True),
        (TaskState.COMPLETED, True),
        (TaskState.FAILED, True),
        (TaskState.CANCELED, True),
        (TaskState.REJECTED, True),
    ],
)
def test_final_is_on_the_last_event_of_a_stream(state: TaskState, final: bool) -> None:
    event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))
    assert json.loads(b"".join(V03.event(Entry.of(1, event))))["final"] is final


@pytest.mark.parametrize(
    ("state", "final"), [(TaskState.INPUT_REQUIRED, False), (TaskState.COMPLETED, True)]
)
def test_a_question_is_final_only_where_the_stream_ends(state: TaskState, final: bool) -> None:
    event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))
    entry = Entry.of(1, event)
    # Whatever somebody else was told of it before.
    assert json.loads(b"".join(V03.event(entry)))["final"] is True
    assert json.loads(b"".join(V03.event(entry, goes_on=True)))["final"] is final


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_event_is_converted_once(goes_on: bool) -> None:
    entry = Entry.of(1, Task(id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING)))
    assert b"".join(V03.event(entry, goes_on=goes_on)) is b"".join(
        V03.event(entry, goes_on=goes_on)
    )


def test_a_whole_number_stays_one() -> None:
    message = Message(message_id="m", role=Role.AGENT, parts=(Part(data={"n": 42}),))
    assert b'{"n":42}' in b"".join(V03.sent_message(encode(message)))


def test_a_page_holds_tasks_of_this_version() -> None:
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.CANCELED))
    page = json.loads(V03.page([encode(task)], next_page_token="n", page_size=1, total_size=2))
    assert page == {
        "tasks": [{"kind": "task", "id": "t", "contextId": "c", "status": {"state": "canceled"}}],
        "nextPageToken": "n",
        "pageSize": 1,
        "totalSize": 2,
    }


@pytest.mark.parametrize(("blocking", "immediately"), [(None, False), (True, False), (False, True)])
def test_blocking_is_the_inverse_and_the_default(blocking: bool | None, immediately: bool) -> None:
    raw = json.dumps({"message": OK, "configuration": {"blocking": blocking}}).encode()
    configuration = V03.decode_send(raw).configuration
    assert configuration is not None
    assert configuration.return_immediately is immediately


def test_a_configuration_is_converted() -> None:
    raw = json.dumps(
        {
            "message": OK,
            "metadata": {"a": 1},
            "configuration": {
                "acceptedOutputModes": ["text/plain"],
                "historyLength": 0,
                "pushNotificationConfig": {
                    "url": "u",
                    "id": "i",
                    "token": "t",
                    "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "c"},
                },
            },
        }
    ).encode()
    request = V03.decode_send(raw)
    assert request.metadata == {"a": 1}
    assert request.configuration is not None
    assert request.configuration.accepted_output_modes == ("text/plain",)
    assert request.configuration.history_length == 0
    assert request.configuration.task_push_notification_config == TaskPushNotificationConfig(
        url="u",
        id="i",
        token="t",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="c"),
    )


def test_authentication_without_content_is_none() -> None:
    push = {"url": "u", "authentication": {"schemes": []}}
    raw = {"message": OK, "configuration": {"pushNotificationConfig": push}}
    configuration = V03.decode_send(json.dumps(raw).encode()).configuration
    assert configuration is not None
    assert configuration.task_push_notification_config == TaskPushNotificationConfig(url="u")


def configured(**members: Any) -> bytes:
    return json.dumps({"message": OK, "configuration": members}).encode()


@pytest.mark.parametrize(
    ("raw", "field", "description"),
    [
        (b"{}", "message", "is required"),
        (send(messageId=""), "message.messageId", "must not be empty"),
        (send(messageId=1), "message.messageId", "must be a string, got a number"),
        (send(role=None), "message.role", "is required"),
        (send(role="system"), "message.role", 'unknown value "system"; one of user, agent'),
        (send(parts=[]), "message.parts", "must hold at least one part"),
        (
            send(content=[{"text": "x"}]),
            "message",
            "has parts and content; send one of them",
        ),
        (
            send(parts=[{"kind": "text"}]),
            "message.parts[0]",
            "a part holds exactly one of text, file and data",
        ),
        (
            send(parts=[{"kind": "text", "text": "a", "data": {}}]),
            "message.parts[0]",
            "a part holds exactly one of text, file and data",
        ),
        (
            send(parts=[{"kind": "data", "text": "a"}]),
            "message.parts[0].kind",
            'is "data", but the part holds text',
        ),
        (
            send(parts=[{"kind": "image", "text": "a"}]),
            "message.parts[0].kind",
            'unknown value "image"; one of text, file, data',
        ),
        (
            send(parts=[{"kind": "file", "file": {}}]),
            "message.parts[0].file",
            "a file holds exactly one of bytes and uri",
        ),
        (
            send(parts=[{"kind": "file", "file": {"bytes": "", "uri": "u"}}]),
            "message.parts[0].file",
            "a file holds exactly one of bytes and uri",
        ),
        (
            send(parts=[{"kind": "data", "data": [1]}]),
            "message.parts[0].data",
            "must be an object, got an array",
        ),
        (configured(historyLength=-1), "configuration.historyLength", "must not be negative"),
        (
            configured(historyLength=2**40),
            "configuration.historyLength",
            "must be at most 2147483647",
        ),
        (
            configured(pushNotificationConfig={"url": ""}),
            "configuration.pushNotificationConfig.url",
            "must not be empty",
        ),
        (
            configured(pushNotificationConfig={"url": "u", "authentication": {"credentials": "c"}}),
            "configuration.pushNotificationConfig.authentication.schemes",
            "must hold at least one scheme",
        ),
    ],
)
def test_the_first_violation_names_its_field(raw: bytes, field: str, description: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        V03.decode_send(raw)
    (violation,) = refusal.value.violations
    assert (violation.field, violation.description) == (field, description)


def test_a_part_must_say_its_kind() -> None:
    with pytest.raises(InvalidParams, match=r'^message.parts\[0\].kind: is required; .* "text"$'):
        V03.decode_send(send(parts=[{"text": ""}]))
    sent = V03.decode_send(send(parts=[{"kind": "text", "text": ""}]))
    assert sent.message.parts == (Part(text=""),)


def test_before_0_3_and_over_rest_a_part_may_leave_out_its_kind() -> None:
    legacy = v03_dialect(Profile(dialect="v0.3-legacy", default_version="0.3"), is_rest=False)
    for dialect in (legacy, v03_dialect(Profile(), is_rest=True)):
        assert dialect.decode_send(send(parts=[{"text": ""}])).message.parts == (Part(text=""),)


def test_a_wrapped_value_is_unwrapped_only_with_its_mark() -> None:
    wrapped = {"kind": "data", "data": {"value": 1}, "metadata": {"data_part_compat": True}}
    plain = {"kind": "data", "data": {"value": 1}}
    other = {"kind": "data", "data": {"v": 1}, "metadata": {"data_part_compat": True}}
    request = V03.decode_send(send(parts=[wrapped, plain, other]))
    assert [part.data for part in request.message.parts] == [1, {"value": 1}, {"v": 1}]
    assert request.message.parts[0].metadata is None


@pytest.mark.parametrize(
    ("operation", "params", "value"),
    [
        (
            Operation.GET_TASK,
            b'{"id":"t","historyLength":2}',
            GetTaskRequest(id="t", history_length=2),
        ),
        (Operation.LIST_TASKS, b"{}", ListTasksRequest()),
        (
            Operation.LIST_TASKS,
            b'{"status":"input-required","contextId":"c","pageSize":3}',
            ListTasksRequest(status=TaskState.INPUT_REQUIRED, context_id="c", page_size=3),
        ),
        (
            Operation.LIST_TASKS,
            b'{"status":"TASK_STATE_CANCELLED"}',
            ListTasksRequest(status=TaskState.CANCELED),
        ),
        (Operation.CANCEL_TASK, b'{"id":"t"}', CancelTaskRequest(id="t")),
        (Operation.SUBSCRIBE_TO_TASK, b'{"id":"t"}', SubscribeToTaskRequest(id="t")),
        (Operation.GET_EXTENDED_AGENT_CARD, b"{}", GetExtendedAgentCardRequest()),
        (
            Operation.CREATE_PUSH_CONFIG,
            b'{"taskId":"t","pushNotificationConfig":{"url":"u"}}',
            TaskPushNotificationConfig(task_id="t", url="u"),
        ),
        (Operation.GET_PUSH_CONFIG, b'{"id":"t"}', PushConfigQuery(task_id="t")),
        (
            Operation.DELETE_PUSH_CONFIG,
            b'{"id":"t","pushNotificationConfigId":"c"}',
            PushConfigQuery(task_id="t", id="c"),
        ),
    ],
)
def test_every_operation_decodes(operation: Operation, params: bytes, value: object) -> None:
    assert V03.decoders[operation](params) == value


@pytest.mark.parametrize(
    ("operation", "params", "text"),
    [
        (Operation.GET_TASK, b'{"id":""}', "id: must not be empty"),
        (Operation.LIST_TASKS, b'{"status":"x"}', 'status: unknown value "x"; one of submitted'),
        (Operation.LIST_TASKS, b'{"pageSize":0}', "pageSize: must be between 1 and 100"),
        (
            Operation.CREATE_PUSH_CONFIG,
            b'{"taskId":"","pushNotificationConfig":{"url":"u"}}',
            "taskId: must not be empty",
        ),
        (Operation.LIST_PUSH_CONFIGS, b'{"id":""}', "id: must not be empty"),
        (Operation.DELETE_PUSH_CONFIG, b'{"id":"t"}', "pushNotificationConfigId: is required"),
    ],
)
def test_other_violations(operation: Operation, params: bytes, text: str) -> None:
    with pytest.raises(InvalidParams, match=text):
        V03.decoders[operation](params)


def test_the_version() -> None:
    assert V03.version is Version.V0_3
