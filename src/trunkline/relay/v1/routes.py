"""`V1Routes`: the addresses that only older relays have, in front of the requests to agents.

What clients of older relays post to `message/send` are the parameters of JSON-RPC in A2A 0.3, or a
whole JSON-RPC request; they get the bare result. The requests go on as JSON-RPC, so agents of both
protocols serve them.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.engine.access import operations_of
from trunkline.model.errors import TrunklineError, WrongHttpMethod
from trunkline.model.principal import Principal
from trunkline.protocol import rest
from trunkline.protocol.relay.addresses import Address, address_of
from trunkline.protocol.relay.v1.calls import read_call
from trunkline.protocol.relay.v1.frames import RequestPayload
from trunkline.protocol.versions import Version
from trunkline.relay.requests import Receive, Scope, Send, whole_body
from trunkline.relay.rpc_requests import RpcError, RpcRequest, answer

App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

Identify: TypeAlias = Callable[[Scope, Receive], Awaitable[Principal]]

_SEND: Final = "message/send"
_STREAM: Final = "message/stream"
_CANCEL: Final = "tasks/cancel"
_encode = msgspec.json.Encoder().encode


class Failure(Struct, frozen=True):
    error: RpcError


class V1Routes:
    def __init__(self, requests: App, *, identify: Identify, max_body_bytes: int) -> None:
        """`requests` serves the requests to agents. `identify` raises as `Access.identify` does."""
        self._requests = requests
        self._identify = identify
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope["path"])
        method = None if address is None else _method_of(address)
        if address is None or method is None:
            await self._requests(scope, receive, send)
            return
        wants_stream = method == _STREAM and _accepts_events(scope)
        try:
            if scope["method"] != "POST":
                raise WrongHttpMethod("POST to this address", allow="POST")
            body: bytes | None = b""
            if await self._may_call(scope, receive, address.agent):
                body = await whole_body(receive, max_bytes=self._max_body_bytes)
            else:
                # `requests` refuses it, and a body that is not read takes no memory.
                method = _CANCEL
            if body is None:
                return
            if method == _CANCEL:
                body = _encode({"id": address.below.split("/")[2]})
            payload = RequestPayload(id="1", method=method, params=Raw(body or b"{}"))
            call = read_call(payload, can_stream=wants_stream)
        except TrunklineError as error:
            allow = [(b"allow", b"POST")] if isinstance(error, WrongHttpMethod) else []
            await answer(send, *rest.error(error, Version.V0_3), allow)
            return
        rpc = RpcRequest(call, address.agent, scope, receive)
        if wants_stream:
            await self._requests(rpc.scope, rpc.receive, send)
            return
        await self._requests(rpc.scope, rpc.receive, rpc.take)
        if rpc.body is not None:
            status, result = rpc.result()
            told = bytes(result) if isinstance(result, Raw) else _encode(Failure(result))
            await answer(send, status, told, rpc.headers)

    async def _may_call(self, scope: Scope, receive: Receive, agent: str) -> bool:
        try:
            principal = await self._identify(scope, receive)
        except TrunklineError:
            return False
        return operations_of(principal, agent) != frozenset()


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
