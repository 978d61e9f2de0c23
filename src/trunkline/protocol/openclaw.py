"""Errors as the inbound A2A plugin of OpenClaw words them, which some of its clients read.

Where the plugin would answer with a failure of its own, such as an internal error for a
field that is missing, the answer here says what is wrong with the request.
"""

from typing import Final

import msgspec

from trunkline.model.errors import (
    Case,
    ContentTypeNotSupported,
    InvalidParams,
    MethodNotFound,
    TaskNotCancelable,
    TrunklineError,
    UnsupportedOperation,
    WrongMediaType,
)
from trunkline.model.values import TaskState
from trunkline.protocol import errors
from trunkline.protocol.jsonrpc import Error
from trunkline.protocol.v03_names import STATE_NAMES
from trunkline.protocol.versions import Version

# Without `connection`: whether it is kept open is up to who holds the socket.
STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


# Code and text of what the class of an error does not tell. The names in the texts are those
# of the error's metadata.
_CASES: Final = {
    Case.NOT_JSONRPC: (-32600, "Invalid JSON-RPC Request."),
    Case.EMPTY_BODY: (-32600, "Invalid JSON-RPC Request."),
    Case.PARAMS: (-32602, "Invalid method parameters."),
    Case.FILE_PART: (
        -32602,
        "message.parts[{part}].kind=file is not supported; "
        "inbound A2A requests only accept text and data parts.",
    ),
    Case.OTHER_CONTEXT: (
        -32600,
        "Task {taskId} is bound to contextId {contextId}, not {givenContextId}.",
    ),
    Case.MESSAGE_TO_ENDED_TASK: (
        -32600,
        "Task {taskId} is in a terminal state ({state}) and cannot be modified.",
    ),
    Case.NO_EXTENDED_CARD: (
        -32004,
        "Unsupported operation: Agent does not support authenticated extended card.",
    ),
}


def error_of(error: Exception, version: Version) -> Error:
    if isinstance(error, TrunklineError) and error.case is not None:
        code, text = _CASES[error.case]
        return Error(code, text.format_map(_facts(error)))
    match error:
        case WrongMediaType():
            return Error(-32700, "Invalid request body type.")
        case MethodNotFound():
            return Error(-32601, f"Method not found: {error.metadata.get('method', '')}")
        case InvalidParams():
            return Error(-32602, _sentence(error))
        case ContentTypeNotSupported() if "availableOutputModes" in error.metadata:
            modes = ("acceptedOutputModes", "availableOutputModes")
            return Error(-32005, error.message, {name: _list(error, name) for name in modes})
        case UnsupportedOperation():
            return Error(-32004, f"Unsupported operation: {error.message}")
        case TaskNotCancelable():
            return Error(-32002, f"Task not cancelable: {error.metadata.get('taskId', '')}")
        case _:
            return Error(errors.jsonrpc_code(error, version), errors.message(error))


def http_status(error: Exception) -> int:
    # A body of the wrong type is the caller's mistake like any other here.
    return 200 if isinstance(error, WrongMediaType) else errors.http_status_for_jsonrpc(error)


def _list(error: TrunklineError, name: str) -> list[str]:
    return [item for item in error.metadata.get(name, "").split(", ") if item]


def _facts(error: TrunklineError) -> dict[str, str]:
    facts = dict(error.metadata)
    if "state" in facts:
        facts["state"] = STATE_NAMES[TaskState(facts["state"])]
    return facts


def _sentence(error: InvalidParams) -> str:
    if len(error.violations) != 1:
        return error.message
    field, description = error.violations[0].field, error.violations[0].description
    glue = " " if description.startswith(("is ", "must ")) else ": "
    return f"{field}{glue}{description}."


def not_running(account_id: str) -> bytes:
    """With 503."""
    message = "The requested A2A inbound account is not running."
    return _envelope("A2A_ACCOUNT_NOT_RUNNING", message, account_id)


def not_found(account_id: str) -> bytes:
    """With 404."""
    return _envelope(
        "A2A_ROUTE_NOT_FOUND", "No A2A inbound route matched this request.", account_id
    )


def _envelope(code: str, message: str, account_id: str) -> bytes:
    details = {"channel": "a2a", "accountId": account_id}
    return msgspec.json.encode({"error": {"code": code, "message": message, "details": details}})
