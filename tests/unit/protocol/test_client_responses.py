import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.strategies import (
    artifact_updates,
    few,
    messages,
    parts,
    parts_03,
    status_updates,
    tasks,
)

from trunkline.model.calls import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    PushConfigQuery,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import InvalidAgentResponse, TaskNotFound
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from trunkline.protocol import jsonrpc, rest
from trunkline.protocol.client_requests import Binding, Call, ask
from trunkline.protocol.client_responses import ANSWERS, Refusal, TaskPage, http_refusal, opened
from trunkline.protocol.dialects import Dialect
from trunkline.protocol.operations import RequestValue
from trunkline.protocol.rest_routes import match
from trunkline.protocol.v03 import V03, V03_REST
from trunkline.protocol.v03_writing import Writer03
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version

WAYS: list[tuple[Binding, Version]] = [
    ("JSONRPC", Version.V1_0),
    ("HTTP+JSON", Version.V1_0),
    ("JSONRPC", Version.V0_3),
    ("HTTP+JSON", Version.V0_3),
]
DIALECTS: dict[tuple[Binding, Version], Dialect] = {
    WAYS[0]: V1,
    WAYS[1]: V1,
    WAYS[2]: V03,
    WAYS[3]: V03_REST,
}
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way))


def content(way: tuple[Binding, Version]) -> Any:
    return parts if way[1] is Version.V1_0 else parts_03


def without_references(value: Any, way: tuple[Binding, Version]) -> Any:
    """The proto of 0.3 has no `referenceTaskIds`."""
    if way != WAYS[3]:
        return value
    tree = msgspec.to_builtins(value)

    def cut(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {k: cut(v) for k, v in tree.items() if k != "referenceTaskIds"}
        return [cut(one) for one in tree] if isinstance(tree, list | tuple) else tree

    return msgspec.convert(cut(tree), type(value))


@ways
@few
@given(data=st.data())
def test_a_task_is_read_as_it_was_written(way: tuple[Binding, Version], data: Any) -> None:
    task: Task = data.draw(tasks(content(way)))
    body, dialect = msgspec.json.encode(task), DIALECTS[way]
    expected = without_references(task, way)
    assert ANSWERS[way].task(dialect.task(body)) == expected
    assert ANSWERS[way].sent(b"".join(dialect.sent_task(body))) == expected
    assert ANSWERS[way].event(b"".join(dialect.sent_task(body))) == expected
    page = dialect.page([body], next_page_token="n", page_size=1, total_size=7)
    assert ANSWERS[way].page(page) == TaskPage(
        tasks=(expected,), next_page_token="n", page_size=1, total_size=7
    )


@ways
@few
@given(data=st.data())
def test_a_message_is_read_as_it_was_written(way: tuple[Binding, Version], data: Any) -> None:
    message: Message = data.draw(messages(content(way)))
    body = DIALECTS[way].sent_message(msgspec.json.encode(message))
    assert ANSWERS[way].sent(b"".join(body)) == without_references(message, way)


@ways
@few
@given(data=st.data())
def test_an_update_is_read_as_it_was_written(way: tuple[Binding, Version], data: Any) -> None:
    event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent = data.draw(
        status_updates(content(way)) | artifact_updates(content(way))
    )
    writer, is_03 = Writer03(is_rest=way == WAYS[3]), way[1] is Version.V0_3
    value: Any
    if isinstance(event, TaskArtifactUpdateEvent):
        name = "artifactUpdate"
        value = writer.artifact_update(event) if is_03 else event
    else:
        name = "statusUpdate"
        value = writer.status_update(event) if is_03 else event
    body = msgspec.json.encode(value if way == WAYS[2] else {name: value})
    assert ANSWERS[way].event(body) == without_references(event, way)


def arrives(way: tuple[Binding, Version], call: Call) -> tuple[Operation, RequestValue]:
    """What our own server makes of the request."""
    binding, version = way
    if binding == "JSONRPC":
        assert call.body is not None
        request = jsonrpc.decode(
            call.body, stated=version, names=jsonrpc.Names(default=Version.V1_0)
        )
        assert request.id == b'"7"'
        return request.operation, DIALECTS[way].decoders[request.operation](request.params)
    path, _, query = call.path.partition("?")
    route = match(call.method, path, stated=version)
    return route.operation, rest.decode(route, query, call.body or b"")


@ways
@few
@given(data=st.data())
def test_a_send_arrives_as_it_was_meant(way: tuple[Binding, Version], data: Any) -> None:
    request = SendMessageRequest(
        message=data.draw(messages(content(way))),
        configuration=SendMessageConfiguration(
            accepted_output_modes=("text/plain",),
            history_length=data.draw(st.none() | st.integers(0, 5)),
            return_immediately=data.draw(st.booleans()),
            task_push_notification_config=TaskPushNotificationConfig(url="https://x/"),
        ),
        metadata=data.draw(st.none() | st.just({"k": 1})),
    )
    for operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE):
        call = ask(*way, operation, request, id=b'"7"')
        expected = without_references(request, way)
        assert arrives(way, call) == (operation, expected)


