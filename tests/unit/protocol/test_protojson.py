import base64
import json
import re
from typing import Any

import msgspec
import pytest
from a2a.types import a2a_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol import reference as proto
from tests.unit.protocol.strategies import few, messages, tasks

from trunkline.model.calls import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidParams, InvalidRequest, ParseFailed
from trunkline.model.values import Message, Part, Role, Task, TaskState
from trunkline.protocol import protojson

OK: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def send(**members: Any) -> bytes:
    return json.dumps({"message": OK | members}).encode()


def configured(**members: Any) -> bytes:
    return json.dumps({"message": OK, "configuration": members}).encode()


@few
@given(tasks())
def test_all_the_reference_may_write_is_read(task: Task) -> None:
    reference = proto.read(msgspec.json.encode(task), a2a_pb2.Task())
    spellings = [
        proto.write_text(reference),
        proto.write_text(reference, preserving_proto_field_name=True),
        proto.write_text(reference, use_integers_for_enums=True),
    ]
    for text in spellings:
        assert protojson.decode(text, Task) == task


@few
@given(messages())
def test_tolerant_and_typed_reading_agree(message: Message) -> None:
    raw = msgspec.json.encode(message)
    assert protojson.decode(raw, Message) == message
    assert protojson.convert(protojson.parse(raw), Message) == message


def test_snake_case_names_are_read_everywhere_but_in_free_json() -> None:
    raw = json.dumps(
        {
            "message": {
                "message_id": "m",
                "context_id": "c",
                "reference_task_ids": ["t"],
                "role": "ROLE_USER",
                "parts": [{"data": {"media_type": 1}, "media_type": "a/b"}],
                "metadata": {"task_id": {"context_id": 2}},
            },
            "configuration": {"history_length": 3, "return_immediately": True},
        }
    ).encode()
    request = protojson.decode(raw, SendMessageRequest)
    assert request.message == Message(
        message_id="m",
        context_id="c",
        reference_task_ids=("t",),
        role=Role.USER,
        parts=(Part(data={"media_type": 1}, media_type="a/b"),),
        metadata={"task_id": {"context_id": 2}},
    )
    assert request.configuration is not None
    assert request.configuration.history_length == 3
    assert request.configuration.return_immediately


@pytest.mark.parametrize("key", ["history_length", "history\\u005flength", "history\\u005Flength"])
def test_an_escaped_underscore_is_one(key: str) -> None:
    request = protojson.decode(f'{{"id":"t","{key}" : 2}}'.encode(), GetTaskRequest)
    assert request.history_length == 2


@pytest.mark.parametrize("length", ["5", '"5"', "5.0", "5e0"])
def test_integers_may_be_strings_and_whole_floats(length: str) -> None:
    raw = f'{{"id":"t","historyLength":{length}}}'.encode()
    assert protojson.decode(raw, GetTaskRequest).history_length == 5


def test_zero_and_absence_are_not_the_same() -> None:
    assert protojson.decode(b'{"id":"t","historyLength":0}', GetTaskRequest).history_length == 0
    assert protojson.decode(b'{"id":"t"}', GetTaskRequest).history_length is None


def test_null_is_unset() -> None:
    raw = send(contextId=None, metadata=None, extensions=None)
    assert protojson.decode(raw, SendMessageRequest).message.context_id == ""
    raw = send(parts=[{"text": None, "data": None}])
    assert protojson.decode(raw, SendMessageRequest).message.parts == (Part(data=None),)


@pytest.mark.parametrize(
    "content",
    [
        {"text": ""},
        {"data": 0},
        {"data": False},
        {"data": None},
        {"data": []},
        {"raw": ""},
        {"url": ""},
    ],
)
def test_falsy_contents_are_contents(content: dict[str, Any]) -> None:
    (part,) = protojson.decode(send(parts=[content]), SendMessageRequest).message.parts
    reference = proto.read(json.dumps(content).encode(), a2a_pb2.Part())
    assert proto.write(reference) == content
    expected: dict[str, Any] = {"raw": b""} if "raw" in content else content
    assert part == Part(**expected)


