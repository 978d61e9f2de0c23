"""`serve_websocket`: WebSocket mounts behind an ASGI server."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from trunkline.ports.websocket import (
    Refusal,
    UpgradeRequest,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
    WebSocketMount,
)
from trunkline.server.asgi_websocket import serve_websocket
from trunkline.server.websocket import WebSocketEndpoint

CONNECT = {"type": "websocket.connect"}
ACCEPTED = {"type": "websocket.accept", "subprotocol": None}
CLOSED = {"type": "websocket.close", "code": 1000, "reason": ""}
GONE = {"type": "websocket.disconnect", "code": 4000, "reason": "bye"}


class Server:
    """An ASGI server with one client, which says what is given."""

    def __init__(self, *events: dict[str, Any], has_left: bool = False, **scope: Any) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self._events = [*events]
        self._has_left = has_left
        self._scope = {
            "type": "websocket",
            "path": "/ws",
            "query_string": b"a=b",
            "headers": [(b"host", b"here"), (b"origin", b"http://there")],
            "client": ("127.0.0.1", 5000),
            **scope,
        }

    async def run(self, **mount: Any) -> list[MutableMapping[str, Any]]:
        endpoint = WebSocketEndpoint(WebSocketMount(**mount))
        await serve_websocket(endpoint, self._scope, self._receive, self._send)
        return self.sent

    async def _receive(self) -> dict[str, Any]:
        return self._events.pop(0)

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if self._has_left and event["type"] != "websocket.accept":
            raise OSError("the client has left")
        self.sent.append(event)


async def echo(socket: WebSocket) -> None:
    async for message in socket:
        await socket.send(message)


async def refuse(request: UpgradeRequest) -> Refusal:
    return Refusal(403, f"Not for {request.header(b'origin')}.", [(b"x-why", b"origin")])


async def test_messages_go_and_come_until_the_client_leaves() -> None:
    messages: list[dict[str, Any]] = [
        {"type": "websocket.receive", "text": "one", "bytes": None},
        {"type": "websocket.receive", "text": None, "bytes": b"two"},
        {"type": "websocket.receive", "text": ""},
    ]
    assert await Server(CONNECT, *messages, GONE).run(handler=echo) == [
        ACCEPTED,
        {"type": "websocket.send", "text": "one"},
        {"type": "websocket.send", "bytes": b"two"},
        {"type": "websocket.send", "text": ""},
    ]


async def test_a_handler_sees_the_request_and_the_subprotocol() -> None:
    async def tell(socket: WebSocket) -> None:
        request = socket.request
        assert (request.path, request.query, request.headers[b"host"]) == ("/ws", b"a=b", b"here")
        assert (socket.peer, socket.subprotocol) == ("127.0.0.1", "v1")

    for offered in (["v0", "v1"], ["v0, v1"]):
        server = Server(CONNECT, subprotocols=offered)
        sent = await server.run(handler=tell, subprotocols=("v2", "v1"))
        assert sent == [ACCEPTED | {"subprotocol": "v1"}, CLOSED]


async def test_a_refusal_is_an_answer_where_the_server_allows_one() -> None:
    able: dict[str, Any] = {"websocket.http.response": {}}
    assert await Server(CONNECT, extensions=able).run(handler=echo, check=refuse) == [
        {
            "type": "websocket.http.response.start",
            "status": 403,
            "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"x-why", b"origin")],
        },
        {"type": "websocket.http.response.body", "body": b"Not for http://there."},
    ]
    refused = [{"type": "websocket.close"}]
    assert await Server(CONNECT).run(handler=echo, check=refuse) == refused
    assert await Server(CONNECT, client=None).run(handler=echo, subprotocols=("v1",)) == refused
    assert await Server(GONE).run(handler=echo) == []


async def test_a_check_that_takes_too_long_refuses() -> None:
    async def waits(request: UpgradeRequest) -> Refusal | None:
        await asyncio.Event().wait()
        return None

    server = Server(CONNECT, extensions={"websocket.http.response": {}})
    sent = await server.run(handler=echo, check=waits, limits=WebSocketLimits(handshake_s=0))
    assert sent[0]["status"] == 503


async def test_a_message_that_is_too_large_closes_the_socket() -> None:
    limits = WebSocketLimits(max_message_bytes=3)
    large = {"type": "websocket.receive", "text": "four"}
    sent = await Server(CONNECT, large).run(handler=echo, limits=limits)
    assert sent[1:] == [CLOSED | {"code": 1009, "reason": "a message is too large"}]


async def test_a_closed_socket_is_used_no_more() -> None:
    async def closes(socket: WebSocket) -> None:
        with pytest.raises(ValueError, match="at most 123 bytes"):
            await socket.close(4001, "x" * 124)
        await socket.close(4001, "enough")
        for use in (socket.send("late"), socket.receive()):
            with pytest.raises(WebSocketClosed, match="4001 enough"):
                await use

    sent = await Server(CONNECT).run(handler=closes)
    assert sent[1:] == [CLOSED | {"code": 4001, "reason": "enough"}]


async def test_a_client_that_has_left_ends_the_handler() -> None:
    async def sends(socket: WebSocket) -> None:
        await socket.send("hello")
        raise AssertionError("the client has left")

    assert await Server(CONNECT, has_left=True).run(handler=sends) == [ACCEPTED]
    assert await Server(CONNECT, has_left=True).run(handler=WebSocket.close) == [ACCEPTED]


async def test_a_handler_that_fails_closes_the_socket() -> None:
    async def fails(socket: WebSocket) -> None:
        raise LookupError("a secret")

    server = Server(CONNECT)
    with pytest.raises(LookupError):
        await server.run(handler=fails)
    assert server.sent[1:] == [CLOSED | {"code": 1011, "reason": "internal error"}]
