"""`serve_websocket`: a WebSocket mount behind another ASGI server, which has its own limits."""

from collections.abc import Sequence

from trunkline.ports.websocket import (
    ABNORMAL,
    NORMAL,
    TOO_BIG,
    Refusal,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
    check_reason,
)
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Message, Receive, Scope, Send
from trunkline.server.http import Disconnected, Handler, Header, Request
from trunkline.server.websocket import Upgrade

# RFC 6455, 7.1.5: the peer gave no code.
_NO_CODE = 1005


class AsgiWebSocket(WebSocket):
    def __init__(
        self,
        request: Request,
        receive: Receive,
        send: Send,
        limits: WebSocketLimits,
        *,
        peer: str,
        subprotocol: str | None,
    ) -> None:
        self.request = request
        self.peer = peer
        self.subprotocol = subprotocol
        self._receive = receive
        self._send = send
        self._limits = limits
        self._end: WebSocketClosed | None = None

    async def receive(self) -> str | bytes:
        if self._end is not None:
            raise self._end
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            self._end = WebSocketClosed(event.get("code", _NO_CODE), event.get("reason") or "")
            raise self._end
        text = event.get("text")
        message: str | bytes = event["bytes"] if text is None else text
        if len(message) > self._limits.max_message_bytes:
            await self.close(TOO_BIG, "a message is too large")
            raise WebSocketClosed(TOO_BIG, "a message is too large")
        return message

    async def send(self, message: str | bytes) -> None:
        kind = "text" if isinstance(message, str) else "bytes"
        await self._tell({"type": "websocket.send", kind: message})

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        check_reason(reason)
        if self._end is None:
            self._end = WebSocketClosed(code, reason)
            await self._tell({"type": "websocket.close", "code": code, "reason": reason}, last=True)

    async def _tell(self, event: Message, *, last: bool = False) -> None:
        if self._end is not None and not last:
            raise self._end
        try:
            await self._send(event)
        except OSError:
            # So a server says that the peer has left.
            self._end = WebSocketClosed(ABNORMAL, "the connection ended without a close frame")
            if not last:
                raise self._end from None


class _AsgiUpgrade(Upgrade):
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        self.peer = str(client[0]) if client else ""
        # Older versions of uvicorn hand over the header as it came.
        names = ",".join(scope.get("subprotocols", []))
        self._offered = [name.strip() for name in names.split(",")]
        self._receive = receive
        self._send = send

    async def open(
        self, request: Request, subprotocols: Sequence[str], limits: WebSocketLimits
    ) -> WebSocket | Refusal:
        chosen = next((name for name in subprotocols if name in self._offered), None)
        if subprotocols and chosen is None:
            return Refusal(400, f"Offer a subprotocol: {', '.join(subprotocols)}.\n")
        await self._send({"type": "websocket.accept", "subprotocol": chosen})
        return AsgiWebSocket(
            request, self._receive, self._send, limits, peer=self.peer, subprotocol=chosen
        )


class _AsgiRefusal(AsgiResponse):
    """The answer to a client that gets no WebSocket, if the server lets an application give one.

    Other servers answer with 403.
    """

    may_answer: bool

    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        if not self.may_answer:
            await self.send({"type": "websocket.close"})
            return
        # Without a length, which older versions of uvicorn would send twice.
        own = (b"content-type", content_type)
        start = {"type": "websocket.http.response.start", "status": status}
        await self.send({**start, "headers": [own, *headers]})
        await self.send({"type": "websocket.http.response.body", "body": b"".join(body)})


async def serve_websocket(handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
    if (await receive())["type"] != "websocket.connect":
        return
    may_answer = "websocket.http.response" in (scope.get("extensions") or {})
    request = AsgiRequest.of({**scope, "method": "GET"}, receive)
    request.upgrade = _AsgiUpgrade(scope, receive, send)
    try:
        await handler(request, _AsgiRefusal(send, may_answer=may_answer))
    except Disconnected:
        return