@few
@given(st.binary(max_size=12))
def test_base64_in_all_spellings(raw: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for text in (encode(raw).decode(), encode(raw).decode().rstrip("=")):
            (part,) = protojson.decode(
                send(parts=[{"raw": text}]), SendMessageRequest
            ).message.parts
            assert part.raw == raw


def test_enums_by_number() -> None:
    assert protojson.decode(send(role=2), SendMessageRequest).message.role is Role.AGENT
    for number, state in enumerate(TaskState):
        raw = json.dumps({"status": number}).encode()
        assert protojson.decode(raw, ListTasksRequest).status is state
        assert a2a_pb2.TaskState.Name(number) == state


def test_numbers_in_free_json_keep_their_kind() -> None:
    raw = send(parts=[{"data": [42, 42.0, 2**70]}])
    (part,) = protojson.decode(raw, SendMessageRequest).message.parts
    assert repr(part.data) == f"[42, 42.0, {2**70}]"


def test_unknown_fields_are_ignored() -> None:
    raw = json.dumps({"message": OK | {"kind": "message"}, "x": {"y": 1}}).encode()
    assert protojson.decode(raw, SendMessageRequest).message.message_id == "m"


def test_unspecified_state_means_no_filter() -> None:
    raw = b'{"status":"TASK_STATE_UNSPECIFIED"}'
    assert protojson.decode(raw, ListTasksRequest) == ListTasksRequest()


ROLES = "one of ROLE_USER, ROLE_AGENT"
VIOLATIONS = [
    (b"{}", "message", "is required"),
    (b'{"message":null}', "message", "is required"),
    (b'{"message":[]}', "message", "must be an object, got an array"),
    (b"[]", "request", "must be an object, got an array"),
    (b'{"message":{}}', "message.messageId", "is required"),
    (send(messageId=""), "message.messageId", "must not be empty"),
    (send(messageId=5), "message.messageId", "must be a string, got a number"),
    (send(messageId=None), "message.messageId", "is required"),
    (send(message_id="n"), "message.messageId", "is given twice, in camelCase and in snake_case"),
    (send(role=None), "message.role", "is required"),
    (send(role="ROLE_UNSPECIFIED"), "message.role", f'unknown value "ROLE_UNSPECIFIED"; {ROLES}'),
    (send(role="user"), "message.role", f'unknown value "user"; {ROLES}'),
    (send(role=0), "message.role", f"unknown value 0; {ROLES}"),
    (send(role=9), "message.role", f"unknown value 9; {ROLES}"),
    (send(role=2**70), "message.role", f"unknown value beyond all enums; {ROLES}"),
    (send(role=True), "message.role", "must be a string, got a boolean"),
    (send(role="x" * 999), "message.role", f'unknown value "{"x" * 64}…"; {ROLES}'),
    (send(parts=[]), "message.parts", "must hold at least one part"),
    (send(parts={}), "message.parts", "must be an array, got an object"),
    (send(parts="x"), "message.parts", "must be an array, got a string"),
    (send(parts=[1]), "message.parts[0]", "must be an object, got a number"),
    (send(parts=[None]), "message.parts[0]", "must be an object, got null"),
    (
        send(parts=[{"text": "a"}, {}]),
        "message.parts[1]",
        "a part holds exactly one of text, raw, url and data",
    ),
    (
        send(parts=[{"text": "a", "data": None}]),
        "message.parts[0]",
        "a part holds exactly one of text, raw, url and data",
    ),
    (send(parts=[{"text": 1}]), "message.parts[0].text", "must be a string, got a number"),
    (send(parts=[{"raw": "*"}]), "message.parts[0].raw", "must be base64"),
    (send(parts=[{"raw": "ä"}]), "message.parts[0].raw", "must be base64"),
    (send(parts=[{"raw": "a"}]), "message.parts[0].raw", "must be base64"),
    (send(parts=[{"raw": 1}]), "message.parts[0].raw", "must be a base64 string, got a number"),
    (send(metadata=[]), "message.metadata", "must be an object, got an array"),
    (send(extensions=["a", 1]), "message.extensions[1]", "must be a string, got a number"),
    (send(extensions=["a", None]), "message.extensions[1]", "must be a string, got null"),
    (configured(historyLength=-1), "configuration.historyLength", "must not be negative"),
    (
        configured(historyLength=1.5),
        "configuration.historyLength",
        "must be an integer, got a fraction",
    ),
    (configured(historyLength="x"), "configuration.historyLength", "must be an integer"),
    (
        configured(historyLength=True),
        "configuration.historyLength",
        "must be an integer, got a boolean",
    ),
    (configured(historyLength=2**31), "configuration.historyLength", "must be at most 2147483647"),
    (configured(historyLength=2**70), "configuration.historyLength", "must be at most 2147483647"),
    (
        configured(history_length=2**70),
        "configuration.historyLength",
        "must be between -2147483648 and 2147483647",
    ),
    (
        configured(returnImmediately="true"),
        "configuration.returnImmediately",
        "must be true or false, got a string",
    ),
    (
        configured(taskPushNotificationConfig={}),
        "configuration.taskPushNotificationConfig.url",
        "is required",
    ),
    (
        configured(taskPushNotificationConfig={"url": ""}),
        "configuration.taskPushNotificationConfig.url",
        "must not be empty",
    ),
    (
        configured(taskPushNotificationConfig={"url": "u", "authentication": {"scheme": ""}}),
        "configuration.taskPushNotificationConfig.authentication.scheme",
        "must not be empty",
    ),
    (
        b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":1e400}]}}',
        "message.parts[0].data",
        "holds a number that is out of range",
    ),
    (
        b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}],"metadata":{"a":1e400}}}',
        "message.metadata",
        "holds a number that is out of range",
    ),
    (
        b'{"message":{"message_id":"m","role":"ROLE_USER","parts":[{"data":1e400}]}}',
        "request",
        "holds a number that is out of range",
    ),
    (
        b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":%b}]}}' % (b"9" * 5000),
        "message.parts[0].data",
        "holds a number that is out of range",
    ),
]


