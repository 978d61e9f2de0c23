"""`ask`: a request to another agent, as the method, path and body of its binding."""

from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, structs

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
from trunkline.model.values import TaskState
from trunkline.protocol import v03_types as v03
from trunkline.protocol.operations import METHOD_OF, RequestValue
from trunkline.protocol.v03_writing import Writer03
from trunkline.protocol.versions import Version

Binding: TypeAlias = Literal["JSONRPC", "HTTP+JSON"]

_encode = msgspec.json.Encoder().encode
_JSONRPC_03: Final = Writer03(is_rest=False)
_REST_03: Final = Writer03(is_rest=True)


class Call(Struct, frozen=True):
    """`path` is percent-encoded, with its query, and relative to the url of the interface."""

    method: str
    path: str
    body: bytes | None


def ask(
    binding: Binding, version: Version, operation: Operation, value: RequestValue, *, id: bytes
) -> Call:
    """The request. `id` is the JSON of the JSON-RPC id; HTTP+JSON has none."""
    if binding == "HTTP+JSON":
        return _rest(version, operation, value)
    body = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
        id,
        METHOD_OF[version][operation].encode(),
        jsonrpc_params(version, value),
    )
    return Call("POST", "", body)


def jsonrpc_params(version: Version, value: RequestValue) -> bytes:
    return _encode(value if version is Version.V1_0 else _params_03(value, _JSONRPC_03))


def _params_03(value: RequestValue, writer: Writer03) -> Any:
    match value:
        case SendMessageRequest():
            return _send_03(value, writer)
        case ListTasksRequest():
            return _list_03(value)
        case TaskPushNotificationConfig():
            return v03.SetPushConfig(
                task_id=value.task_id, push_notification_config=_push_config_03(value)
            )
        case PushConfigQuery():
            return v03.PushConfigQuery(id=value.task_id, push_notification_config_id=value.id)
        case _:
            # The same members as in 1.0, but for the tenant.
            return structs.replace(value, tenant="") if value.tenant else value


def _send_03(request: SendMessageRequest, writer: Writer03) -> v03.Send:
    return v03.Send(
        message=writer.message(request.message),
        configuration=_configuration_03(
            request.configuration or SendMessageConfiguration(), is_rest=writer is _REST_03
        ),
        metadata=request.metadata,
    )


def _configuration_03(given: SendMessageConfiguration, *, is_rest: bool) -> v03.Configuration:
    push = given.task_push_notification_config
    config = None if push is None else _push_config_03(push)
    return v03.Configuration(
        accepted_output_modes=given.accepted_output_modes,
        # 0.3 leaves the default open, so every request states it.
        blocking=not given.return_immediately,
        history_length=given.history_length,
        push_notification_config=None if is_rest else config,
        push_notification=config if is_rest else None,
    )


def _push_config_03(config: TaskPushNotificationConfig) -> v03.PushConfig:
    given = config.authentication
    return v03.PushConfig(
        url=config.url,
        id=config.id,
        token=config.token,
        authentication=None
        if given is None
        else v03.Authentication(schemes=(given.scheme,), credentials=given.credentials),
    )


def _list_03(request: ListTasksRequest) -> v03.ListTasks:
    fields = structs.asdict(request)
    del fields["tenant"]
    is_filtered = request.status is not TaskState.UNSPECIFIED
    return v03.ListTasks(
        **fields | {"status": v03.STATE_NAMES[request.status] if is_filtered else ""}
    )


def _rest(version: Version, operation: Operation, value: RequestValue) -> Call:
    is_03 = version is Version.V0_3
    prefix = "/v1" if is_03 else f"/{quote(value.tenant, safe='')}" if value.tenant else ""
    match value:
        case SendMessageRequest():
            verb = "send" if operation is Operation.SEND_MESSAGE else "stream"
            body = _encode(
                _send_03(value, _REST_03) if is_03 else structs.replace(value, tenant="")
            )
            return Call("POST", f"{prefix}/message:{verb}", body)
        case GetTaskRequest():
            query = _query(historyLength=value.history_length)
            return Call("GET", f"{prefix}/tasks/{_segment(value.id)}{query}", None)
        case CancelTaskRequest():
            metadata = {"metadata": value.metadata} if value.metadata else {}
            path = f"{prefix}/tasks/{_segment(value.id)}:cancel"
            return Call("POST", path, _encode(metadata))
        case SubscribeToTaskRequest():
            # The text of the specification says POST, its proto GET; agents know the first.
            return Call("POST", f"{prefix}/tasks/{_segment(value.id)}:subscribe", b"{}")
        case ListTasksRequest():
            tree = msgspec.to_builtins(_list_03(value) if is_03 else value)
            tree.pop("tenant", None)
            return Call("GET", f"{prefix}/tasks{_query(**tree)}", None)
        case TaskPushNotificationConfig() | PushConfigQuery():
            return _rest_push(f"{prefix}/tasks/{_segment(value.task_id)}", operation, value, is_03)
        case _:
            return Call("GET", f"{prefix}/{'card' if is_03 else 'extendedAgentCard'}", None)


def _rest_push(
    task: str,
    operation: Operation,
    value: TaskPushNotificationConfig | PushConfigQuery,
    is_03: bool,
) -> Call:
    path = f"{task}/pushNotificationConfigs"
    if isinstance(value, TaskPushNotificationConfig):
        body: Any = structs.replace(value, tenant="", task_id="")
        if is_03:
            # The reference proto of 0.3 identifies a resource by a name.
            name = f"tasks/{value.task_id}"
            config: dict[str, Any] = {"pushNotificationConfig": _push_config_03(value)}
            if value.id:
                config["name"] = f"{name}/pushNotificationConfigs/{value.id}"
            body = {"parent": name, "configId": value.id, "config": config}
        return Call("POST", path, _encode(body))
    if operation is Operation.LIST_PUSH_CONFIGS:
        query = _query(pageSize=value.page_size, pageToken=value.page_token)
        return Call("GET", path + query, None)
    method = "DELETE" if operation is Operation.DELETE_PUSH_CONFIG else "GET"
    return Call(method, f"{path}/{_segment(value.id)}", None)


def _segment(id: str) -> str:
    # Agents cut the verb off at the last colon before they unescape, so a colon stays as it is.
    return quote(id, safe=":")


def _query(**given: str | int | bool | None) -> str:
    pairs = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None and value != ""
    }
    return f"?{urlencode(pairs)}" if pairs else ""
