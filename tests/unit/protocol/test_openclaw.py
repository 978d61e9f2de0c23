import json

import pytest

from trunkline.model import errors as model
from trunkline.model.errors import Case
from trunkline.protocol import openclaw as openclaw
from trunkline.protocol.jsonrpc import Error
from trunkline.protocol.versions import Version

FACTS = {
    "part": "2",
    "taskId": "t",
    "contextId": "a",
    "givenContextId": "b",
    "state": "TASK_STATE_COMPLETED",
}


def said(error: Exception) -> Error:
    return openclaw.error_of(error, Version.V0_3)


@pytest.mark.parametrize(
    ("case", "code", "message"),
    [
        (Case.NOT_JSONRPC, -32600, "Invalid JSON-RPC Request."),
        (Case.EMPTY_BODY, -32600, "Invalid JSON-RPC Request."),
        (Case.PARAMS, -32602, "Invalid method parameters."),
        (
            Case.FILE_PART,
            -32602,
            "message.parts[2].kind=file is not supported; inbound A2A requests only accept text "
            "and data parts.",
        ),
        (Case.OTHER_CONTEXT, -32600, "Task t is bound to contextId a, not b."),
        (
            Case.MESSAGE_TO_ENDED_TASK,
            -32600,
            "Task t is in a terminal state (completed) and cannot be modified.",
        ),
        (
            Case.NO_EXTENDED_CARD,
            -32004,
            "Unsupported operation: Agent does not support authenticated extended card.",
        ),
    ],
)
def test_every_case_has_its_words(case: Case, code: int, message: str) -> None:
    error = model.CallerError("ours", metadata=FACTS, case=case)
    assert said(error) == Error(code, message)


def test_no_case_is_without_words() -> None:
    # OpenClaw has no grants.
    for case in set(Case) - {Case.NOT_GRANTED}:
        assert said(model.CallerError("ours", metadata=FACTS, case=case)).message != "ours"


def test_a_missing_grant_is_said_as_everywhere() -> None:
    error = model.PermissionDenied("This credential may not", case=Case.NOT_GRANTED)
    assert said(error) == said(model.PermissionDenied("This credential may not"))


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (model.WrongMediaType("x"), -32700, "Invalid request body type."),
        (model.ParseFailed("the body is not JSON"), -32700, "the body is not JSON"),
        (model.InvalidRequest("nested too deeply"), -32600, "nested too deeply"),
        (
            model.MethodNotFound("x", metadata={"method": "tasks/list"}),
            -32601,
            "Method not found: tasks/list",
        ),
        (model.InvalidParams.at("id", "is required"), -32602, "id is required."),
        (model.InvalidParams.at("id", "must be short"), -32602, "id must be short."),
        (model.InvalidParams.at("role", "unknown value"), -32602, "role: unknown value."),
        (model.InvalidParams("several"), -32602, "several"),
        (model.UnsupportedOperation("No streams"), -32004, "Unsupported operation: No streams"),
        (
            model.TaskNotCancelable("x", metadata={"taskId": "t"}),
            -32002,
            "Task not cancelable: t",
        ),
        (model.TaskNotFound("t"), -32001, "Task not found: t"),
        (model.VersionNotSupported("x"), -32004, "x"),
        (RuntimeError("secret"), -32603, "Internal error"),
        (model.GatewayBug("secret"), -32603, "Internal error"),
    ],
)
def test_other_errors(error: Exception, code: int, message: str) -> None:
    assert said(error) == Error(code, message)


def test_modes_that_do_not_meet_are_listed() -> None:
    metadata = {"acceptedOutputModes": "image/png, audio/*", "availableOutputModes": "text/plain"}
    assert said(model.ContentTypeNotSupported("no way", metadata=metadata)) == Error(
        -32005,
        "no way",
        {
            "acceptedOutputModes": ["image/png", "audio/*"],
            "availableOutputModes": ["text/plain"],
        },
    )
    nothing = model.ContentTypeNotSupported("x", metadata={"availableOutputModes": ""})
    assert said(nothing).data == {"acceptedOutputModes": [], "availableOutputModes": []}
    assert said(model.ContentTypeNotSupported("x")) == Error(-32005, "x")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (model.WrongMediaType("x"), 200),
        (model.TaskNotFound("t"), 200),
        (model.ParseFailed("x"), 200),
        (RuntimeError(), 200),
        (model.PayloadTooLarge("x"), 413),
        (model.Unauthenticated("x"), 401),
        (model.WrongHttpMethod("x", allow="POST"), 405),
    ],
)
def test_what_is_of_jsonrpc_has_the_status_200(error: Exception, status: int) -> None:
    assert openclaw.http_status(error) == status


def test_the_errors_of_an_account_name_it() -> None:
    for body, code in (
        (openclaw.not_running("main"), "A2A_ACCOUNT_NOT_RUNNING"),
        (openclaw.not_found("main"), "A2A_ROUTE_NOT_FOUND"),
    ):
        error = json.loads(body)["error"]
        assert error["code"] == code
        assert error["details"] == {"channel": "a2a", "accountId": "main"}