@pytest.mark.parametrize(("raw", "field", "description"), VIOLATIONS)
def test_the_first_violation_names_its_field(raw: bytes, field: str, description: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        protojson.decode(raw, SendMessageRequest)
    (violation,) = refusal.value.violations
    assert (violation.field, violation.description) == (field, description)
    assert refusal.value.message == f"{field}: {description}"


@pytest.mark.parametrize(
    ("into", "raw", "field", "description"),
    [
        (GetTaskRequest, b"{}", "id", "is required"),
        (GetTaskRequest, b'{"id":""}', "id", "must not be empty"),
        (GetTaskRequest, b'{"id":"t","historyLength":-1}', "historyLength", "must not be negative"),
        (
            GetTaskRequest,
            b'{"id":"t","historyLength":3000000000}',
            "historyLength",
            "must be at most 2147483647",
        ),
        (CancelTaskRequest, b'{"id":7}', "id", "must be a string, got a number"),
        (ListTasksRequest, b'{"pageSize":0}', "pageSize", "must be between 1 and 100"),
        (ListTasksRequest, b'{"pageSize":101}', "pageSize", "must be between 1 and 100"),
        (
            ListTasksRequest,
            b'{"historyLength":3000000000}',
            "historyLength",
            "must be at most 2147483647",
        ),
        (TaskPushNotificationConfig, b'{"url":""}', "url", "must not be empty"),
    ],
)
def test_violations_of_other_requests(into: type, raw: bytes, field: str, description: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        protojson.decode(raw, into)
    assert refusal.value.message == f"{field}: {description}"


@pytest.mark.parametrize("text", ["x", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    raw = json.dumps({"statusTimestampAfter": text}).encode()
    with pytest.raises(InvalidParams, match=r"^statusTimestampAfter: must be an ISO 8601"):
        protojson.decode(raw, ListTasksRequest)


def test_an_instant_is_taken() -> None:
    raw = b'{"statusTimestampAfter":"2026-01-01T00:00:00.123Z"}'
    assert protojson.decode(raw, ListTasksRequest).status_timestamp_after


@pytest.mark.parametrize(
    ("raw", "error", "text"),
    [
        (b"", ParseFailed, "empty"),
        (b'{"message":', ParseFailed, "ends too early"),
        (b'{"message":]', ParseFailed, "at byte 11"),
        (b"\xef\xbb\xbf{}", ParseFailed, "byte order mark"),
        (b'{"message":{"messageId":"\xff"}}', ParseFailed, "UTF-8"),
        (b'{"message":{"messageId":"\\ud800"}}', ParseFailed, "surrogate"),
        (b'{"message":{"messageId":"\\ud800x"}}', ParseFailed, "surrogate"),
        (b'{"message":{"messageId":"\\udc00"}}', ParseFailed, "surrogate"),
        (b'{"message":{"metadata":' + b'{"a":' * 100_000, InvalidRequest, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_in_our_words(
    raw: bytes, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        protojson.decode(raw, SendMessageRequest)


@few
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["message", "messageId", "role", "parts", "text", "configuration"]),
                inner,
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_is_a_request_or_invalid_in_our_words(tree: Any) -> None:
    text = ""
    try:
        protojson.decode(json.dumps(tree).encode(), SendMessageRequest)
    except InvalidParams as refusal:
        text = refusal.violations[0].description
    assert not re.match(r"Expected|.*(`|msgspec|NoneType)", text)


def test_maps_of_structs_are_read() -> None:
    card = protojson.decode(
        json.dumps(
            {
                "name": "n",
                "description": "d",
                "supported_interfaces": [],
                "version": "1",
                "capabilities": {},
                "default_input_modes": [],
                "default_output_modes": [],
                "skills": [],
                "security_schemes": {"a_b": {"http_auth_security_scheme": {"scheme": "bearer"}}},
            }
        ).encode(),
        AgentCard,
    )
    scheme = card.security_schemes["a_b"].http_auth_security_scheme
    assert scheme is not None
    assert scheme.scheme == "bearer"
    with pytest.raises(InvalidParams, match=r"^securitySchemes: must be an object"):
        protojson.decode(b'{"securitySchemes":[]}', AgentCard)
    with pytest.raises(InvalidParams, match=r"^securitySchemes\.x: must be an object"):
        protojson.decode(b'{"securitySchemes":{"x":1}}', AgentCard)
