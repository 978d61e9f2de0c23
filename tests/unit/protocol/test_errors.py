import json

import pytest

from trunkline.model import errors as model
from trunkline.model.errors import FieldViolation, TrunklineError
from trunkline.protocol import errors, jsonrpc, rest
from trunkline.protocol.versions import Version

# Class, JSON-RPC code, HTTP status, gRPC name, reason: A2A 1.0.1, section 5.4.
A2A = [
    (model.TaskNotFound("t"), -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    (model.TaskNotCancelable("x"), -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    (
        model.PushNotificationNotSupported("x"),
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    ),
    (model.UnsupportedOperation("x"), -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (
        model.ContentTypeNotSupported("x"),
        -32005,
        400,
        "INVALID_ARGUMENT",
        "CONTENT_TYPE_NOT_SUPPORTED",
    ),
    (model.InvalidAgentResponse("x"), -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    (
        model.ExtendedAgentCardNotConfigured("x"),
        -32007,
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
    (
        model.ExtensionSupportRequired("x"),
        -32008,
        400,
        "FAILED_PRECONDITION",
        "EXTENSION_SUPPORT_REQUIRED",
    ),
    (model.VersionNotSupported("x"), -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    (model.ParseFailed("x"), -32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    (model.InvalidRequest("x"), -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    (model.MethodNotFound("x"), -32601, 404, "UNIMPLEMENTED", "METHOD_NOT_FOUND"),
    (model.InvalidParams("x"), -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
]
# The same for what the specification does not name; the last is the HTTP status over JSON-RPC.
OWN = [
    (model.IdempotencyConflict("x"), -32602, 409, "ABORTED", "IDEMPOTENCY_CONFLICT", 200),
    (model.Conflict("x"), -32000, 409, "ABORTED", "CONFLICT", 409),
    (model.RouteNotFound("x"), -32601, 404, "NOT_FOUND", "ROUTE_NOT_FOUND", 404),
    (
        model.WrongHttpMethod("x", allow="GET"),
        -32600,
        405,
        "UNIMPLEMENTED",
        "METHOD_NOT_ALLOWED",
        405,
    ),
    (model.WrongMediaType("x"), -32005, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", 415),
    (model.PayloadTooLarge("x"), -32600, 413, "RESOURCE_EXHAUSTED", "PAYLOAD_TOO_LARGE", 413),
    (model.RequestTimedOut("x"), -32000, 408, "DEADLINE_EXCEEDED", "REQUEST_TIMEOUT", 408),
    (model.Unauthenticated("x"), -32000, 401, "UNAUTHENTICATED", "UNAUTHENTICATED", 401),
    (model.PermissionDenied("x"), -32000, 403, "PERMISSION_DENIED", "PERMISSION_DENIED", 403),
    (
        model.TooManyRequests("x", retry_after_s=1),
        -32000,
        429,
        "RESOURCE_EXHAUSTED",
        "TOO_MANY_REQUESTS",
        429,
    ),
    (model.AgentLost("x"), -32000, 502, "UNKNOWN", "AGENT_LOST", 502),
    (model.Unavailable("x", retry_after_s=1), -32000, 503, "UNAVAILABLE", "UNAVAILABLE", 503),
]
INTERNAL = [
    model.GatewayBug("secret"),
    model.StoreUnusable("secret"),
    model.StaleSeq("secret"),
    model.ConfigError("secret"),
    model.AgentError("secret"),
    model.CallerError("secret"),
    TrunklineError("secret", metadata={"password": "secret"}),
    ValueError("secret"),
    KeyError("secret"),
]


def _name(value: object) -> str | None:
    return type(value).__name__ if isinstance(value, Exception) else None


@pytest.mark.parametrize(("error", "code", "http", "grpc", "reason"), A2A, ids=_name)
def test_errors_of_a2a(error: Exception, code: int, http: int, grpc: str, reason: str) -> None:
    body = json.loads(jsonrpc.error(b"7", error, Version.V1_0))
    assert body["id"] == 7
    assert body["error"]["code"] == code
    (info,) = body["error"]["data"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info["reason"], info["domain"]) == (reason, "a2a-protocol.org")
    assert errors.http_status_for_jsonrpc(error) == 200

    status, raw = rest.error(error, Version.V1_0)
    told = json.loads(raw)["error"]
    assert status == told["code"] == http == errors.wire(error).http
    assert told["status"] == grpc
    assert told["details"] == [info]
    assert set(json.loads(raw)) == {"error"}


@pytest.mark.parametrize(("error", "code", "http", "grpc", "reason", "over_rpc"), OWN, ids=_name)
def test_errors_of_our_own(
    error: Exception, code: int, http: int, grpc: str, reason: str, over_rpc: int
) -> None:
    body = json.loads(jsonrpc.error(b"null", error, Version.V1_0))
    assert body["error"]["code"] == code
    (info,) = body["error"]["data"]
    assert (info["reason"], info["domain"]) == (reason, "trunkline")
    assert errors.http_status_for_jsonrpc(error) == over_rpc
    status, raw = rest.error(error, Version.V1_0)
    assert (status, json.loads(raw)["error"]["status"]) == (http, grpc)


def test_every_error_for_callers_has_a_row() -> None:
    listed = {type(row[0]) for row in [*A2A, *OWN]}
    # Features have errors of other standards, which they answer themselves.
    own = {each for each in model.CallerError.__subclasses__() if each.__module__ == model.__name__}
    assert own <= listed


@pytest.mark.parametrize("error", INTERNAL, ids=_name)
@pytest.mark.parametrize("version", list(Version))
def test_the_text_of_an_internal_error_never_leaves(error: Exception, version: Version) -> None:
    body = jsonrpc.error(b"1", error, version)
    status, raw = rest.error(error, version)
    assert b"secret" not in body + raw
    assert json.loads(body)["error"]["code"] == -32603
    assert json.loads(body)["error"]["message"] == "Internal error"
    assert status == 500
    assert json.loads(raw)["error"]["status"] == "INTERNAL"
    assert errors.http_status_for_jsonrpc(error) == 200


def test_a_subclass_is_what_its_base_is() -> None:
    class Gone(model.TaskNotFound):
        pass

    assert errors.wire(Gone("t")).code == -32001
    assert errors.v03_name(Gone("t")) == "TaskNotFoundError"


def test_metadata_and_violations_are_told() -> None:
    violation = FieldViolation("message.parts", "is required")
    error = model.InvalidParams("message.parts: is required", violations=(violation,))
    data = json.loads(jsonrpc.error(b'"a"', error, Version.V1_0))["error"]["data"]
    assert data[1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts", "description": "is required"}],
    }
    found = json.loads(jsonrpc.error(b"1", model.TaskNotFound("t1"), Version.V1_0))
    assert found["error"]["data"][0]["metadata"] == {"taskId": "t1"}


@pytest.mark.parametrize(("error", "code"), [(row[0], row[1]) for row in A2A], ids=_name)
def test_codes_of_03_end_at_32007(error: Exception, code: int) -> None:
    answer = json.loads(jsonrpc.error(b"1", error, Version.V0_3))["error"]
    assert answer["code"] == {-32008: -32004, -32009: -32004}.get(code, code)


def test_rest_of_03_names_the_error_as_its_clients_know_it() -> None:
    from a2a.compat.v0_3.rest_transport import _A2A_ERROR_NAME_TO_CLS as known

    for error, *_ in A2A:
        told = json.loads(rest.error(error, Version.V0_3)[1])
        assert told["message"] == str(error)
        if not isinstance(error, model.ParseFailed):
            assert told["type"] in known
        # The JavaScript SDK goes by the code.
        assert told["code"] == errors.jsonrpc_code(error, Version.V0_3)
    assert json.loads(rest.error(ValueError(), Version.V0_3)[1])["type"] == "InternalError"
