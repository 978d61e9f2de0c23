"""`RpcRequest`: a request of another form as one of JSON-RPC to an agent, and its answer."""

from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.protocol.errors import HTTP_STATUSES
from trunkline.protocol.relay.addresses import path_of
from trunkline.protocol.relay.v1.calls import RpcCall
from trunkline.relay.requests import Message, Receive, Scope, Send

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

JSON: Final = (b"content-type", b"application/json")
# Of the body that was posted; that of the JSON-RPC request is another one.
_OF_BODY: Final = frozenset(
    {b"content-type", b"content-length", b"transfer-encoding", b"a2a-version"}
)


class RpcError(Struct):
    code: int = -32603
    message: str = ""
    data: Raw | UnsetType = UNSET


class _Response(Struct):
    result: Raw | UnsetType = UNSET
    error: RpcError | None = None


_response = msgspec.json.Decoder(_Response).decode


class RpcRequest:
    def __init__(self, call: RpcCall, agent: str, scope: Scope, receive: Receive) -> None:
        """`scope` is that of the client's request, whose credential counts."""
        path = path_of(agent)
        lines = [(name, value) for name, value in scope["headers"] if name not in _OF_BODY]
        lines += [JSON, (b"a2a-version", call.version.encode())]
        self.scope = {
            **scope,
            "method": "POST",
            "path": path,
            "raw_path": quote(path).encode("ascii"),
            "query_string": b"",
            "headers": lines,
        }
        self.status = 500
        self.headers: Headers = ()
        # None until the answer is whole.
        self.body: bytes | None = None
        self._pieces: list[bytes] = []
        self._receive = receive
        self._given: bytes | None = call.body

    async def receive(self) -> Message:
        if self._given is None:
            return await self._receive()
        body, self._given = self._given, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def take(self, message: Message) -> None:
        """What the application sends, where no stream is wanted."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple(
                (name, value) for name, value in message["headers"] if name not in _OF_BODY
            )
            return
        self._pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            self.body = b"".join(self._pieces)

    def result(self) -> tuple[int, Raw | RpcError]:
        """The status that the answer has over HTTP+JSON, and the result or the error."""
        try:
            response = _response(self.body or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            response = _Response()
        if response.error is None and response.result is not UNSET:
            return self.status, response.result
        error = response.error or RpcError(message="there is no answer")
        status = self.status if self.status >= 400 else HTTP_STATUSES.get(error.code, 500)
        return status, error


async def answer(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    head = [*headers, JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
