import json
from typing import Any

import pytest

from trunkline.model.calls import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    PushConfigQuery,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import InvalidParams, ParseFailed, WrongMediaType
from trunkline.model.values import TaskState
from trunkline.protocol import rest
from trunkline.protocol.operations import RequestValue
from trunkline.protocol.rest_routes import match

MESSAGE: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def decode(method: str, target: str, body: bytes = b"") -> RequestValue:
    path, _, query = target.partition("?")
    return rest.decode(match(method, path, stated=None), query.encode(), body)


def test_send_takes_the_body_and_the_tenant_of_the_path() -> None:
    body = json.dumps({"message": MESSAGE, "tenant": "body"}).encode()
    for path, tenant in [("/message:send", "body"), ("/path/message:stream", "path")]:
        request = decode("POST", path, body)
        assert isinstance(request, SendMessageRequest)
        assert request.tenant == tenant
        assert request.message.message_id == "m"


def test_send_of_03_takes_the_shapes_of_03() -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}
    request = decode("POST", "/v1/message:send", json.dumps({"message": message}).encode())
    assert isinstance(request, SendMessageRequest)
    assert request.message.parts[0].text == "hi"


@pytest.mark.parametrize(
    ("method", "target", "body", "value"),
    [
        ("GET", "/tasks/t", b"", GetTaskRequest(id="t")),
        ("GET", "/tasks/t?historyLength=0", b"", GetTaskRequest(id="t", history_length=0)),
        ("GET", "/tasks/t?history_length=3", b"", GetTaskRequest(id="t", history_length=3)),
        ("GET", "/x/tasks/t?tenant=y&id=z", b"", GetTaskRequest(id="t", tenant="x")),
        ("GET", "/tasks/t?tenant=y", b"", GetTaskRequest(id="t", tenant="y")),
        ("GET", "/v1/tasks/t?historyLength=1", b"", GetTaskRequest(id="t", history_length=1)),
        ("GET", "/tasks?A2A-Version=1.0&unknown=1&unknown=2", b"", ListTasksRequest()),
        (
            "GET",
            "/x/tasks?contextId=a%20b&status=TASK_STATE_WORKING&pageSize=7&pageToken=p%2B"
            "&historyLength=2&statusTimestampAfter=2026-01-01T00:00:00Z&includeArtifacts=true",
            b"",
            ListTasksRequest(
                tenant="x",
                context_id="a b",
                status=TaskState.WORKING,
                page_size=7,
                page_token="p+",
                history_length=2,
                status_timestamp_after="2026-01-01T00:00:00Z",
                include_artifacts=True,
            ),
        ),
        (
            "GET",
            "/tasks?context_id=c&page_size=7&page_token=p&include_artifacts=false"
            "&status_timestamp_after=2026-01-01T00:00:00+00:00",
            b"",
            ListTasksRequest(
                context_id="c",
                page_size=7,
                page_token="p",
                status_timestamp_after="2026-01-01T00:00:00+00:00",
            ),
        ),
        ("GET", "/v1/tasks?status=working", b"", ListTasksRequest(status=TaskState.WORKING)),
        ("POST", "/tasks/t:cancel", b"", CancelTaskRequest(id="t")),
        ("POST", "/v1/tasks/t:cancel", b"{}", CancelTaskRequest(id="t")),
        (
            "POST",
            "/x/tasks/t:cancel",
            b'{"id":"other","tenant":"y","metadata":{"a":1}}',
            CancelTaskRequest(id="t", tenant="x", metadata={"a": 1}),
        ),
        ("POST", "/tasks/t:subscribe", b"", SubscribeToTaskRequest(id="t")),
        ("GET", "/x/tasks/t:subscribe", b"", SubscribeToTaskRequest(id="t", tenant="x")),
        ("GET", "/extendedAgentCard", b"", GetExtendedAgentCardRequest()),
        ("GET", "/x/extendedAgentCard", b"", GetExtendedAgentCardRequest(tenant="x")),
        ("GET", "/v1/card", b"", GetExtendedAgentCardRequest()),
        (
            "POST",
            "/x/tasks/t/pushNotificationConfigs",
            b'{"taskId":"other","url":"u"}',
            TaskPushNotificationConfig(task_id="t", tenant="x", url="u"),
        ),
        (
            "POST",
            "/v1/tasks/t/pushNotificationConfigs",
            b'{"pushNotificationConfig":{"url":"u"}}',
            TaskPushNotificationConfig(task_id="t", url="u"),
        ),
        (
            "POST",
            "/v1/tasks/t/pushNotificationConfigs",
            b'{"parent":"tasks/t","config":{"pushNotificationConfig":{"url":"u"}}}',
            TaskPushNotificationConfig(task_id="t", url="u"),
        ),
        (
            "GET",
            "/tasks/t/pushNotificationConfigs?pageSize=2&pageToken=p",
            b"",
            PushConfigQuery(task_id="t", page_size=2, page_token="p"),
        ),
        (
            "DELETE",
            "/x/tasks/t/pushNotificationConfigs/c",
            b"",
            PushConfigQuery(task_id="t", id="c", tenant="x"),
        ),
    ],
)
def test_path_query_and_body_make_the_request(
    method: str, target: str, body: bytes, value: object
) -> None:
    assert decode(method, target, body) == value


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/tasks?pageSize=0", "pageSize: must be between 1 and 100"),
        ("/tasks?pageSize=101", "pageSize: must be between 1 and 100"),
        ("/tasks?pageSize=ten", "pageSize: must be an integer"),
        ("/tasks?pageSize=1.0", "pageSize: must be an integer"),
        ("/tasks?pageSize=+1", "pageSize: must be an integer"),
        ("/tasks?pageSize=%D9%A1", "pageSize: must be an integer"),
        ("/tasks?pageSize=", "pageSize: must be an integer"),
        ("/tasks?pageSize=99999999999", "pageSize: must be between -2147483648 and 2147483647"),
        ("/tasks?pageSize=1&pageSize=2", "pageSize: is given more than once"),
        ("/tasks?pageSize=1&page_size=2", "pageSize: is given more than once"),
        ("/tasks?historyLength=-1", "historyLength: must not be negative"),
        ("/tasks/t?historyLength=-1", "historyLength: must not be negative"),
        ("/tasks?includeArtifacts=1", "includeArtifacts: must be true or false"),
        ("/tasks?includeArtifacts=True", "includeArtifacts: must be true or false"),
        ("/tasks?status=working", 'status: unknown value "working"; one of TASK_STATE_UNSP'),
        ("/tasks?status=2", 'status: unknown value "2"; one of TASK_STATE_UNSPECIFIED'),
        ("/v1/tasks?status=nope", 'status: unknown value "nope"; one of submitted'),
        ("/tasks?statusTimestampAfter=yesterday", "statusTimestampAfter: must be an ISO 8601"),
        ("/tasks?contextId=%FF", "query: is not valid UTF-8"),
    ],
)
def test_a_bad_query_names_its_parameter(target: str, text: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        decode("GET", target)
    assert refusal.value.message.startswith(text)
    assert refusal.value.violations


def test_a_query_may_be_text() -> None:
    route = match("GET", "/tasks", stated=None)
    assert rest.decode(route, "pageSize=2", b"") == ListTasksRequest(page_size=2)


@pytest.mark.parametrize(
    ("path", "body", "error", "text"),
    [
        ("/message:send", b"", ParseFailed, "empty"),
        ("/message:send", b"{", ParseFailed, "not valid JSON"),
        ("/message:send", b"[]", InvalidParams, "request: must be an object, got an array"),
        ("/v1/message:send", b"[]", InvalidParams, "request: must be an object, got an array"),
        ("/tasks/t:cancel", b"[]", InvalidParams, "request: must be an object, got an array"),
        ("/tasks/t:cancel", b'{"metadata":1}', InvalidParams, "metadata: must be an object"),
        ("/tasks/t/pushNotificationConfigs", b"{}", InvalidParams, "url: is required"),
        (
            "/v1/tasks/t/pushNotificationConfigs",
            b"{}",
            InvalidParams,
            "pushNotificationConfig: is required",
        ),
        (
            "/v1/tasks/t/pushNotificationConfigs",
            b'{"config":{"pushNotificationConfig":{"url":""}}}',
            InvalidParams,
            r"config\.pushNotificationConfig\.url: must not be empty",
        ),
    ],
)
def test_a_bad_body_is_told(path: str, body: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        decode("POST", path, body)


@pytest.mark.parametrize(
    ("accept", "sent", "answer"),
    [
        (None, None, rest.JSON),
        ("*/*", None, rest.JSON),
        ("application/*", None, rest.JSON),
        ("text/html", None, rest.JSON),
        ("*/*", "application/json; charset=utf-8", rest.JSON),
        ("*/*", "application/a2a+json", rest.A2A_JSON),
        (None, "application/a2a+json", rest.A2A_JSON),
        ("application/a2a+json", None, rest.A2A_JSON),
        ("application/json", "application/a2a+json", rest.JSON),
        ("text/event-stream, Application/A2A+JSON;q=0.9", "application/json", rest.A2A_JSON),
    ],
)
def test_the_answer_is_plain_json_unless_the_client_names_the_other_type(
    accept: str | None, sent: str | None, answer: str
) -> None:
    assert rest.content_type(accept, sent) == answer


@pytest.mark.parametrize(
    "sent", ["application/json", "application/a2a+json", "Application/JSON; charset=utf-8"]
)
def test_json_bodies_are_accepted(sent: str) -> None:
    rest.accepts_body(sent)


@pytest.mark.parametrize("sent", [None, "", "text/plain", "application/problem+json", "json"])
def test_other_bodies_are_refused(sent: str | None) -> None:
    with pytest.raises(WrongMediaType, match="application/a2a"):
        rest.accepts_body(sent)
