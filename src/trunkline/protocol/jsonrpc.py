"""The JSON-RPC 2.0 envelope."""

import re
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from trunkline.model.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseFailed,
    TrunklineError,
)
from trunkline.protocol import errors, protojson
from trunkline.protocol.operations import METHOD_OF, METHODS, V03_METHODS, V1_METHODS, Operation
from trunkline.protocol.versions import Version

NULL: Final = b"null"


class Request(Struct, frozen=True):
    """`id` and `params` are JSON as it came; the id goes back byte for byte."""

    id: bytes
    method: str
    params: bytes
    version: Version
    operation: Operation


class Rejected(Exception):
    """A request that cannot be served, with all that the answer needs."""

    def __init__(self, id: bytes, version: Version, error: TrunklineError) -> None:
        super().__init__(error.message)
        self.id = id
        self.version = version
        self.error = error


class _Envelope(Struct):
    jsonrpc: Literal["2.0"]
    method: str
    id: Raw = Raw(b"")
    params: Raw = Raw(b"{}")


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_INTEGER = re.compile(rb"-?[0-9]+")


def decode(body: bytes, *, stated: Version | None, default: Version) -> Request:
    """Raises Rejected, and nothing else, for whatever is wrong with the body."""
    try:
        envelope = _decode_envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _diagnose(body, stated or default) from None
    method, id = envelope.method, bytes(envelope.id)
    version = stated or _version_of(method) or default
    if not _is_id(id):
        raise Rejected(NULL, version, _bad_id(id))
    operation = METHODS[version].get(method)
    if operation is None:
        raise Rejected(id, version, _unknown_method(method, version))
    params = bytes(envelope.params)
    if params[:1] != b"{":
        if params != NULL:
            raise Rejected(id, version, _bad_params(params))
        params = b"{}"
    return Request(id, method, params, version, operation)


def result(id: bytes, body: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, body)


def envelope(id: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind every result, for those who send many."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % id, b"}"


class _Error(Struct):
    code: int
    message: str
    data: tuple[errors.ErrorInfo | errors.BadRequest, ...]


_encode = msgspec.json.Encoder().encode


def error(id: bytes, error: Exception, version: Version) -> bytes:
    body = _Error(errors.jsonrpc_code(error, version), errors.message(error), errors.details(error))
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, _encode(body))


def _version_of(method: str) -> Version | None:
    if method in V1_METHODS:
        return Version.V1_0
    if method in V03_METHODS or "/" in method:
        return Version.V0_3
    return Version.V1_0 if method[:1].isupper() else None


def _is_id(id: bytes) -> bool:
    if id[:1] == b'"':
        # A skipped value is not checked for UTF-8, and this one is sent back.
        return id.isascii() or _is_utf8(id)
    return id == NULL or _INTEGER.fullmatch(id) is not None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bad_id(id: bytes) -> InvalidRequest:
    if not id:
        # JSON-RPC notifications have no answer; every operation of A2A has one.
        return InvalidRequest("id is missing: notifications are not part of A2A; send an id")
    return InvalidRequest("id must be a string, an integer or null")


def _bad_params(params: bytes) -> InvalidParams:
    kind = "an array" if params[:1] == b"[" else "a single value"
    return InvalidParams.at("params", f"must be an object, got {kind}")


def _unknown_method(method: str, version: Version) -> MethodNotFound:
    shown = method[:64]
    for other, methods in METHODS.items():
        if method in methods:
            name = METHOD_OF[version][methods[method]]
            return MethodNotFound(
                f'method "{shown}" belongs to A2A {other}, but the request states version '
                f'{version}: call "{name}", or send "A2A-Version: {other}"',
                metadata={"method": shown, "version": version},
            )
    known = ", ".join(METHODS[version])
    return MethodNotFound(
        f'unknown method "{shown}"; A2A {version} has {known}',
        metadata={"method": shown, "version": version},
    )


def _diagnose(body: bytes, version: Version) -> Rejected:
    """Why the envelope did not decode. Only refusals come here, so it may take its time."""
    try:
        tree = protojson.parse(body)
    except InvalidParams:
        # A number out of range somewhere; which id it belongs to is not known.
        return Rejected(NULL, version, InvalidRequest("a number of the request is out of range"))
    except (ParseFailed, InvalidRequest) as failure:
        return Rejected(NULL, version, failure)
    if isinstance(tree, list):
        return Rejected(
            NULL, version, InvalidRequest("batches are not part of A2A; send one request at a time")
        )
    if not isinstance(tree, dict):
        return Rejected(NULL, version, InvalidRequest("the request must be a JSON object"))
    id = _encode(tree["id"]) if "id" in tree else b""
    if not _is_id(id):
        return Rejected(NULL, version, _bad_id(id))
    if tree.get("jsonrpc") != "2.0":
        return Rejected(id, version, InvalidRequest('jsonrpc must be "2.0"'))
    method = tree.get("method")
    what = "is missing" if method is None else "must be a string"
    return Rejected(id, version, InvalidRequest(f"method {what}"))
