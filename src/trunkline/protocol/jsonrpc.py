"""The JSON-RPC 2.0 envelope (A2A 1.0, 9): requests, results and errors."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct, field

from trunkline.model.calls import Operation
from trunkline.model.errors import (
    Case,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseFailed,
    TrunklineError,
)
from trunkline.protocol import errors, protojson, sse
from trunkline.protocol.operations import METHOD_OF, METHODS, V03_METHODS, V1_METHODS
from trunkline.protocol.versions import Version, unstated

NULL: Final = b"null"
# A response with a result: this with the id in it, the result, and a brace.
RESULT: Final = b'{"jsonrpc":"2.0","id":%b,"result":'


class Error(Struct, omit_defaults=True):
    """The error object of a response (JSON-RPC 2.0, 5.1)."""

    code: int
    message: str
    data: Any = None


def standard(error: Exception, version: Version) -> Error:
    return Error(errors.jsonrpc_code(error, version), errors.message(error), errors.details(error))


class ErrorStyle(Struct, frozen=True, kw_only=True):
    """How an agent refuses requests over JSON-RPC (`error_style` of its profile)."""

    error: Callable[[Exception, Version], Error] = standard
    http_status: Callable[[Exception], int] = errors.http_status_for_jsonrpc
    # A refused stream is a stream of one error in every version; without this, in 0.3 alone. A
    # bad envelope is then refused by a plain response, whichever operation it names.
    is_in_stream: bool = False
    # The event name of an error in a stream; empty for none.
    event_name: str = ""
    stream_headers: tuple[tuple[bytes, bytes], ...] = sse.HEADERS
    # Requests without an id are served like those with the id null.
    takes_notifications: bool = False
    # A request must have the parameters that its method takes, and no empty member name.
    checks_params: bool = False
    hides_push: bool = False
    # The bodies, by account, of a 404 where nothing is served and of a 503 for an agent that
    # does not run; None for the standard ones.
    not_found: Callable[[str], bytes] | None = None
    not_running: Callable[[str], bytes] | None = None


STANDARD: Final = ErrorStyle()


class Names(Struct, frozen=True, kw_only=True):
    """The method names of an agent over JSON-RPC, and the version that a request means."""

    # The version of a request that shows none.
    default: Version
    # The version of every request that states none; None where its form tells.
    unstated: Version | None = None
    methods: Mapping[Version, Mapping[str, Operation]] = field(default_factory=lambda: METHODS)
    # The only version of the agent, if there is one: then no name means another.
    only: Version | None = None
    errors: ErrorStyle = STANDARD


class Request(Struct, frozen=True):
    """`id` and `params` are JSON as it came; the id goes back byte for byte."""

    id: bytes
    method: str
    params: bytes
    version: Version
    operation: Operation
    # The request has no id. The server refuses it after all other checks have passed.
    lacks_id: bool = False


class Rejected(Exception):
    """A request that cannot be served, with all that the answer needs."""

    def __init__(
        self,
        id: bytes,
        version: Version,
        error: TrunklineError,
        operation: Operation | None = None,
    ) -> None:
        super().__init__(error.message)
        self.id = id
        self.version = version
        self.error = error
        # None for an unknown method.
        self.operation = operation


class _Envelope(Struct):
    jsonrpc: Literal["2.0"]
    method: str
    id: Raw = Raw(b"")
    params: Raw = Raw(b"")


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_INTEGER = re.compile(rb"-?[0-9]+")


def decode(body: bytes, *, stated: Version | None, names: Names) -> Request:
    """Raises Rejected, and nothing else, for a bad body."""
    try:
        envelope = _decode_envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _diagnose(body, stated or names.default, names) from None
    method, id = envelope.method, bytes(envelope.id)
    version = stated or names.unstated or _version_of(method) or names.default
    lacks_id = False
    if not id:
        # The errors for an unknown method and bad parameters come before that for a missing id.
        id, lacks_id = NULL, not names.errors.takes_notifications
    # Digits alone, as most ids are, need no closer look.
    if not (id.isdigit() or _is_id(id)):
        raise Rejected(NULL, version, _bad_id(id))
    operation = names.methods[version].get(method)
    if operation is None:
        if stated is None and names.only is Version.V1_0 and _is_of_0_3(method, version):
            remedy, operation = _remedy(method)
            raise Rejected(id, names.only, unstated(names.only, remedy), operation)
        raise Rejected(id, version, _unknown_method(method, version, names, stated))
    params = bytes(envelope.params)
    if names.errors.checks_params and operation is not Operation.GET_EXTENDED_AGENT_CARD:
        _check_params(id, version, params)
    if params[:1] != b"{":
        if params not in (b"", NULL):
            raise Rejected(id, version, _bad_params(params), operation)
        params = b"{}"
    return Request(id, method, params, version, operation, lacks_id)


def is_request(body: bytes) -> bool:
    """Whether the envelope is that of a request; its parameters may be anything."""
    try:
        _decode_envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


_encode = msgspec.json.Encoder().encode


def error(
    id: bytes,
    error: Exception,
    version: Version,
    say: Callable[[Exception, Version], Error] = standard,
) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, _encode(say(error, version)))


def _version_of(method: str) -> Version | None:
    if method in V1_METHODS:
        return Version.V1_0
    if method in V03_METHODS or "/" in method:
        return Version.V0_3
    return Version.V1_0 if method[:1].isupper() else None


def _is_of_0_3(method: str, version: Version) -> bool:
    return version is Version.V0_3 or _version_of(method) is Version.V0_3


def _remedy(method: str) -> tuple[str, Operation | None]:
    """The hint for a method of 0.3, and its operation."""
    operation = V03_METHODS.get(method)
    return ("", None) if operation is None else (f' and call "{operation}"', operation)


def _is_id(id: bytes) -> bool:
    if id[:1] != b'"':
        return id == NULL or _INTEGER.fullmatch(id) is not None
    # msgspec does not check UTF-8 in raw values, and the response repeats this one.
    try:
        id.decode()
    except UnicodeDecodeError:
        return False
    return True


def _not_jsonrpc(message: str) -> InvalidRequest:
    return InvalidRequest(message, case=Case.NOT_JSONRPC)


def missing_id() -> InvalidRequest:
    # JSON-RPC notifications have no answer; every operation of A2A has one.
    return _not_jsonrpc("id is missing: notifications are not part of A2A; send an id")


def _bad_id(id: bytes) -> InvalidRequest:
    if not id:
        return missing_id()
    return _not_jsonrpc("id must be a string, an integer or null")


def _bad_params(params: bytes) -> InvalidParams:
    kind = "an array" if params[:1] == b"[" else "a single value"
    return InvalidParams.at("params", f"must be an object, got {kind}", case=Case.PARAMS)


def _check_params(id: bytes, version: Version, params: bytes) -> None:
    problem = "is required" if params in (b"", NULL) else ""
    if params[:1] == b"{":
        # A name that is not UTF-8 is left to the decoder of the parameters, which reports it.
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            problem = "has a member without a name" if "" in _members(params) else ""
    if problem:
        raise Rejected(id, version, InvalidParams.at("params", problem, case=Case.PARAMS))


def _unknown_method(
    method: str, version: Version, names: Names, stated: Version | None
) -> MethodNotFound:
    known, shown = names.methods[version], method[:64]
    hint = f'unknown method "{shown}"; A2A {version} has {", ".join(known)}'
    for other, methods in METHODS.items():
        operation = methods.get(method)
        if operation is None or operation not in known.values():
            continue
        name = METHOD_OF[version][operation]
        if names.only is not None:
            hint = (
                f"Method not found: {shown}; this agent speaks A2A {version} alone, "
                f'where it is "{name}"'
            )
            break
        # A2A 1.0, 3.6.2: a request without A2A-Version is of 0.3.
        why = "states version" if stated is not None else "has no A2A-Version, which means"
        hint = (
            f'method "{shown}" belongs to A2A {other}, but the request {why} {version}: '
            f'call "{name}", or send "A2A-Version: {other}"'
        )
        break
    return MethodNotFound(hint, metadata={"method": shown, "version": version})


def _diagnose(body: bytes, version: Version, names: Names) -> Rejected:
    """The reason why the envelope did not decode. Only refused requests come here, so speed does
    not matter."""
    try:
        tree = protojson.parse(body)
    except InvalidParams:
        # The parser stopped at a number out of range, so the id is not known.
        return Rejected(NULL, version, _not_jsonrpc("a number of the request is out of range"))
    except (ParseFailed, InvalidRequest) as failure:
        return Rejected(NULL, version, failure)
    if isinstance(tree, list):
        return Rejected(
            NULL, version, _not_jsonrpc("batches are not part of A2A; send one request at a time")
        )
    if not isinstance(tree, dict):
        return Rejected(NULL, version, _not_jsonrpc("the request must be a JSON object"))
    id = _encode(tree["id"]) if "id" in tree else b""
    if not id and names.errors.takes_notifications:
        id = NULL
    if not _is_id(id):
        return Rejected(NULL, version, _bad_id(id))
    if tree.get("jsonrpc") != "2.0":
        return Rejected(id, version, _not_jsonrpc('jsonrpc must be "2.0"'))
    method = tree.get("method")
    what = "is missing" if method is None else "must be a string"
    return Rejected(id, version, _not_jsonrpc(f"method {what}"))
