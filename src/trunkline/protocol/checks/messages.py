"""`check`: what is wrong with one message, in the form in which it was sent."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.model.errors import InvalidParams, InvalidRequest, ParseFailed
from trunkline.model.findings import Finding
from trunkline.protocol import hub, limits
from trunkline.protocol.checks import shapes_v03, shapes_v1
from trunkline.protocol.checks.cards import CARD_CHECKS
from trunkline.protocol.checks.error_shapes import check_rest_error, check_rpc_error
from trunkline.protocol.checks.findings import CHECKS, Report, below, kind_of, shown
from trunkline.protocol.checks.headers import check_headers
from trunkline.protocol.checks.shapes import Check, has
from trunkline.protocol.operations import METHOD_OF, METHODS, STREAMING

Binding: TypeAlias = Literal["jsonrpc", "rest"]
# `hub` is the form of seed hubs, which is none of A2A.
Dialect: TypeAlias = Literal["1.0", "0.3", "hub"]
Direction: TypeAlias = Literal["request", "response", "event", "card"]

MAX_DEPTH: Final = 100
RPC: Final = "JSON-RPC 2.0 §4"
RPC_RESPONSE: Final = "JSON-RPC 2.0 §5"
_NOT_READ: Final = object()


class Sent(Struct, frozen=True, kw_only=True):
    """A message as one side sent it. What is not known stays at its default."""

    direction: Direction
    binding: Binding = "jsonrpc"
    version: Dialect = "1.0"
    # The name of the operation or of its method, in any version.
    operation: str = ""
    # The HTTP status of a response.
    status: int | None = None
    # By their names in lower case; None where they are not known.
    headers: Mapping[str, str] | None = None
    # The query of the request; None where it is not known.
    query: str | None = None
    # The bytes or the text of the message, or its JSON as a tree.
    body: Any = None


# What is around a value: the id of the request that a response belongs to.
_OPERATIONS: Final = {
    name: operation for methods in METHODS.values() for name, operation in methods.items()
}
_GET_BODIES: Final = frozenset({Operation.GET_TASK, Operation.LIST_TASKS})


def check(sent: Sent) -> list[Finding]:
    """All findings, the most general ones first. It never raises."""
    report = Report()
    inspect(report, sent)
    return report.findings()


def inspect(report: Report, sent: Sent, at: str = "") -> Any:
    """The same for a report. Returns the JSON of the message, or None where it has none. `at` is
    the pointer to the message."""
    if sent.version == "hub":
        report.note(CHECKS, at, NOT_A2A)
        return None
    if sent.headers is not None and sent.direction in ("request", "response"):
        check_headers(
            report,
            sent.headers,
            direction=sent.direction,
            version=sent.version,
            binding=sent.binding,
            is_stream=operation_of(sent.operation) in STREAMING,
            status=sent.status,
            query=sent.query,
            has_body=bool(sent.body),
        )
    tree = read(report, sent.body, at)
    if tree is _NOT_READ:
        return None
    match sent.direction:
        case "card":
            CARD_CHECKS[sent.version](report, tree, at)
        case "request" if sent.binding == "jsonrpc":
            _rpc_request(report, sent, tree, at)
        case "request":
            _rest_request(report, sent, tree, at)
        case "response" if sent.binding == "jsonrpc":
            _rpc_response(report, sent, tree, at)
        case "response":
            _rest_response(report, sent, tree, at)
        case "event":
            _event(report, sent, tree, at)
    return tree


NOT_A2A: Final = "this is the form of seed hubs, which is not A2A, so it was not checked"


def read(report: Report, body: Any, at: str) -> Any:
    """The JSON of a body. An empty body is None."""
    if isinstance(body, str):
        try:
            body = body.encode()
        except UnicodeEncodeError:
            report.error("JSON", at, "the text holds half a surrogate pair, so it is not UTF-8")
            return _NOT_READ
    if not isinstance(body, bytes | bytearray | memoryview):
        return body
    data = bytes(body)
    if not data.strip():
        return None
    try:
        limits.check_json(data, max_depth=MAX_DEPTH)
        return msgspec.json.decode(data)
    except (ParseFailed, msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        report.error("JSON", at, f"the message is not JSON: {str(error)[:120]}")
    except (InvalidRequest, InvalidParams, RecursionError) as error:
        report.note(CHECKS, at, f"the message was not checked: {str(error)[:120]}")
    return _NOT_READ


def operation_of(name: str) -> Operation | None:
    return _OPERATIONS.get(name)


def _name(sent: Sent) -> str:
    return f"A2A {sent.version}"


def _rpc_request(report: Report, sent: Sent, tree: Any, at: str) -> None:
    if isinstance(tree, list):
        report.error(RPC, at, "batches are not part of A2A")
        return
    if not isinstance(tree, dict):
        report.error(RPC, at, f"a request is an object, not {kind_of(tree)}")
        return
    _check_jsonrpc(report, tree, at, RPC)
    _unknown(report, tree, ("jsonrpc", "id", "method", "params"), RPC, at)
    if "id" not in tree:
        report.error(RPC, at, "the request has no id: notifications are not part of A2A")
    else:
        _check_id(report, tree["id"], below(at, "id"), RPC)
    operation = _method(report, sent, tree, at)
    params = tree.get("params")
    where = below(at, "params")
    if operation is None:
        return
    if params is None:
        if operation is not Operation.GET_EXTENDED_AGENT_CARD and (
            operation is not Operation.LIST_TASKS
        ):
            report.error(RPC, at, "the request has no params")
    elif not isinstance(params, dict):
        report.error(RPC, where, f"params must be an object, not {kind_of(params)}")
    elif sent.version == "1.0":
        shapes_v1.PARAMETERS[operation](report, params, where)
    else:
        shapes_v03.JSONRPC.parameters[operation](report, params, where)


def _method(report: Report, sent: Sent, tree: dict[str, Any], at: str) -> Operation | None:
    method, where = tree.get("method"), below(at, "method")
    if not isinstance(method, str):
        said = f"method must be a text, not {shown(method)}" if "method" in tree else "no method"
        report.error(RPC, where if "method" in tree else at, said)
        return operation_of(sent.operation)
    version = next(each for each in METHODS if each == sent.version)
    operation = METHODS[version].get(method)
    rule = f"{_name(sent)} §9" if sent.version == "1.0" else f"{_name(sent)} methods"
    if operation is None:
        other = _OPERATIONS.get(method)
        hint = ""
        if other is not None:
            hint = f"; it belongs to the other version, and here it is {METHOD_OF[version][other]}"
        report.error(rule, where, f"{shown(method)} is no method of A2A {sent.version}{hint}")
        return other
    if method == "tasks/list":
        report.note(rule, where, "0.3 does not have this method; this gateway adds it")
    wanted = operation_of(sent.operation)
    if wanted is not None and wanted is not operation:
        report.error(rule, where, f"the method is {method}, and the operation {wanted}")
    return operation


def _rest_request(report: Report, sent: Sent, tree: Any, at: str) -> None:
    operation = operation_of(sent.operation)
    if operation is None:
        report.note(CHECKS, at, "the operation is not known, so its members were not checked")
        return
    bodies = shapes_v1.REST_BODIES if sent.version == "1.0" else shapes_v03.REST.parameters
    body_check = bodies.get(operation)
    if body_check is None:
        if tree is not None:
            rule = f"{_name(sent)} §11.5" if sent.version == "1.0" else f"{_name(sent)} REST"
            report.warning(rule, at, "this request has its fields in the path and the query")
        return
    # Cancel and subscribe need no body.
    if tree is None and operation in (Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK):
        return
    body_check(report, tree, at)


def _rpc_response(report: Report, sent: Sent, tree: Any, at: str) -> None:
    if isinstance(tree, list):
        report.error(RPC_RESPONSE, at, "batches are not part of A2A")
        return
    if not isinstance(tree, dict):
        report.error(RPC_RESPONSE, at, f"a response is an object, not {kind_of(tree)}")
        return
    operation = operation_of(sent.operation)
    if "jsonrpc" not in tree and is_of_hub(tree):
        report.note(CHECKS, at, NOT_A2A)
        return
    _check_jsonrpc(report, tree, at, RPC_RESPONSE)
    _unknown(report, tree, ("jsonrpc", "id", "result", "error"), RPC_RESPONSE, at)
    if "id" not in tree:
        report.error(RPC_RESPONSE, at, "the response has no id")
    else:
        _check_id(report, tree["id"], below(at, "id"), RPC_RESPONSE)
    has_error = tree.get("error") is not None
    # A result may be null: that of a deletion in 0.3.
    if "result" in tree and "error" in tree:
        report.error(RPC_RESPONSE, at, "the response has both result and error")
    elif "result" not in tree and not has_error:
        text = "the response has neither result nor error"
        if operation is Operation.DELETE_PUSH_CONFIG:
            # SDKs leave out the null of 0.3, and no client misses it.
            report.warning(RPC_RESPONSE, at, text)
        else:
            report.error(RPC_RESPONSE, at, text)
    if has_error:
        check_rpc_error(
            report, tree["error"], below(at, "error"), version=sent.version, status=sent.status
        )
    elif "result" in tree:
        if sent.status is not None and not 200 <= sent.status < 300:
            report.warning(RPC_RESPONSE, at, f"a result came with HTTP status {sent.status}")
        if tree.get("id") is None and "id" in tree:
            report.warning(RPC_RESPONSE, below(at, "id"), "a result has the id of its request")
        _result(report, sent, operation, tree["result"], below(at, "result"))


def _rest_response(report: Report, sent: Sent, tree: Any, at: str) -> None:
    is_error = sent.status is not None and sent.status >= 400
    if sent.status is None and isinstance(tree, dict):
        is_error = "error" in tree
    if is_error:
        check_rest_error(report, tree, at, version=sent.version, status=sent.status)
        return
    if tree is None and (sent.status in (204, 304) or sent.operation == ""):
        return
    _result(report, sent, operation_of(sent.operation), tree, at)


def _result(report: Report, sent: Sent, operation: Operation | None, result: Any, at: str) -> None:
    if is_of_hub(result):
        report.note(CHECKS, at, NOT_A2A)
        return
    if operation is None:
        report.note(CHECKS, at, "the operation is not known, so its members were not checked")
    elif operation is Operation.GET_EXTENDED_AGENT_CARD:
        CARD_CHECKS[sent.version](report, result, at)
    else:
        result_check(sent.version, sent.binding, operation)(report, result, at)


def result_check(version: str, binding: Binding, operation: Operation) -> Check:
    if version == "1.0":
        return shapes_v1.RESULTS[operation]
    shapes = shapes_v03.REST if binding == "rest" else shapes_v03.JSONRPC
    return shapes.results[operation]


def _event(report: Report, sent: Sent, tree: Any, at: str) -> None:
    """The data of one server-sent event, or the body of a push notification."""
    if sent.binding == "jsonrpc":
        streaming = msgspec.structs.replace(sent, operation=str(Operation.SEND_STREAMING_MESSAGE))
        _rpc_response(report, streaming, tree, at)
    elif isinstance(tree, dict) and "error" in tree:
        check_rest_error(report, tree, at, version=sent.version, status=None)
    elif is_of_hub(tree):
        report.note(CHECKS, at, NOT_A2A)
    else:
        check = result_check(sent.version, "rest", Operation.SEND_STREAMING_MESSAGE)
        check(report, tree, at)


# States of A2A without their prefix, which only seed hubs have.
_HUB_STATES: Final = frozenset(hub.STATE_NAMES.values())


def is_of_hub(tree: Any) -> bool:
    """Whether an object is a task in the form of seed hubs, or is wrapped around one."""
    if not isinstance(tree, dict):
        return False
    if isinstance(inner := tree.get("result"), dict):
        tree = inner
    for name in ("task", "statusUpdate"):
        if isinstance(inner := tree.get(name), dict):
            return _has_hub_state(inner)
    return _has_hub_state(tree)


def _has_hub_state(task: dict[str, Any]) -> bool:
    status = task.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    return isinstance(state, str) and state in _HUB_STATES


def _check_jsonrpc(report: Report, tree: dict[str, Any], at: str, rule: str) -> None:
    if "jsonrpc" not in tree:
        report.error(rule, at, 'the message has no jsonrpc, which must be "2.0"')
    elif tree["jsonrpc"] != "2.0":
        text = f'jsonrpc must be "2.0", not {shown(tree["jsonrpc"])}'
        report.error(rule, below(at, "jsonrpc"), text)


def _check_id(report: Report, value: Any, at: str, rule: str) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        report.error(rule, at, f"the id must be a text, a number or null, not {shown(value)}")
    elif isinstance(value, float):
        report.warning(rule, at, "a number as id should have no fraction")


def _unknown(
    report: Report, tree: dict[str, Any], known: tuple[str, ...], rule: str, at: str
) -> None:
    for name in tree:
        if name in known:
            continue
        if not report.may_look():
            return
        report.note(rule, below(at, name), f"JSON-RPC has no member {shown(name)} here")


def check_card(card: Any, version: Literal["1.0", "0.3"]) -> list[Finding]:
    """The findings for a card, which is its bytes, its text or its JSON."""
    return check(Sent(direction="card", version=version, body=card))


def card_report(card: Any) -> list[Finding]:
    """The same for a card whose version is not known: that of its members."""
    report = Report()
    tree = read(report, card, "")
    if tree is not _NOT_READ:
        is_old = (
            isinstance(tree, dict) and has(tree, "url") and not has(tree, "supportedInterfaces")
        )
        CARD_CHECKS["0.3" if is_old else "1.0"](report, tree, "")
    return report.findings()
