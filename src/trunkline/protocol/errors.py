"""Errors on the wire: one table for all bindings and versions."""

from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.model import errors as model
from trunkline.protocol.versions import Version

A2A_DOMAIN: Final = "a2a-protocol.org"
OWN_DOMAIN: Final = "trunkline"
INTERNAL_TEXT: Final = "Internal error"

_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"


class Wire(Struct, frozen=True):
    """The codes of one error on each binding."""

    code: int  # JSON-RPC
    http: int
    grpc: str
    reason: str
    domain: str = A2A_DOMAIN
    # JSON-RPC sends most errors with HTTP 200. These are about the HTTP request itself, so
    # proxies and clients must see the status as well.
    is_transport: bool = False


_transport = partial(Wire, domain=OWN_DOMAIN, is_transport=True)

# The first nine rows are those of A2A 1.0.1, 5.4, the next four those of JSON-RPC 2.0, 5.1. The
# others are the gateway's own: A2A leaves the code -32000 free, and it tells a client that the
# same request may succeed later or for another caller. An idempotency key that was used for
# another request is a parameter that the caller must change, hence -32602.
_TABLE: Final[dict[type[BaseException], Wire]] = {
    model.TaskNotFound: Wire(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    model.TaskNotCancelable: Wire(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    model.PushNotificationNotSupported: Wire(
        -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"
    ),
    model.UnsupportedOperation: Wire(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    model.ContentTypeNotSupported: Wire(
        -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"
    ),
    model.InvalidAgentResponse: Wire(-32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    model.ExtendedAgentCardNotConfigured: Wire(
        -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    ),
    model.ExtensionSupportRequired: Wire(
        -32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"
    ),
    model.VersionNotSupported: Wire(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    model.ParseFailed: Wire(-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    model.InvalidRequest: Wire(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    model.MethodNotFound: Wire(-32601, 404, "UNIMPLEMENTED", "METHOD_NOT_FOUND"),
    model.InvalidParams: Wire(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    model.IdempotencyConflict: Wire(-32602, 409, "ABORTED", "IDEMPOTENCY_CONFLICT", OWN_DOMAIN),
    model.Conflict: _transport(-32000, 409, "ABORTED", "CONFLICT"),
    model.RouteNotFound: _transport(-32601, 404, "NOT_FOUND", "ROUTE_NOT_FOUND"),
    model.WrongHttpMethod: _transport(-32600, 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED"),
    # The body is not JSON: A2A 1.0, 5.4 has -32005 for content types that are not supported.
    model.WrongMediaType: _transport(-32005, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE"),
    model.PayloadTooLarge: _transport(-32600, 413, "RESOURCE_EXHAUSTED", "PAYLOAD_TOO_LARGE"),
    model.RequestTimedOut: _transport(-32000, 408, "DEADLINE_EXCEEDED", "REQUEST_TIMEOUT"),
    model.Unauthenticated: _transport(-32000, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    model.PermissionDenied: _transport(-32000, 403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    model.TooManyRequests: _transport(-32000, 429, "RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS"),
    model.AgentLost: _transport(-32000, 502, "UNKNOWN", "AGENT_LOST"),
    model.Unavailable: _transport(-32000, 503, "UNAVAILABLE", "UNAVAILABLE"),
}
_INTERNAL: Final = Wire(-32603, 500, "INTERNAL", "INTERNAL_ERROR")

# The reasons of the codes of A2A and of JSON-RPC, also in the errors of peers.
REASONS: Final = {
    row.code: row.reason for row in (*_TABLE.values(), _INTERNAL) if row.domain == A2A_DOMAIN
}

# 0.3, 8.2 ends at -32007. A client of 0.3 gets UnsupportedOperation for the errors that 1.0 added.
_V03_CODES: Final = {-32008: -32004, -32009: -32004}


class ErrorInfo(Struct, frozen=True):
    type: str = msgspec.field(name="@type")
    reason: str
    domain: str
    metadata: dict[str, str]


class BadRequest(Struct, frozen=True, rename="camel"):
    type: str = msgspec.field(name="@type")
    field_violations: tuple[model.FieldViolation, ...]


# The statuses of HTTP+JSON for errors of peers.
HTTP_STATUSES: Final = {
    row.code: row.http for row in (*_TABLE.values(), _INTERNAL) if row.domain == A2A_DOMAIN
}


def wire(error: BaseException) -> Wire:
    """The row of the table. An error without a row is an internal error."""
    for cls in type(error).__mro__:
        row = _TABLE.get(cls)
        if row is not None:
            return row
    return _INTERNAL


def message(error: BaseException) -> str:
    """The text for the client. Texts of errors that are not in the table stay in the log."""
    if isinstance(error, model.TrunklineError) and wire(error) is not _INTERNAL:
        return error.message
    return INTERNAL_TEXT


def v03_name(error: BaseException) -> str:
    """The name that a2a-sdk gives the error, by which its clients of 0.3 know it."""
    for cls in type(error).__mro__:
        if cls in _TABLE:
            return "JSONParseError" if cls is model.ParseFailed else f"{cls.__name__}Error"
    return "InternalError"


def details(error: BaseException) -> tuple[ErrorInfo | BadRequest, ...]:
    row = wire(error)
    metadata: dict[str, str] = {}
    if isinstance(error, model.TrunklineError) and row is not _INTERNAL:
        metadata = error.metadata
    info = ErrorInfo(_ERROR_INFO, row.reason, row.domain, metadata)
    if isinstance(error, model.InvalidParams) and error.violations:
        return info, BadRequest(_BAD_REQUEST, error.violations)
    return (info,)


def jsonrpc_code(error: BaseException, version: Version) -> int:
    code = wire(error).code
    return _V03_CODES.get(code, code) if version is Version.V0_3 else code


def http_status_for_jsonrpc(error: BaseException) -> int:
    row = wire(error)
    return row.http if row.is_transport else 200