OTHERS = [
    (Operation.GET_TASK, GetTaskRequest(id="a/b:c d", history_length=0)),
    (Operation.GET_TASK, GetTaskRequest(id="ä%2F?#")),
    (Operation.CANCEL_TASK, CancelTaskRequest(id="a:b", metadata={"why": "late"})),
    (Operation.SUBSCRIBE_TO_TASK, SubscribeToTaskRequest(id="a")),
    (Operation.LIST_TASKS, ListTasksRequest()),
    (
        Operation.LIST_TASKS,
        ListTasksRequest(
            context_id="c&d",
            status=TaskState.INPUT_REQUIRED,
            page_size=7,
            page_token="+/=",
            history_length=0,
            status_timestamp_after="2026-01-31T23:59:59.123Z",
            include_artifacts=True,
        ),
    ),
    (
        Operation.CREATE_PUSH_CONFIG,
        TaskPushNotificationConfig(task_id="t", id="c", url="https://x/", token="k"),
    ),
    (Operation.GET_PUSH_CONFIG, PushConfigQuery(task_id="t", id="c")),
    (Operation.LIST_PUSH_CONFIGS, PushConfigQuery(task_id="t")),
    (Operation.DELETE_PUSH_CONFIG, PushConfigQuery(task_id="t", id="c")),
]


@ways
@pytest.mark.parametrize(("operation", "value"), OTHERS)
def test_every_other_call_arrives(
    way: tuple[Binding, Version], operation: Operation, value: RequestValue
) -> None:
    assert arrives(way, ask(*way, operation, value, id=b'"7"')) == (operation, value)


@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: "-".join(way))
def test_the_tenant_goes_along(way: tuple[Binding, Version]) -> None:
    request = GetTaskRequest(id="t", tenant="acme")
    assert arrives(way, ask(*way, Operation.GET_TASK, request, id=b'"7"'))[1] == request


def test_0_3_says_whether_it_waits() -> None:
    message = Message(message_id="m", role=Role.USER, parts=(Part(text="hi"),))
    call = ask(*WAYS[2], Operation.SEND_MESSAGE, SendMessageRequest(message=message), id=b"1")
    assert call.body is not None
    assert json.loads(call.body)["params"]["configuration"] == {"blocking": True}


@pytest.mark.parametrize(
    "payload", [b"", b"null", b"[]", b"<html>", b"{}", b'{"kind":"x"}', b'{"task":{}}', b"\xff"]
)
@ways
def test_what_makes_no_sense_is_refused(way: tuple[Binding, Version], payload: bytes) -> None:
    for read in (ANSWERS[way].event, ANSWERS[way].sent, ANSWERS[way].task):
        with pytest.raises(InvalidAgentResponse):
            read(payload)


@few
@given(st.binary(max_size=64))
def test_no_bytes_raise_anything_else(payload: bytes) -> None:
    for reader in ANSWERS.values():
        for read in (reader.event, reader.task, reader.page, reader.card, reader.push_configs):
            try:
                read(payload)
            except InvalidAgentResponse:
                continue


@ways
def test_no_result_is_no_value(way: tuple[Binding, Version]) -> None:
    read = ANSWERS[way]
    readers: list[Callable[[bytes], Any]] = [read.event, read.sent, read.task, read.page]
    for one in (*readers, read.card, read.push_config, read.push_configs):
        with pytest.raises(InvalidAgentResponse):
            one(b"null")


def test_0_3_without_its_flags_is_understood() -> None:
    event = ANSWERS[WAYS[2]].event(
        b'{"kind":"artifact-update","taskId":"t","contextId":"c",'
        b'"artifact":{"artifactId":"a","parts":[{"kind":"text","text":"x"}]}}'
    )
    assert isinstance(event, TaskArtifactUpdateEvent)
    assert (event.append, event.last_chunk) == (False, None)


def test_the_envelope() -> None:
    assert opened(b'{"jsonrpc":"2.0","id":"7","result":{"a": 1}}', b'"7"') == b'{"a": 1}'
    refused = opened(
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}', b'"7"'
    )
    assert refused == Refusal(code=-32001, reason="TASK_NOT_FOUND", message="gone")
    for body in (b'{"id":"8","result":{}}', b'{"id":null,"result":{}}'):
        with pytest.raises(InvalidAgentResponse, match="another request"):
            opened(body, b'"7"')
    assert opened(b'{"id":"7"}', b'"7"') == b"null", "as a2a-sdk says that it deleted"
    with pytest.raises(InvalidAgentResponse, match="not JSON-RPC"):
        opened(b"<html>", b'"7"')


@pytest.mark.parametrize("version", Version)
def test_refusals_of_our_own_rest_are_understood(version: Version) -> None:
    status, body = rest.error(TaskNotFound("no such task"), version)
    refused = http_refusal(status, body)
    assert (refused.code, refused.reason) == (-32001, "TASK_NOT_FOUND")
    assert refused.message == "Task not found: no such task"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>", Refusal()),
        (b"[]", Refusal()),
        (b'{"detail":"Not Found"}', Refusal(message="Not Found")),
        (b'{"code":[1],"error":"x"}', Refusal()),
        (
            b'{"type":"TaskNotFoundError","message":"m"}',
            Refusal(code=-32001, reason="TASK_NOT_FOUND", message="m"),
        ),
    ],
)
def test_refusals_of_others(body: bytes, expected: Refusal) -> None:
    assert http_refusal(404, body) == expected
