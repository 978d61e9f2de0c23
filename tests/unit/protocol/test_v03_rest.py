import json
from typing import Any

import msgspec
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb_03
from a2a.compat.v0_3 import conversions, proto_utils
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

from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry
from trunkline.model.values import (
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.v03 import V03_REST

encode = msgspec.json.encode


@few
@given(tasks())
def test_tasks_are_those_of_the_reference(task: Task) -> None:
    raw = encode(task)
    reference = proto_utils.ToProto.task(
        conversions.to_compat_task(proto.read(raw, a2a_pb2.Task()))
    )
    # Parsers of that generation refuse unknown fields, and so does this one.
    assert proto.read(V03_REST.task(raw), pb_03.Task()) == reference
    sent = proto.read(b"".join(V03_REST.sent_task(raw)), pb_03.SendMessageResponse())
    assert sent.task == reference
    for event in (b"".join(V03_REST.sent_task(raw)), b"".join(V03_REST.event(Entry.of(1, task)))):
        assert proto.read(event, pb_03.StreamResponse()).task == reference


@few
@given(messages())
def test_messages_are_those_of_the_reference(message: Message) -> None:
    raw = encode(message)
    compat = conversions.to_compat_message(proto.read(raw, a2a_pb2.Message()))
    reference = proto_utils.ToProto.message(compat)
    sent = proto.read(b"".join(V03_REST.sent_message(raw)), pb_03.SendMessageResponse())
    assert sent.msg == reference
    streamed = proto.read(b"".join(V03_REST.sent_message(raw)), pb_03.StreamResponse())
    assert streamed.msg == reference


@few
@given(status_updates())
def test_status_updates_are_those_of_the_reference(event: TaskStatusUpdateEvent) -> None:
    core = proto.read(encode(event), a2a_pb2.TaskStatusUpdateEvent())
    reference = proto_utils.ToProto.task_status_update_event(
        conversions.to_compat_task_status_update_event(core)
    )
    if event.status.state is TaskState.INPUT_REQUIRED:
        reference.final = True
    written = b"".join(V03_REST.event(Entry.of(1, event)))
    assert proto.read(written, pb_03.StreamResponse()).status_update == reference


@few
@given(artifact_updates())
def test_artifact_updates_are_those_of_the_reference(event: TaskArtifactUpdateEvent) -> None:
    core = proto.read(encode(event), a2a_pb2.TaskArtifactUpdateEvent())
    reference = proto_utils.ToProto.task_artifact_update_event(
        conversions.to_compat_task_artifact_update_event(core)
    )
    written = b"".join(V03_REST.event(Entry.of(1, event)))
    assert proto.read(written, pb_03.StreamResponse()).artifact_update == reference


@few
@given(messages(parts_03))
def test_what_is_written_is_read_but_for_references(message: Message) -> None:
    without = msgspec.structs.replace(message, reference_task_ids=())
    raw = b"".join(V03_REST.sent_message(encode(message)))
    assert V03_REST.decode_send(raw).message == without
    reference = proto.read(raw, pb_03.SendMessageResponse())
    for snake in (True, False):
        text = json.dumps(proto.write(reference, preserving_proto_field_name=snake))
        text = text.replace('{"msg":', '{"message":', 1)
        assert V03_REST.decode_send(text.encode()).message == without


def send(**message: Any) -> bytes:
    return json.dumps({"message": {"messageId": "m", "role": "user"} | message}).encode()


def test_the_shapes_of_jsonrpc_are_read_as_well() -> None:
    parts = [
        {"kind": "text", "text": "a"},
        {"kind": "data", "data": {"data": {"x": 1}}},
        {"kind": "file", "file": {"uri": "u", "mimeType": "a/b"}},
    ]
    assert V03_REST.decode_send(send(parts=parts)).message.parts == (
        Part(text="a"),
        Part(data={"data": {"x": 1}}),
        Part(url="u", media_type="a/b"),
    )


def test_data_without_its_second_object_is_taken_as_it_is() -> None:
    raw = send(content=[{"data": {"x": 1}}])
    assert V03_REST.decode_send(raw).message.parts == (Part(data={"x": 1}),)


def test_push_configuration_has_its_own_name() -> None:
    raw = b'{"message":{"messageId":"m","role":1,"content":[{"text":"a"}]}}'
    with pytest.raises(InvalidParams, match=r"message\.role"):
        V03_REST.decode_send(raw)
    raw = json.dumps(
        {
            "message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "a"}]},
            "configuration": {"pushNotification": {"url": "u"}, "blocking": False},
        }
    ).encode()
    configuration = V03_REST.decode_send(raw).configuration
    assert configuration is not None
    assert configuration.return_immediately
    assert configuration.task_push_notification_config is not None


def test_the_missing_content_is_named_as_this_binding_names_it() -> None:
    with pytest.raises(InvalidParams, match=r"^message\.content: must hold at least one part$"):
        V03_REST.decode_send(send())
