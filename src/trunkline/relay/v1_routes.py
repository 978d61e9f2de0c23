"""`V1Routes`: the addresses that only older relays have, in front of the requests to agents.

What clients of older relays post to `message/send` are the parameters of JSON-RPC in A2A 0.3, or a
whole JSON-RPC request; they get the bare result. The requests go on as JSON-RPC, so agents of both
protocols serve them.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.model.errors import PayloadTooLarge, TrunklineError, WrongHttpMethod
from trunkline.protocol import rest
from trunkline.protocol.errors import HTTP_STATUSES
from trunkline.protocol.relay.addresses import Address, address_of, path_of
from trunkline.protocol.relay.v1_calls import RpcCall, read_call
from trunkline.protocol.relay.v1_frames import RequestPayload
from trunkline.protocol.versions import Version
from trunkline.relay.requests import Message, Receive, Scope, Send

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_SEND: Final = "message/send"
_STREAM: Final = "message/stream"
_CANCEL: Final = "tasks/cancel"
_JSON: Final = (b"content-type", b"application/json")
# Of the body that was posted; that of the JSON-RPC request is another one.
_OF_BODY: Final = frozenset(
    {b"content-type", b"content-length", b"transfer-encoding", b"a2a-version"}
)
_encode = msgspec.json.Encoder().encode


class _RpcError(Struct):
    code: int = -32603
    message: str = ""
    data: Raw | UnsetType = UNSET


class _Response(Struct):
    result: Raw | UnsetType = UNSET
    error: _RpcError | None = None


_response = msgspec.json.Decoder(_Response).decode


class V1Routes:
    def __init__(self, requests: App, *, max_body_bytes: int) -> None:
        """`requests` serves the requests to agents."""
        self._requests = requests
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope["path"])
        method = None if address is None else _method_of(address)
        if address is None or method is None:
            await self._requests(scope, receive, send)
            return
        try:
            if scope["method"] != "POST":
                raise WrongHttpMethod("POST to this address", allow="POST")
            body = await self._body(receive)
            if body is None:
                return
            if method == _CANCEL:
                body = _encode({"id": address.below.split("/")[2]})
            wants_stream = method == _STREAM and _accepts_events(scope)
            call = read_call(
                RequestPayload(id="1", method=method, params=Raw(body or b"{}")),
                can_stream=wants_stream,
            )
        except TrunklineError as error:
            await _answer(send, *rest.error(error, Version.V0_3), ())
            return
        rpc = _Rpc(call, scope, receive)
        if wants_stream:
            await self._requests(rpc.scope, rpc.receive, send)
            return
        await self._requests(rpc.scope, rpc.receive, rpc.take)
        if rpc.is_answered:
            await _answer(send, *_unwrapped(rpc.status, b"".join(rpc.pieces)), rpc.headers)

    async def _body(self, receive: Receive) -> bytes | None:
        """None if the client leaves."""
        pieces: list[bytes] = []
        size, has_more = 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            pieces.append(message.get("body", b""))
            size, has_more = size + len(pieces[-1]), message.get("more_body", False)
            if size > self._max_body_bytes:
                raise PayloadTooLarge(
                    f"The request body is larger than {self._max_body_bytes} bytes"
                )
        return b"".join(pieces)


class _Rpc:
    """The same request as one of JSON-RPC, and its answer."""

    def __init__(self, call: RpcCall, scope: Scope, receive: Receive) -> None:
        address = address_of(scope["path"])
        assert address is not None
        path = path_of(address.agent)
        lines = [(name, value) for name, value in scope["headers"] if name not in _OF_BODY]
        lines += [_JSON, (b"a2a-version", call.version.encode())]
        self.scope = {
            **scope,
            "path": path,
            "raw_path": quote(path).encode("ascii"),
            "query_string": b"",
            "headers": lines,
        }
        self.status = 500
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        self.pieces: list[bytes] = []
        self.is_answered = False
        self._receive = receive
        self._body: bytes | None = call.body

    async def receive(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple(
                (name, value) for name, value in message["headers"] if name not in _OF_BODY
            )
            return
        self.pieces.append(message.get("body", b""))
        self.is_answered = not message.get("more_body", False)


def _method_of(address: Address) -> str | None:
    match address.below.split("/"):
        case ["", "message", "send"]:
            return _SEND
        case ["", "message", "stream"]:
            return _STREAM
        case ["", "tasks", id, "cancel"] if id:
            return _CANCEL
        case _:
            return None


def _accepts_events(scope: Scope) -> bool:
    return any(
        name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"]
    )


def _unwrapped(status: int, body: bytes) -> tuple[int, bytes]:
    """Status and body of the bare result, or of an error with a body that says what it is."""
    try:
        response = _response(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        response = _Response()
    if response.error is None and response.result is not UNSET:
        return status, bytes(response.result)
    error = response.error or _RpcError(message="there is no answer")
    if status < 400:
        status = HTTP_STATUSES.get(error.code, 500)
    return status, _encode({"error": error})


async def _answer(send: Send, status: int, body: bytes, headers: Headers) -> None:
    head = [*headers, _JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
