"""Each rule has a bad example that is found where it is, and good messages have no finding."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.check_examples import (
    ARTIFACT,
    ERROR_INFO,
    GOOD,
    MESSAGE,
    REPLY,
    REST_ERROR,
    RPC_ERROR,
    TASK,
    broken,
    result,
    rpc,
    sent,
)
from tests.unit.protocol.strategies import few, json_values

from trunkline.model.findings import Finding
from trunkline.protocol.checks import MAX_FINDINGS, Sent, check, check_order
from trunkline.protocol.checks.findings import MAX_VALUES


@pytest.mark.parametrize("name", GOOD)
def test_good_messages_have_no_findings(name: str) -> None:
    assert check(GOOD[name]) == []


@pytest.mark.parametrize("name", GOOD)
def test_the_bytes_of_a_message_have_the_findings_of_its_tree(name: str) -> None:
    good = GOOD[name]
    if good.body:
        body = json.dumps(good.body)
        for form in (body, body.encode(), bytearray(body.encode())):
            copy = Sent(
                direction=good.direction,
                binding=good.binding,
                version=good.version,
                operation=good.operation,
                status=good.status,
                body=form,
            )
            assert check(copy) == []


def also(**members: Any) -> Any:
    """The object with these members."""
    return lambda tree: tree | members


# The message, the place that is changed, the change, and what is found: severity, rule, pointer.
BAD: list[tuple[str, str, Any, str, str, str]] = [
    # The envelope.
    ("send", "", [], "error", "JSON-RPC 2.0 §4", ""),
    ("send", "", "null", "error", "JSON-RPC 2.0 §4", ""),
    ("send", "jsonrpc", ..., "error", "JSON-RPC 2.0 §4", ""),
    ("send", "jsonrpc", "1.0", "error", "JSON-RPC 2.0 §4", "/jsonrpc"),
    ("send", "jsonrpc", 2.0, "error", "JSON-RPC 2.0 §4", "/jsonrpc"),
    ("send", "id", ..., "error", "JSON-RPC 2.0 §4", ""),
    ("send", "id", {}, "error", "JSON-RPC 2.0 §4", "/id"),
    ("send", "id", True, "error", "JSON-RPC 2.0 §4", "/id"),
    ("send", "id", 1.5, "warning", "JSON-RPC 2.0 §4", "/id"),
    ("send", "method", ..., "error", "JSON-RPC 2.0 §4", ""),
    ("send", "method", 7, "error", "JSON-RPC 2.0 §4", "/method"),
    ("send", "method", "sendMessage", "error", "A2A 1.0 §9", "/method"),
    ("send", "method", "message/send", "error", "A2A 1.0 §9", "/method"),
    ("send", "method", "GetTask", "error", "A2A 1.0 §9", "/method"),
    ("send-03", "method", "SendMessage", "error", "A2A 0.3 methods", "/method"),
    ("get-03", "method", "tasks/list", "note", "A2A 0.3 methods", "/method"),
    ("send", "params", ..., "error", "JSON-RPC 2.0 §4", ""),
    ("send", "params", [], "error", "JSON-RPC 2.0 §4", "/params"),
    ("send", "", also(extra=1), "note", "JSON-RPC 2.0 §4", "/extra"),
    ("task", "", [], "error", "JSON-RPC 2.0 §5", ""),
    ("task", "", 3, "error", "JSON-RPC 2.0 §5", ""),
    ("task", "result", ..., "error", "JSON-RPC 2.0 §5", ""),
    ("task", "", also(error=RPC_ERROR), "error", "JSON-RPC 2.0 §5", ""),
    ("task", "id", None, "warning", "JSON-RPC 2.0 §5", "/id"),
    ("task", "id", ..., "error", "JSON-RPC 2.0 §5", ""),
    # Errors of JSON-RPC.
    ("rpc-error", "error", "no", "error", "JSON-RPC 2.0 §5.1", "/error"),
    ("rpc-error", "error/code", "1", "error", "JSON-RPC 2.0 §5.1", "/error/code"),
    ("rpc-error", "error/code", ..., "error", "JSON-RPC 2.0 §5.1", "/error"),
    ("rpc-error", "error/code", -32300, "error", "JSON-RPC 2.0 §5.1", "/error/code"),
    ("rpc-error", "error/code", 7, "note", "JSON-RPC 2.0 §5.1", "/error/code"),
    ("rpc-error", "error/code", -32002, "error", "A2A 1.0 §5.4", "/error/code"),
    ("rpc-error", "error/message", ..., "error", "JSON-RPC 2.0 §5.1", "/error"),
    ("rpc-error", "error", also(extra=1), "note", "JSON-RPC 2.0 §5.1", "/error/extra"),
    ("rpc-error", "error/data", ..., "warning", "A2A 1.0 §9", "/error/data"),
    ("rpc-error", "error/data", {}, "error", "A2A 1.0 §9", "/error/data"),
    ("rpc-error", "error/data", [], "warning", "A2A 1.0 §9", "/error/data"),
    ("rpc-error", "error/data/0", {}, "error", "A2A 1.0 §9", "/error/data/0"),
    ("rpc-error", "error/data/0/reason", ..., "error", "A2A 1.0 §9", "/error/data/0"),
    ("rpc-error", "error/data/0/domain", ..., "error", "A2A 1.0 §9", "/error/data/0"),
    (
        "rpc-error",
        "error/data/0/reason",
        "OUT_OF_PAPER",
        "warning",
        "A2A 1.0 §5.4",
        "/error/data/0/reason",
    ),
    (
        "rpc-error",
        "error/data/0/metadata",
        {"n": 1},
        "error",
        "A2A 1.0 §9",
        "/error/data/0/metadata",
    ),
    ("rpc-error-03", "error/code", -32009, "warning", "A2A 0.3 §8.2", "/error/code"),
    # Errors of HTTP+JSON.
    ("rest-error", "", {"title": "no", "detail": "x"}, "error", "A2A 1.0 §11.6", ""),
    ("rest-error", "error/code", 400, "error", "A2A 1.0 §11.6", "/error/code"),
    ("rest-error", "error/code", ..., "error", "A2A 1.0 §11.6", "/error"),
    ("rest-error", "error/status", ..., "error", "A2A 1.0 §11.6", "/error"),
    ("rest-error", "error/status", "INTERNAL", "warning", "A2A 1.0 §11.6", "/error/status"),
    ("rest-error", "error/message", 1, "error", "A2A 1.0 §11.6", "/error"),
    ("rest-error", "error/details", {}, "error", "A2A 1.0 §11.6", "/error/details"),
    (
        "rest-error",
        "error/details/0/reason",
        "TASK_NOT_CANCELABLE",
        "error",
        "A2A 1.0 §5.4",
        "/error/code",
    ),
    ("event-error", "error/code", 200, "error", "A2A 1.0 §11.6", "/error/code"),
    ("rest-error-03", "", [], "warning", "A2A 0.3 REST", ""),
    # Messages.
    ("send", "params/message", ..., "error", "A2A 1.0 SendMessageRequest", "/params"),
    ("send", "params/message", [], "error", "A2A 1.0 Message", "/params/message"),
    ("send", "params/message/messageId", ..., "error", "A2A 1.0 Message", "/params/message"),
    (
        "send",
        "params/message/messageId",
        "",
        "error",
        "A2A 1.0 Message",
        "/params/message/messageId",
    ),
    (
        "send",
        "params/message/messageId",
        3,
        "error",
        "A2A 1.0 Message",
        "/params/message/messageId",
    ),
    ("send", "params/message/messageId", None, "error", "A2A 1.0 Message", "/params/message"),
    ("send", "params/message/role", ..., "error", "A2A 1.0 Message", "/params/message"),
    ("send", "params/message/role", "user", "error", "A2A 1.0 Role", "/params/message/role"),
    (
        "send",
        "params/message/role",
        "ROLE_UNSPECIFIED",
        "error",
        "A2A 1.0 Role",
        "/params/message/role",
    ),
    ("send", "params/message/role", 1, "error", "A2A 1.0 Role", "/params/message/role"),
    (
        "send",
        "params/message/role",
        "ROLE_AGENT",
        "warning",
        "A2A 1.0 Role",
        "/params/message/role",
    ),
    ("send", "params/message/parts", [], "error", "A2A 1.0 Part", "/params/message/parts"),
    ("send", "params/message/parts", {}, "error", "A2A 1.0 Part", "/params/message/parts"),
    ("send", "params/message/parts/0", {}, "error", "A2A 1.0 Part", "/params/message/parts/0"),
    ("send", "params/message/parts/0", "x", "error", "A2A 1.0 Part", "/params/message/parts/0"),
    (
        "send",
        "params/message/parts/0",
        {"text": "x", "data": None},
        "error",
        "A2A 1.0 Part",
        "/params/message/parts/0",
    ),
    (
        "send",
        "params/message/parts/0",
        {"kind": "text", "text": "x"},
        "warning",
        "A2A 1.0 Part",
        "/params/message/parts/0/kind",
    ),
    (
        "send",
        "params/message/parts/2/raw",
        "not base64!",
        "error",
        "A2A 1.0 Part",
        "/params/message/parts/2/raw",
    ),
    (
        "send",
        "params/message/parts/2/raw",
        7,
        "error",
        "A2A 1.0 Part",
        "/params/message/parts/2/raw",
    ),
    (
        "send",
        "params/message/parts/2/raw",
        "_-8",
        "warning",
        "A2A 1.0 Part",
        "/params/message/parts/2/raw",
    ),
    (
        "send",
        "params/message/parts/2/mediaType",
        "text",
        "warning",
        "A2A 1.0 Part",
        "/params/message/parts/2/mediaType",
    ),
    (
        "send",
        "params/message/parts/2/mediaType",
        1,
        "error",
        "A2A 1.0 Part",
        "/params/message/parts/2/mediaType",
    ),
    (
        "send",
        "params/message/parts/0",
        {"url": "pictures/a.png"},
        "warning",
        "A2A 1.0 Part",
        "/params/message/parts/0/url",
    ),
    (
        "send",
        "params/message/parts/0",
        {"url": 1},
        "error",
        "A2A 1.0 Part",
        "/params/message/parts/0/url",
    ),
    (
        "send",
        "params/message",
        also(metadata=[]),
        "error",
        "A2A 1.0 metadata",
        "/params/message/metadata",
    ),
    (
        "send",
        "params/message",
        also(extensions=["x"]),
        "warning",
        "A2A 1.0 extensions",
        "/params/message/extensions/0",
    ),
    (
        "send",
        "params/message",
        also(extensions=[1]),
        "error",
        "A2A 1.0 extensions",
        "/params/message/extensions/0",
    ),
    (
        "send",
        "params/message",
        also(task_id="t"),
        "warning",
        "A2A 1.0 JSON names",
        "/params/message/task_id",
    ),
    ("send", "params/message", also(x=1), "note", "A2A 1.0 Message", "/params/message/x"),
    (
        "send",
        "params/message",
        also(taskId=None),
        "note",
        "A2A 1.0 Message",
        "/params/message/taskId",
    ),
    (
        "send",
        "params/message",
        also(**{"a/b~c": 1}),
        "note",
        "A2A 1.0 Message",
        "/params/message/a~1b~0c",
    ),
    # Configurations and parameters.
    (
        "send",
        "params/configuration/historyLength",
        -1,
        "error",
        "A2A 1.0 historyLength",
        "/params/configuration/historyLength",
    ),
    (
        "send",
        "params/configuration/historyLength",
        "many",
        "error",
        "A2A 1.0 historyLength",
        "/params/configuration/historyLength",
    ),
    (
        "send",
        "params/configuration/returnImmediately",
        "true",
        "error",
        "A2A 1.0 §3.2.2",
        "/params/configuration/returnImmediately",
    ),
    (
        "send",
        "params/configuration",
        {"blocking": True},
        "warning",
        "A2A 1.0 §3.2.2",
        "/params/configuration/blocking",
    ),
    ("get", "params/id", ..., "error", "A2A 1.0 GetTaskRequest", "/params"),
    ("list", "params/pageSize", 101, "error", "A2A 1.0 §3.1.4", "/params/pageSize"),
    ("list", "params/pageSize", 0, "error", "A2A 1.0 §3.1.4", "/params/pageSize"),
    ("list", "params/pageSize", 2.5, "error", "A2A 1.0 §3.1.4", "/params/pageSize"),
    ("list", "params/status", "working", "error", "A2A 1.0 TaskState", "/params/status"),
    ("push-set", "params/url", "x", "error", "A2A 1.0 push notifications", "/params/url"),
    ("push-set", "params/url", 1, "error", "A2A 1.0 push notifications", "/params/url"),
    ("push-set", "params/url", "https://", "error", "A2A 1.0 push notifications", "/params/url"),
    (
        "push-set",
        "params/url",
        "https://[x/",
        "error",
        "A2A 1.0 push notifications",
        "/params/url",
    ),
    (
        "push-set",
        "params/url",
        "ftp://x.test",
        "warning",
        "A2A 1.0 push notifications",
        "/params/url",
    ),
    (
        "push-set",
        "params/authentication",
        {"schemes": ["Bearer"]},
        "error",
        "A2A 1.0 push notifications",
        "/params/authentication",
    ),
    (
        "push-set",
        "params",
        {"taskId": "t", "pushNotificationConfig": {}},
        "warning",
        "A2A 1.0 push notifications",
        "/params/pushNotificationConfig",
    ),
    ("rest-get", "", {"id": "t"}, "warning", "A2A 1.0 §11.5", ""),
    # Tasks.
    ("task", "result/id", ..., "error", "A2A 1.0 Task", "/result"),
    ("task", "result/status", ..., "error", "A2A 1.0 Task", "/result"),
    (
        "task",
        "result/status/state",
        "completed",
        "error",
        "A2A 1.0 TaskState",
        "/result/status/state",
    ),
    (
        "task",
        "result/status/state",
        "TASK_STATE_CANCELLED",
        "error",
        "A2A 1.0 TaskState",
        "/result/status/state",
    ),
    (
        "task",
        "result/status/state",
        "TASK_STATE_UNSPECIFIED",
        "error",
        "A2A 1.0 TaskState",
        "/result/status/state",
    ),
    (
        "task",
        "result/status/timestamp",
        "2026-01-31T23:59:59+00:00",
        "error",
        "A2A 1.0 timestamps",
        "/result/status/timestamp",
    ),
    (
        "task",
        "result/status/timestamp",
        "2026-02-31T23:59:59.000Z",
        "error",
        "A2A 1.0 timestamps",
        "/result/status/timestamp",
    ),
    (
        "task",
        "result/status/timestamp",
        1767225600,
        "error",
        "A2A 1.0 timestamps",
        "/result/status/timestamp",
    ),
    (
        "task",
        "result/status/timestamp",
        "2026-01-31T23:59:59Z",
        "note",
        "A2A 1.0 timestamps",
        "/result/status/timestamp",
    ),
    (
        "task",
        "result/status/timestamp",
        "2026-01-31T23:59:59.123",
        "error",
        "A2A 1.0 timestamps",
        "/result/status/timestamp",
    ),
    (
        "task",
        "result/status/message/role",
        "ROLE_USER",
        "warning",
        "A2A 1.0 Role",
        "/result/status/message/role",
    ),
    (
        "task",
        "result/artifacts/0/artifactId",
        ...,
        "error",
        "A2A 1.0 Artifact",
        "/result/artifacts/0",
    ),
    ("task", "result/artifacts/0/parts", [], "error", "A2A 1.0 Part", "/result/artifacts/0/parts"),
    (
        "task",
        "result/artifacts",
        [ARTIFACT, ARTIFACT],
        "error",
        "A2A 1.0 Artifact",
        "/result/artifacts/1/artifactId",
    ),
    ("task", "result", also(kind="task"), "warning", "A2A 1.0 Task", "/result/kind"),
    ("task", "result", {"task": TASK}, "error", "A2A 1.0 Task", "/result"),
    ("sent-task", "result", TASK, "error", "A2A 1.0 SendMessageResponse", "/result"),
    (
        "sent-task",
        "result",
        {"task": TASK, "message": REPLY},
        "error",
        "A2A 1.0 SendMessageResponse",
        "/result",
    ),
    (
        "sent-message",
        "result/message/contextId",
        ...,
        "warning",
        "A2A 1.0 Message",
        "/result/message",
    ),
    ("page", "result/tasks", ..., "error", "A2A 1.0 §3.1.4", "/result"),
    ("page", "result/nextPageToken", ..., "error", "A2A 1.0 §3.1.4", "/result"),
    ("page", "result/totalSize", ..., "error", "A2A 1.0 §3.1.4", "/result"),
    ("page", "result/pageSize", 0, "error", "A2A 1.0 §3.1.4", "/result/tasks"),
    ("deleted", "result", {"x": 1}, "warning", "A2A 1.0 push notifications", "/result"),
    # Events.
    (
        "event-status",
        "statusUpdate/taskId",
        ...,
        "error",
        "A2A 1.0 TaskStatusUpdateEvent",
        "/statusUpdate",
    ),
    (
        "event-status",
        "statusUpdate",
        also(final=True),
        "warning",
        "A2A 1.0 TaskStatusUpdateEvent",
        "/statusUpdate/final",
    ),
    (
        "event-artifact",
        "artifactUpdate",
        also(append="yes"),
        "error",
        "A2A 1.0 TaskArtifactUpdateEvent",
        "/artifactUpdate/append",
    ),
    ("event-status", "", {}, "error", "A2A 1.0 §3.2.3", ""),
    ("event-status", "", also(task=TASK), "error", "A2A 1.0 §3.2.3", ""),
    # 0.3.
    ("send-03", "params/message/kind", "task", "error", "A2A 0.3 kind", "/params/message/kind"),
    (
        "send-03",
        "params/message/role",
        "ROLE_USER",
        "error",
        "A2A 0.3 Role",
        "/params/message/role",
    ),
    (
        "send-03",
        "params/message/parts/0/kind",
        ...,
        "error",
        "A2A 0.3 Part",
        "/params/message/parts/0",
    ),
    (
        "send-03",
        "params/message/parts/0/kind",
        "data",
        "error",
        "A2A 0.3 Part",
        "/params/message/parts/0/kind",
    ),
    (
        "send-03",
        "params/message/parts/1/data",
        [1],
        "error",
        "A2A 0.3 §6.5.3",
        "/params/message/parts/1/data",
    ),
    (
        "send-03",
        "params/message/parts/2/file",
        {"name": "x"},
        "error",
        "A2A 0.3 FilePart",
        "/params/message/parts/2/file",
    ),
    (
        "send-03",
        "params/message/parts/0",
        {"kind": "text", "text": "x", "mediaType": "text/plain"},
        "warning",
        "A2A 0.3 Part",
        "/params/message/parts/0/mediaType",
    ),
    (
        "send-03",
        "params/message",
        also(task_id="t"),
        "note",
        "A2A 0.3 Message",
        "/params/message/task_id",
    ),
    ("task-03", "result/contextId", ..., "error", "A2A 0.3 Task", "/result"),
    ("task-03", "result/kind", ..., "error", "A2A 0.3 Task", "/result"),
    (
        "task-03",
        "result/status/state",
        "TASK_STATE_COMPLETED",
        "error",
        "A2A 0.3 TaskState",
        "/result/status/state",
    ),
    (
        "task-03",
        "result/status/timestamp",
        "2026-01-31T23:59:59",
        "warning",
        "A2A 0.3 timestamps",
        "/result/status/timestamp",
    ),
    ("sent-task-03", "result", {"task": {"id": "t"}}, "error", "A2A 0.3 kind", "/result/task"),
    ("sent-task-03", "result", 7, "error", "A2A 0.3 kind", "/result"),
    ("sent-task-03", "result/kind", ..., "error", "A2A 0.3 kind", "/result"),
    ("sent-task-03", "result/kind", "status-update", "error", "A2A 0.3 kind", "/result/kind"),
    ("event-status-03", "result/final", ..., "error", "A2A 0.3 §7.2.2", "/result"),
    ("event-status-03", "result/final", 1, "error", "A2A 0.3 §7.2.2", "/result/final"),
    (
        "event-status-03",
        "result/status/message/role",
        "user",
        "warning",
        "A2A 0.3 Role",
        "/result/status/message/role",
    ),
    ("deleted-03", "result", {"x": 1}, "warning", "A2A 0.3 push notifications", "/result"),
    ("rest-sent-03", "", {"task": {}, "message": {}}, "error", "A2A 0.3 REST", ""),
    ("rest-send-03", "", {"configuration": {}}, "error", "A2A 0.3 MessageSendParams", ""),
    ("rest-send-03", "request/content", [], "error", "A2A 0.3 Part", "/request/content"),
]


@pytest.mark.parametrize(
    ("name", "path", "change", "severity", "rule", "pointer"),
    BAD,
    ids=lambda value: None if isinstance(value, dict | list) or callable(value) else str(value),
)
def test_bad_messages(
    name: str, path: str, change: Any, severity: str, rule: str, pointer: str
) -> None:
    found = broken(name, path, change)
    assert (rule, severity, pointer) in [(f.rule, f.severity, f.pointer) for f in found], found
    # One fault is not told many times.
    assert len(found) <= 4, found
    assert all(each.text for each in found)


def test_every_list_of_0_3_says_that_0_3_has_none() -> None:
    page = {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    found = check(sent("response", "jsonrpc", "0.3", "ListTasks", result(page)))
    assert [(each.severity, each.rule) for each in found] == [("note", "A2A 0.3 tasks/list")]


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
@pytest.mark.parametrize("direction", ["request", "response"])
def test_an_operation_that_is_not_known_is_not_checked_and_says_so(
    binding: Any, direction: Any
) -> None:
    body: Any = {"what": "ever"}
    if binding == "jsonrpc":
        body = result({"x": 1}) if direction == "response" else rpc("Frobnicate", {"x": 1})
    [finding] = check(sent(direction, binding, "1.0", "", body))
    expected = "error" if (binding, direction) == ("jsonrpc", "request") else "note"
    assert finding.severity == expected


HEADERS = {"content-type": "application/json", "a2a-version": "1.0"}


def with_headers(headers: dict[str, str], name: str = "get", **known: Any) -> list[Finding]:
    good = GOOD[name]
    return check(
        Sent(
            direction=good.direction,
            binding=good.binding,
            version=good.version,
            operation=good.operation,
            status=known.pop("status", good.status),
            headers=headers,
            body=good.body,
            **known,
        )
    )


def test_good_headers() -> None:
    assert with_headers(HEADERS) == []
    assert (
        with_headers({"Content-Type": "application/json; charset=utf-8"}, query="A2A-Version=1.0")
        == []
    )
    assert with_headers({"content-type": "application/a2a+json"}, "rest-task") == []
    assert with_headers({"content-type": "application/json"}, "task") == []
    assert with_headers({"content-type": "application/json"}, "send-03") == []
    assert with_headers({}, "rest-deleted") == []
    assert with_headers({"content-type": "text/event-stream"}, "rest-error") != []


@pytest.mark.parametrize(
    ("headers", "query", "severity", "rule"),
    [
        ({"content-type": "text/plain", "a2a-version": "1.0"}, "", "error", "A2A 1.0 §9"),
        ({"a2a-version": "1.0"}, "", "error", "A2A 1.0 §9"),
        ({"content-type": "application/json"}, "", "error", "A2A 1.0 §3.6.2"),
        ({"content-type": "application/json"}, None, "warning", "A2A 1.0 §3.6.2"),
        (HEADERS | {"a2a-version": "1.0.1"}, "", "warning", "A2A 1.0 §3.6"),
        (HEADERS | {"a2a-version": "0.3"}, "", "error", "A2A 1.0 §3.6"),
        (HEADERS | {"a2a-version": "one"}, "", "error", "A2A 1.0 §3.6"),
        (HEADERS, "A2A-Version=0.3", "warning", "A2A 1.0 §3.6"),
        (HEADERS, "&" * 2000, "none", ""),
        (HEADERS, "x" * 70_000, "none", ""),
    ],
)
def test_headers_of_requests(
    headers: dict[str, str], query: str | None, severity: str, rule: str
) -> None:
    found = with_headers(headers, query=query)
    expected = [] if severity == "none" else [(severity, rule)]
    assert [(each.severity, each.rule) for each in found] == expected


def test_headers_of_responses() -> None:
    [finding] = with_headers({"content-type": "text/html"}, "task")
    assert (finding.severity, finding.rule) == ("error", "A2A 1.0 §9")
    [finding] = with_headers({}, "rest-task")
    assert (finding.severity, finding.rule) == ("error", "A2A 1.0 §11.1")
    stream = {"direction": "response", "binding": "rest", "operation": "SendStreamingMessage"}
    body = json.dumps({"statusUpdate": {}})
    found = check(Sent(**stream, status=200, headers={"content-type": "text/plain"}, body=body))  # type: ignore[arg-type]
    assert ("error", "A2A 1.0 §11.1") in [(each.severity, each.rule) for each in found]


def test_a_result_with_the_status_of_an_error() -> None:
    [finding] = with_headers({"content-type": "application/json"}, "task", status=500)
    assert (finding.severity, finding.rule) == ("warning", "JSON-RPC 2.0 §5")


def test_statuses_of_1_0_0_are_told_as_such() -> None:
    info = ERROR_INFO | {"reason": "TASK_NOT_CANCELABLE"}
    error = {"code": 409, "status": "ABORTED", "message": "no", "details": [info]}
    found = check(sent("response", "rest", "1.0", "CancelTask", {"error": error}, status=409))
    assert [(each.severity, each.rule) for each in found] == [("note", "A2A 1.0 §5.4")]


def test_details_that_name_fields() -> None:
    kind = "type.googleapis.com/google.rpc.BadRequest"
    good = {"@type": kind, "fieldViolations": [{"field": "id", "description": "is missing"}]}
    for detail, count in (
        (good, 0),
        ({"@type": kind}, 1),
        (good | {"fieldViolations": [{}]}, 1),
        ({"@type": "type.googleapis.com/google.rpc.Help"}, 0),
    ):
        error = REST_ERROR["error"] | {"details": [ERROR_INFO, detail]}
        assert len(check(sent("response", "rest", "1.0", "", {"error": error}))) == count
    own = ERROR_INFO | {"domain": "example.org", "reason": "OUT_OF_PAPER"}
    error = RPC_ERROR | {"data": [own]}
    assert (
        check(sent("response", "jsonrpc", "1.0", "", {"jsonrpc": "2.0", "id": 1, "error": error}))
        == []
    )


HUB_TASK = {"id": "t", "contextId": "c", "status": {"state": "COMPLETED", "timestamp": "x"}}


@pytest.mark.parametrize(
    "message",
    [
        sent("response", "jsonrpc", "1.0", "SendMessage", result(HUB_TASK)),
        sent("response", "jsonrpc", "1.0", "SendMessage", HUB_TASK),
        sent("event", "jsonrpc", "1.0", "", {"task": HUB_TASK}),
        sent("event", "rest", "1.0", "", {"statusUpdate": {"status": {"state": "WORKING"}}}),
        sent("request", "jsonrpc", "hub", "SendMessage", "whatever"),
    ],
)
def test_the_form_of_hubs_is_told_with_one_note(message: Sent) -> None:
    [note] = check(message)
    assert note.severity == "note"
    assert "not A2A" in note.text


HOSTILE: dict[str, bytes | str] = {
    "nothing": b"",
    "no-json": b"hello",
    "half": b'{"jsonrpc":"2.0"',
    "nul": b'{"jsonrpc":"2.0\0"}',
    "escaped-nul": rb'{"jsonrpc":"\u0000"}',
    "surrogate": rb'{"jsonrpc":"\ud800"}',
    "lone-surrogate": '"\ud800"',
    "latin": b'"\xff"',
    "deep": b"[" * 100_000,
    "deep-whole": b"[" * 5000 + b"]" * 5000,
    "deep-objects": b'{"a":' * 50_000,
    "many": b"[" + b"1," * 1_000_000 + b"1]",
    "many-members": json.dumps({f"m{number}": 1 for number in range(90_000)}).encode(),
    "long-text": json.dumps("x" * 10_000_000).encode(),
    "long-name": json.dumps({"x" * 5_000_000: 1}).encode(),
    "long-number": b"1" * 1_000_000,
    "infinite": b"1e999",
    "nan": b"NaN",
    "twice": b'{"jsonrpc":"2.0","jsonrpc":"1.0"}',
}


@pytest.mark.parametrize("direction", ["request", "response", "event", "card"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies(name: str, direction: Any) -> None:
    for binding in ("jsonrpc", "rest"):
        found = check(sent(direction, binding, "1.0", "SendMessage", HOSTILE[name]))
        assert len(found) <= MAX_FINDINGS + 2
        assert sum(len(each.text) + len(each.pointer) for each in found) < 100_000


def test_the_number_of_findings_and_of_values_is_bounded() -> None:
    parts = [{"kind": "text"} for _ in range(MAX_FINDINGS)]
    body = rpc("SendMessage", {"message": MESSAGE | {"parts": parts}})
    found = check(sent("request", "jsonrpc", "1.0", "", body))
    assert len(found) == MAX_FINDINGS + 1
    assert found[-1].text == f"{MAX_FINDINGS} more findings are not shown"
    body["params"] = {"message": MESSAGE | {"parts": [{"text": "x"}] * MAX_VALUES}}
    *_, last = check(sent("request", "jsonrpc", "1.0", "", body))
    assert last.text == "only the first 50,000 values were checked"


def test_texts_of_a_message_are_shown_as_harmless_ones() -> None:
    evil = "\u202e\x1b[31m\ud800<script>" + "x" * 1000
    found = check(sent("request", "jsonrpc", "1.0", "", rpc("GetTask", {"id": "t", evil: evil})))
    [finding] = found
    for text in (finding.text, finding.pointer):
        assert text.isprintable()
        assert len(text) < 300
        text.encode()


@few
@given(
    body=json_values,
    direction=st.sampled_from(["request", "response", "event", "card"]),
    binding=st.sampled_from(["jsonrpc", "rest"]),
    version=st.sampled_from(["1.0", "0.3", "hub"]),
    operation=st.sampled_from(["", "SendMessage", "message/stream", "GetTask", "ListTasks", "x"]),
    status=st.none() | st.integers(100, 599),
)
def test_no_message_raises(
    body: Any, direction: Any, binding: Any, version: Any, operation: str, status: int | None
) -> None:
    check(sent(direction, binding, version, operation, body, status=status, headers={}))


@few
@given(data=st.data())
def test_no_damaged_message_raises(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(GOOD)))
    tree = {
        "": json.loads(
            json.dumps(GOOD[name].body if not isinstance(GOOD[name].body, bytes) else None)
        )
    }
    places: list[tuple[Any, Any]] = []

    def walk(holder: Any, key: Any) -> None:
        places.append((holder, key))
        value = holder[key]
        inner = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        for each, _ in inner:
            walk(value, each)

    walk(tree, "")
    holder, key = data.draw(st.sampled_from(range(len(places))).map(places.__getitem__))
    holder[key] = data.draw(json_values)
    good = GOOD[name]
    check(sent(good.direction, good.binding, good.version, good.operation, tree[""]))


@few
@given(st.binary(max_size=60))
def test_no_bytes_raise(body: bytes) -> None:
    check(sent("response", "jsonrpc", "1.0", "SendMessage", body))


def test_trees_that_are_too_deep_do_not_raise() -> None:
    for name in ("result", "task", "params", "error", "id", "parts"):
        tree: Any = {}
        for _ in range(100_000):
            tree = {name: tree}
        for direction in ("request", "response", "event", "card"):
            check(sent_as_it_is(direction, tree))
        check_order([tree, {"id": tree}, tree], binding="jsonrpc")
        while tree:
            # Python takes down nested objects one inside the other.
            tree = tree.pop(name)


def sent_as_it_is(direction: Any, tree: Any) -> Sent:
    return Sent(direction=direction, operation="SendMessage", body=tree)


def test_values_that_are_no_json_do_not_raise() -> None:
    for value in (object(), {1, 2}, {1: 2}, 10**6000, float("nan"), b"{", [object()]):
        for name in GOOD:
            check(sent(GOOD[name].direction, GOOD[name].binding, GOOD[name].version, name, value))
        broken("send", "params/message/messageId", value)
        broken("list", "params/pageSize", value)
