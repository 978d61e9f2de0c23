"""Good messages of each kind, binding and version, and a way to break them."""

import copy
from collections.abc import Callable
from typing import Any, Final

from trunkline.model.findings import Finding
from trunkline.protocol.checks import Sent, check
from trunkline.protocol.checks.messages import Binding, Dialect, Direction

TIME: Final = "2026-01-31T23:59:59.123Z"
MESSAGE: Final = {
    "messageId": "m",
    "role": "ROLE_USER",
    "parts": [{"text": "hi"}, {"data": None}, {"raw": "aGk=", "mediaType": "text/plain"}],
}
REPLY: Final = {"messageId": "r", "role": "ROLE_AGENT", "contextId": "c", "parts": [{"text": "yo"}]}
STATUS: Final = {"state": "TASK_STATE_COMPLETED", "message": REPLY, "timestamp": TIME}
ARTIFACT: Final = {"artifactId": "a", "parts": [{"text": "yo"}]}
TASK: Final = {
    "id": "t",
    "contextId": "c",
    "status": STATUS,
    "artifacts": [ARTIFACT],
    "history": [MESSAGE],
}
WORKING: Final = TASK | {"status": {"state": "TASK_STATE_WORKING", "timestamp": TIME}}
STATUS_UPDATE: Final = {"taskId": "t", "contextId": "c", "status": STATUS}
ARTIFACT_UPDATE: Final = {"taskId": "t", "contextId": "c", "artifact": ARTIFACT}
PUSH: Final = {
    "taskId": "t",
    "id": "p",
    "url": "https://x.test/hook",
    "authentication": {"scheme": "Bearer", "credentials": "x"},
}
PAGE: Final = {"tasks": [TASK], "nextPageToken": "", "pageSize": 50, "totalSize": 1}

