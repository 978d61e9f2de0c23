"""`decode`: JSON as a struct, fast when it is canonical, tolerant as ProtoJSON when it is not."""

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from trunkline.model.calls import (
    GetTaskRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import (
    Case,
    InvalidParams,
    InvalidRequest,
    ParseFailed,
    TrunklineError,
)
from trunkline.model.timestamps import parse_timestamp
from trunkline.protocol import protojson_fields
from trunkline.protocol import v03_types as v03
from trunkline.protocol.limits import (
    MAX_OUTPUT_MODES,
    MAX_PARTS,
    check_list,
    check_message,
    check_modes,
    check_send_tree,
)
from trunkline.protocol.protojson_fields import INT32_MAX, join

T = TypeVar("T")

# The end of a snake_case name before its colon. The typed decoder would ignore such a field as
# unknown. A match inside metadata only costs time. Starting with the underscore makes the search
# one memchr for most bodies.
_has_snake_key = re.compile(rb'_[a-z]+"[ \t\r\n]*:').search
# The underscore as an escape, which hides it from the search.
_ESCAPED_UNDERSCORE = b"\\u005"
_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_BYTE = re.compile(r"\(byte ([0-9]+)\)$")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_BOM = b"\xef\xbb\xbf"


def decode(raw: bytes, into: type[T]) -> T:
    """`raw` as a value of the struct `into`.

    Accepts what ProtoJSON accepts: camelCase and snake_case names, enums by name and number, null
    for unset, integers as strings, both alphabets of base64. Raises ParseFailed for a body that is
    not JSON, InvalidRequest for too deep nesting and InvalidParams with the path of the first field
    at fault.
    """
    # `find`, because `in` on bytes tries the needle as a number first, which costs as much
    # as the rest of this function.
    if _has_snake_key(raw) is not None or raw.find(_ESCAPED_UNDERSCORE) >= 0:
        return convert(parse(raw), into)
    try:
        value: T = (_DECODERS.get(into) or _decoder_for(into))(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        return convert(parse(raw, _field_of(failure)), into)
    check = _CHECKS.get(into)
    if check is not None:
        check(value)
    return value


def convert(tree: object, into: type[T]) -> T:
    """The same for JSON that is already a tree, such as the parameters of a query."""
    if into in _SENDS:
        check_send_tree(tree)
    value = protojson_fields.read(tree, into)
    check = _CHECKS.get(into)
    if check is not None:
        check(value)
    return value


def parse(raw: bytes, suspect: str = "request") -> object:
    """`raw` as an untyped tree. The last of several members of one name counts.

    `suspect` is the field to name when a number is out of range.
    """
    try:
        return _untyped(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise _refusal(raw, failure, suspect) from None


def _field_of(failure: Exception) -> str:
    """The field that the typed decoder stopped at, up to where names are the client's own."""
    path = _PATH.search(str(failure))
    return (path and path[1].partition("[...]")[0]) or "request"


def _refusal(raw: bytes, error: Exception, suspect: str) -> TrunklineError:
    """The error for the client, in place of the parser's own text."""
    if isinstance(error, RecursionError):
        return InvalidRequest("the JSON is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return ParseFailed("the body is not valid UTF-8")
    if isinstance(error, msgspec.ValidationError):
        # In valid JSON, an untyped decode refuses only a number that fits neither an integer nor a
        # double.
        return InvalidParams.at(suspect, "holds a number that is out of range")
    if raw.startswith(_BOM):
        return ParseFailed("the body is not valid JSON: it starts with a byte order mark")
    if not raw.strip():
        return ParseFailed("the body is empty; a JSON object is expected", case=Case.EMPTY_BODY)
    if _SURROGATE.search(raw) and ("surrogate" in str(error) or "truncated" in str(error)):
        return ParseFailed("the body is not valid JSON: a string holds half of a surrogate pair")
    at = _BYTE.search(str(error))
    where = f" at byte {at[1]}" if at else ": it ends too early"
    return ParseFailed(f"the body is not valid JSON{where}")


_untyped: Callable[[bytes], object] = msgspec.json.Decoder().decode


_DECODERS: dict[type, Callable[[bytes], Any]] = {}


def _decoder_for(into: type) -> Callable[[bytes], Any]:
    decoder: Callable[[bytes], Any] = msgspec.json.Decoder(into).decode
    _DECODERS[into] = decoder
    return decoder


def check_int32(value: int | None, path: str) -> None:
    # The readers bound integers; the typed decoder takes any size.
    if value is not None and value > INT32_MAX:
        raise InvalidParams.at(path, f"must be at most {INT32_MAX}")


def _check_push_config(config: TaskPushNotificationConfig, path: str = "") -> None:
    if not config.url:
        raise InvalidParams.at(join(path, "url"), "must not be empty")
    if config.authentication is not None and not config.authentication.scheme:
        raise InvalidParams.at(join(path, "authentication.scheme"), "must not be empty")


def _check_configuration(configuration: SendMessageConfiguration) -> None:
    if len(configuration.accepted_output_modes) > MAX_OUTPUT_MODES:
        check_modes(configuration.accepted_output_modes)
    check_int32(configuration.history_length, "configuration.historyLength")
    push = configuration.task_push_notification_config
    if push is not None:
        _check_push_config(push, "configuration.taskPushNotificationConfig")


def _check_send(request: SendMessageRequest) -> None:
    message = request.message
    # The condition stands here, because it costs less than a call that finds nothing to check.
    if len(message.parts) > MAX_PARTS or message.extensions or message.reference_task_ids:
        check_message(message)
    if request.configuration is not None:
        _check_configuration(request.configuration)


def _check_send03(request: v03.Send | v03.LooseSend) -> None:
    check_message(request.message)
    if request.configuration is not None:
        check_modes(request.configuration.accepted_output_modes)


def _check_rest_send03(request: v03.RestSend) -> None:
    for message in (request.message, request.request):
        if message is not None:
            check_message(message)
            check_list(message.content, "message.content", MAX_PARTS)
    if request.configuration is not None:
        check_modes(request.configuration.accepted_output_modes)


def _check_get(request: GetTaskRequest) -> None:
    check_int32(request.history_length, "historyLength")


def _check_list(request: ListTasksRequest) -> None:
    check_int32(request.history_length, "historyLength")
    if request.status_timestamp_after:
        try:
            parse_timestamp(request.status_timestamp_after)
        except (ValueError, OverflowError):
            raise InvalidParams.at(
                "statusTimestampAfter",
                "must be an ISO 8601 timestamp with an offset, such as 2026-01-31T23:59:59.123Z",
            ) from None


# Rules of the specification that the types of the model do not state.
_CHECKS = cast(
    dict[type, Callable[[Any], None]],
    {
        SendMessageRequest: _check_send,
        v03.Send: _check_send03,
        v03.LooseSend: _check_send03,
        v03.RestSend: _check_rest_send03,
        GetTaskRequest: _check_get,
        ListTasksRequest: _check_list,
        TaskPushNotificationConfig: _check_push_config,
    },
)
# Requests with lists that the client fills.
_SENDS = (SendMessageRequest, v03.Send, v03.LooseSend, v03.RestSend)
