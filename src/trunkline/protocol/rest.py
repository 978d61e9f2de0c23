"""The HTTP+JSON binding (A2A 1.0, 11): requests from path, query and body; errors as bodies."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from trunkline.model.calls import CancelTaskRequest, Operation, TaskPushNotificationConfig
from trunkline.model.errors import InvalidParams, WrongMediaType
from trunkline.protocol import errors, protojson, sse
from trunkline.protocol import v03_types as v03
from trunkline.protocol.dialects import Dialect
from trunkline.protocol.limits import query_fields
from trunkline.protocol.operations import PARAMETERS, PUSH, RequestValue
from trunkline.protocol.protojson_fields import quote, snake
from trunkline.protocol.rest_routes import Route
from trunkline.protocol.v03 import V03_REST, read_list
from trunkline.protocol.v03_reading import read_push_config
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version

JSON: Final = "application/json"
A2A_JSON: Final = "application/a2a+json"

DIALECTS: Final[dict[Version, Dialect]] = {Version.V1_0: V1, Version.V0_3: V03_REST}

_encode = msgspec.json.Encoder().encode


def decode(
    route: Route,
    query: bytes | str,
    body: bytes,
    dialects: Mapping[Version, Dialect] = DIALECTS,
) -> RequestValue:
    """The request that path, query and body make together; the path wins over the body."""
    operation = route.operation
    if operation in _SENDS:
        sent = dialects[route.version].decoders[operation](body)
        return structs.replace(sent, tenant=route.tenant) if route.tenant else sent
    if operation is Operation.CANCEL_TASK:
        given = protojson.decode(body or b"{}", _CancelBody)
        return CancelTaskRequest(
            tenant=route.tenant or given.tenant, id=route.task_id, metadata=given.metadata
        )
    if operation is Operation.CREATE_PUSH_CONFIG:
        return _push_config(route, body)
    # A2A 1.0, 11.5: other requests have no body; their fields are in the path and the query.
    tree = _query(route, query)
    if operation is Operation.LIST_TASKS and route.version is Version.V0_3:
        return read_list(protojson.convert(tree, v03.ListTasks))
    if operation in PUSH:
        tree |= {"taskId": route.task_id, "id": route.config_id}
    elif route.task_id:
        tree["id"] = route.task_id
    return protojson.convert(tree, PARAMETERS[operation])


_SENDS: Final = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE})


class _CancelBody(Struct, rename="camel"):
    tenant: str = ""
    metadata: dict[str, Any] | None = None


class _PushConfigHolder(Struct, rename="camel"):
    push_notification_config: v03.PushConfig | None = None


class _PushBody03(_PushConfigHolder, rename="camel"):
    """Clients of 0.3 send the configuration as JSON-RPC has it, or in `config` as the proto."""

    config: _PushConfigHolder | None = None


def _push_config(route: Route, body: bytes) -> TaskPushNotificationConfig:
    if route.version is Version.V1_0:
        config = protojson.decode(body, TaskPushNotificationConfig)
        return structs.replace(config, task_id=route.task_id, tenant=route.tenant or config.tenant)
    given = protojson.decode(body, _PushBody03)
    wanted, path = given.push_notification_config, "pushNotificationConfig"
    if wanted is None and given.config is not None:
        wanted, path = given.config.push_notification_config, f"config.{path}"
    if wanted is None:
        raise InvalidParams.at(path, "is required")
    config = read_push_config(wanted, path)
    return structs.replace(config, task_id=route.task_id)


# All names that a query may have; the gateway ignores other names.
_QUERY_NAMES: Final = (
    "tenant",
    "historyLength",
    "contextId",
    "status",
    "pageSize",
    "pageToken",
    "statusTimestampAfter",
    "includeArtifacts",
)
_QUERY: Final = {snake(name): name for name in _QUERY_NAMES} | {n: n for n in _QUERY_NAMES}
_BOOLEANS: Final = {"true": True, "false": False}


def _query(route: Route, query: bytes | str) -> dict[str, object]:
    """The query as a tree, with the tenant of the path in it."""
    tree: dict[str, object] = {"tenant": route.tenant} if route.tenant else {}
    try:
        pairs = query_fields(query, errors="strict")
    except UnicodeDecodeError:
        raise InvalidParams.at("query", "is not valid UTF-8") from None
    seen: set[str] = set()
    for key, value in pairs:
        name = _QUERY.get(key)
        if name is None or (name == "tenant" and route.tenant):
            continue
        if name in seen:
            raise InvalidParams.at(name, "is given more than once")
        seen.add(name)
        tree[name] = value
        if name == "includeArtifacts":
            if value not in _BOOLEANS:
                raise InvalidParams.at(name, "must be true or false")
            tree[name] = _BOOLEANS[value]
        elif name == "statusTimestampAfter":
            # An unescaped plus in an offset arrives as a space.
            tree[name] = value.replace(" ", "+")
    return tree


class _Status(Struct):
    code: int
    status: str
    message: str
    details: tuple[errors.ErrorInfo | errors.BadRequest, ...]


def error(error: Exception, version: Version) -> tuple[int, bytes]:
    """The HTTP status and the body: a google.rpc.Status."""
    row, text = errors.wire(error), errors.message(error)
    status = _Status(row.http, row.grpc, text, errors.details(error))
    if version is Version.V1_0:
        return row.http, _encode({"error": status})
    # Clients of 0.3 look at the top: a2a-sdk for the name of the error, the JavaScript SDK
    # for its JSON-RPC code, both for its text.
    name, code = errors.v03_name(error), errors.jsonrpc_code(error, version)
    return row.http, _encode({"type": name, "code": code, "message": text, "error": status})


def error_frame(failure: Exception, version: Version) -> bytes:
    """An error event in a stream that has begun. It has a name, because the SDKs read the data of
    any other event as a StreamResponse."""
    return sse.frame(error(failure, version)[1], event="error")


def content_type(accept: str | None, request_content_type: str | None) -> str:
    """The media type of the response: one that the client accepts, else the one it sent, else JSON.

    A2A 1.0.1, 11.1 says that application/a2a+json SHOULD be used; 1.0.0 and 0.3 say
    application/json. A client that names neither is more likely to know the latter alone.
    """
    for header in (accept, request_content_type):
        for kind in (header or "").split(","):
            name = kind.partition(";")[0].strip().lower()
            if name in (JSON, A2A_JSON):
                return name
    return JSON


def accepts_body(content_type: str | None) -> None:
    """Raises WrongMediaType unless Content-Type is that of A2A (1.0, 11.1).

    Other types that end in `+json` are refused: they promise a schema that is not A2A's.
    """
    name = (content_type or "").partition(";")[0].strip().lower()
    if name not in (JSON, A2A_JSON):
        sent = quote(name) if name else "nothing"
        raise WrongMediaType(f"Content-Type must be {JSON} or {A2A_JSON}, got {sent}")
