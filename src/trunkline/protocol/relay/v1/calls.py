"""`read_call`: the request of a v1 frame as a request of JSON-RPC, and `answer_of` the way back.

A relay of protocol v1 passes on the parameters of its clients unread: those of JSON-RPC, or a
whole JSON-RPC request, where a client has sent one to the address of HTTP+JSON.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.model.calls import Operation
from trunkline.model.errors import MethodNotFound, UnsupportedOperation
from trunkline.protocol.operations import LEGACY_METHODS, METHOD_OF, V03_METHODS, V1_METHODS
from trunkline.protocol.relay.v1.frames import ErrorPayload, RequestPayload, ResponsePayload
from trunkline.protocol.versions import Version

# Code of JSON-RPC: the answer cannot be read, or there is none.
INTERNAL_ERROR: Final = -32603
_METHODS: Final = LEGACY_METHODS | V03_METHODS | V1_METHODS


class _Envelope(Struct):
    jsonrpc: str | UnsetType = UNSET
    method: str = ""
    params: Raw = Raw(b"{}")


class _Message(Struct, frozen=True):
    role: str = ""


class _SendParams(Struct):
    message: _Message = _Message()


class _Answer(Struct):
    result: Raw | UnsetType = UNSET
    error: ErrorPayload | None = None


_envelope = msgspec.json.Decoder(_Envelope).decode
_send_params = msgspec.json.Decoder(_SendParams).decode
_answer = msgspec.json.Decoder(_Answer).decode
_encode = msgspec.json.Encoder().encode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class RpcCall(Struct, frozen=True):
    version: Version
    operation: Operation
    # The JSON-RPC request.
    body: bytes


def read_call(request: RequestPayload, *, can_stream: bool = False) -> RpcCall:
    """A frame has one answer; `can_stream` is for requests that may have more. Raises
    MethodNotFound or UnsupportedOperation."""
    method, params = request.method, request.params
    try:
        envelope = _envelope(params)
    except _UNREADABLE:
        envelope = _Envelope()
    if envelope.jsonrpc == "2.0":
        method, params = envelope.method, envelope.params
    operation = _METHODS.get(method)
    if operation is None:
        raise MethodNotFound(f'"{method[:64]}" is no method of A2A')
    if operation is Operation.SUBSCRIBE_TO_TASK and not can_stream:
        raise UnsupportedOperation(
            "The relay between this client and the agent cannot stream; poll with GetTask"
        )
    version = _version_of(method, operation, params)
    if operation is Operation.SEND_STREAMING_MESSAGE and not can_stream:
        # The client gets the final answer.
        operation = Operation.SEND_MESSAGE
    body = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
        _encode(request.id),
        METHOD_OF[version][operation].encode(),
        bytes(params),
    )
    return RpcCall(version, operation, body)


def _version_of(method: str, operation: Operation, params: Raw) -> Version:
    """The relay renames methods and leaves parameters as they are, so a message tells its version
    by its role."""
    if operation in (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE):
        try:
            role = _send_params(params).message.role
        except _UNREADABLE:
            role = ""
        if role:
            return Version.V1_0 if role.startswith("ROLE_") else Version.V0_3
    return Version.V1_0 if method in V1_METHODS else Version.V0_3


def answer_of(id: str, body: bytes) -> ResponsePayload:
    """The answer to a request, from a response of JSON-RPC."""
    try:
        answer = _answer(body)
    except _UNREADABLE:
        answer = _Answer()
    if answer.result is UNSET or answer.error is not None:
        return failed(id, answer.error or ErrorPayload(INTERNAL_ERROR, "there is no answer"))
    return ResponsePayload(id=id, result=answer.result)


def failed(id: str, error: ErrorPayload) -> ResponsePayload:
    return ResponsePayload(id=id, error=error)