MESSAGE_03: Final = {
    "kind": "message",
    "messageId": "m",
    "role": "user",
    "parts": [
        {"kind": "text", "text": "hi"},
        {"kind": "data", "data": {"a": 1}},
        {"kind": "file", "file": {"bytes": "aGk=", "name": "x", "mimeType": "text/plain"}},
    ],
}
REPLY_03: Final = MESSAGE_03 | {"role": "agent", "contextId": "c"}
STATUS_03: Final = {"state": "completed", "message": REPLY_03, "timestamp": TIME}
ARTIFACT_03: Final = {"artifactId": "a", "parts": [{"kind": "text", "text": "yo"}]}
TASK_03: Final = {
    "kind": "task",
    "id": "t",
    "contextId": "c",
    "status": STATUS_03,
    "artifacts": [ARTIFACT_03],
    "history": [MESSAGE_03],
}
WORKING_03: Final = TASK_03 | {"status": {"state": "working"}}
STATUS_UPDATE_03: Final = {
    "kind": "status-update",
    "taskId": "t",
    "contextId": "c",
    "status": STATUS_03,
    "final": True,
}
ARTIFACT_UPDATE_03: Final = {
    "kind": "artifact-update",
    "taskId": "t",
    "contextId": "c",
    "artifact": ARTIFACT_03,
}
PUSH_03: Final = {
    "taskId": "t",
    "pushNotificationConfig": {
        "url": "https://x.test/hook",
        "authentication": {"schemes": ["Bearer"]},
    },
}
MESSAGE_REST_03: Final = {
    "messageId": "m",
    "role": "ROLE_USER",
    "content": [
        {"text": "hi"},
        {"file": {"fileWithUri": "https://x.test/f"}},
        {"data": {"data": {}}},
    ],
}
TASK_REST_03: Final = {
    "id": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_CANCELLED"},
    "history": [MESSAGE_REST_03],
}
ERROR_INFO: Final = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "TASK_NOT_FOUND",
    "domain": "a2a-protocol.org",
    "metadata": {"taskId": "t"},
}
RPC_ERROR: Final = {"code": -32001, "message": "no such task", "data": [ERROR_INFO]}
REST_ERROR: Final = {
    "error": {
        "code": 404,
        "status": "NOT_FOUND",
        "message": "no such task",
        "details": [ERROR_INFO],
    }
}


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def result(value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": value}


def sent(
    direction: Direction,
    binding: Binding,
    version: Dialect,
    operation: str,
    body: Any,
    **known: Any,
) -> Sent:
    return Sent(
        direction=direction,
        binding=binding,
        version=version,
        operation=operation,
        body=copy.deepcopy(body),
        **known,
    )


def request_10(operation: str, params: Any) -> Sent:
    return sent("request", "jsonrpc", "1.0", operation, rpc(operation, params))


def request_03(operation: str, method: str, params: Any) -> Sent:
    return sent("request", "jsonrpc", "0.3", operation, rpc(method, params))


def response(version: Dialect, operation: str, value: Any) -> Sent:
    return sent("response", "jsonrpc", version, operation, result(value), status=200)


CONFIGURATION: Final = {
    "acceptedOutputModes": ["text/plain"],
    "historyLength": 0,
    "returnImmediately": True,
    "taskPushNotificationConfig": {"url": "https://x.test/hook"},
}
GOOD: Final[dict[str, Sent]] = {
    "send": request_10("SendMessage", {"message": MESSAGE, "configuration": CONFIGURATION}),
    "stream": request_10("SendStreamingMessage", {"message": MESSAGE, "tenant": "t"}),
    "get": request_10("GetTask", {"id": "t", "historyLength": 3}),
    "list": request_10("ListTasks", {"status": "TASK_STATE_WORKING", "pageSize": 100}),
    "list-without": sent(
        "request", "jsonrpc", "1.0", "", {"jsonrpc": "2.0", "id": None, "method": "ListTasks"}
    ),
    "cancel": request_10("CancelTask", {"id": "t", "metadata": {}}),
    "subscribe": request_10("SubscribeToTask", {"id": "t"}),
    "push-set": request_10("CreateTaskPushNotificationConfig", PUSH),
    "push-get": request_10("GetTaskPushNotificationConfig", {"taskId": "t", "id": "p"}),
    "push-list": request_10("ListTaskPushNotificationConfigs", {"taskId": "t"}),
    "push-delete": request_10("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "p"}),
    "card": sent(
        "request",
        "jsonrpc",
        "1.0",
        "",
        {"jsonrpc": "2.0", "id": "1", "method": "GetExtendedAgentCard"},
    ),
    "sent-task": response("1.0", "SendMessage", {"task": TASK}),
    "sent-message": response("1.0", "SendMessage", {"message": REPLY}),
    "task": response("1.0", "GetTask", TASK),
    "page": response("1.0", "ListTasks", PAGE),
    "push": response("1.0", "CreateTaskPushNotificationConfig", PUSH),
    "pushes": response("1.0", "ListTaskPushNotificationConfigs", {"configs": [PUSH]}),
    "deleted": response("1.0", "DeleteTaskPushNotificationConfig", {}),
    "event-task": sent("event", "jsonrpc", "1.0", "", result({"task": TASK})),
    "event-status": sent("event", "rest", "1.0", "", {"statusUpdate": STATUS_UPDATE}),
    "event-artifact": sent("event", "rest", "1.0", "", {"artifactUpdate": ARTIFACT_UPDATE}),
    "event-message": sent("event", "rest", "1.0", "", {"message": REPLY}),
    "event-error": sent("event", "rest", "1.0", "", REST_ERROR),
    "rpc-error": sent(
        "response",
        "jsonrpc",
        "1.0",
        "GetTask",
        {"jsonrpc": "2.0", "id": None, "error": RPC_ERROR},
        status=200,
    ),
    "rest-error": sent("response", "rest", "1.0", "GetTask", REST_ERROR, status=404),
    "rest-send": sent("request", "rest", "1.0", "SendMessage", {"message": MESSAGE}),
    "rest-get": sent("request", "rest", "1.0", "GetTask", b""),
    "rest-cancel": sent("request", "rest", "1.0", "CancelTask", None),
    "rest-task": sent("response", "rest", "1.0", "GetTask", TASK, status=200),
    "rest-deleted": sent(
        "response", "rest", "1.0", "DeleteTaskPushNotificationConfig", b"", status=204
    ),
    "send-03": request_03(
        "SendMessage",
        "message/send",
        {"message": MESSAGE_03, "configuration": {"blocking": True, "historyLength": 1}},
    ),
    "get-03": request_03("GetTask", "tasks/get", {"id": "t"}),
    "push-set-03": request_03("", "tasks/pushNotificationConfig/set", PUSH_03),
    "push-get-03": request_03("", "tasks/pushNotificationConfig/get", {"id": "t"}),
    "sent-task-03": response("0.3", "message/send", TASK_03),
    "sent-message-03": response("0.3", "message/send", REPLY_03),
    "task-03": response("0.3", "tasks/get", TASK_03),
    "pushes-03": response("0.3", "tasks/pushNotificationConfig/list", [PUSH_03]),
    "deleted-03": response("0.3", "tasks/pushNotificationConfig/delete", None),
    "event-task-03": sent("event", "jsonrpc", "0.3", "", result(WORKING_03)),
    "event-status-03": sent("event", "jsonrpc", "0.3", "", result(STATUS_UPDATE_03)),
    "event-artifact-03": sent("event", "jsonrpc", "0.3", "", result(ARTIFACT_UPDATE_03)),
    "rpc-error-03": sent(
        "response",
        "jsonrpc",
        "0.3",
        "tasks/get",
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32007, "message": "no", "data": "any"}},
    ),
    "rest-send-03": sent(
        "request",
        "rest",
        "0.3",
        "SendMessage",
        {"request": MESSAGE_REST_03, "configuration": {"blocking": True}},
    ),
    "rest-send-03-prose": sent("request", "rest", "0.3", "SendMessage", {"message": MESSAGE_03}),
    "rest-task-03": sent("response", "rest", "0.3", "GetTask", TASK_REST_03),
    "rest-sent-03": sent("response", "rest", "0.3", "SendMessage", {"task": TASK_REST_03}),
    "rest-sent-03-prose": sent("response", "rest", "0.3", "SendMessage", TASK_03),
    "rest-push-03": sent(
        "request",
        "rest",
        "0.3",
        "CreateTaskPushNotificationConfig",
        {"config": {"pushNotificationConfig": PUSH_03["pushNotificationConfig"]}},
    ),
    "rest-pushes-03": sent(
        "response", "rest", "0.3", "ListTaskPushNotificationConfigs", {"configs": [PUSH_03]}
    ),
    "rest-pushes-03-prose": sent(
        "response", "rest", "0.3", "ListTaskPushNotificationConfigs", [PUSH_03]
    ),
    "rest-error-03": sent("response", "rest", "0.3", "GetTask", {"anything": 1}, status=404),
}


def at(tree: Any, path: str) -> tuple[Any, Any]:
    """The object or list that holds the place, and its key there."""
    *names, last = path.split("/")
    for name in names:
        tree = tree[int(name)] if isinstance(tree, list) else tree[name]
    return tree, int(last) if isinstance(tree, list) else last


def broken(name: str, path: str, change: Any) -> list[Finding]:
    """The findings for a good message with another value at a place; `...` takes the value away,
    and a function changes it."""
    good = GOOD[name]
    body = {"": copy.deepcopy(good.body)}
    holder, key = at(body, f"/{path}" if path else "")
    if change is ...:
        del holder[key]
    elif callable(change):
        changing: Callable[[Any], Any] = change
        holder[key] = changing(holder[key])
    else:
        holder[key] = change
    return check(
        Sent(
            direction=good.direction,
            binding=good.binding,
            version=good.version,
            operation=good.operation,
            status=good.status,
            body=body[""],
        )
    )
