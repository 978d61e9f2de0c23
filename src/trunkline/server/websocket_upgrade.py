"""`SocketUpgrade`: the handshake that makes a WebSocket of an HTTP/1.1 connection."""

import logging
from collections.abc import Callable, Sequence

from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from trunkline.ports.websocket import Refusal, WebSocket, WebSocketLimits
from trunkline.server.flow_control import FlowControl
from trunkline.server.http import Disconnected, Request
from trunkline.server.shared import Shared
from trunkline.server.sockets import SocketRequest
from trunkline.server.websocket import UPGRADE_HEADERS, Upgrade
from trunkline.server.websocket_connection import WebSocketConnection

# At DEBUG the library logs every message.
_protocol_log = logging.getLogger("trunkline.server.websocket")
_protocol_log.setLevel(logging.WARNING)
_HANDSHAKE = frozenset({b"connection", b"upgrade"})
_INVALID = Refusal(400, "A header of the WebSocket handshake is not valid, or too long.\n")


class SocketUpgrade(Upgrade):
    """The upgrade of a request on one of our own connections, which reads no more meanwhile."""

    def __init__(
        self,
        shared: Shared,
        flow: FlowControl,
        hand_over: Callable[[WebSocketConnection], None],
    ) -> None:
        """`hand_over` makes a socket the protocol of the connection's transport."""
        self._shared = shared
        self._flow = flow
        self._hand_over = hand_over
        # The bytes that came with the request; a client may send messages at once.
        self.early = b""
        address = flow.transport.get_extra_info("peername")
        self.peer = str(address[0]) if address else ""

    async def open(
        self, request: Request, subprotocols: Sequence[str], limits: WebSocketLimits
    ) -> WebSocket | Refusal:
        assert isinstance(request, SocketRequest)
        protocol = ServerProtocol(
            subprotocols=[Subprotocol(name) for name in subprotocols],
            max_size=limits.max_message_bytes,
            logger=_protocol_log,
        )
        lines = [
            b"%b: %b\r\n" % (name, value)
            for name, value in request.header_lines
            if name in _HANDSHAKE or name.startswith(b"sec-websocket-")
        ]
        head = b"GET / HTTP/1.1\r\n%b\r\n" % b"".join(lines)
        # No valid value has other characters, and the library fails on some of them.
        if not head.isascii():
            return _INVALID
        protocol.receive_data(head)
        asked = [event for event in protocol.events_received() if isinstance(event, Handshake)]
        if not asked:
            return _INVALID
        answer = protocol.accept(asked[0])
        if answer.status_code != 101:
            text = bytes(answer.body or b"").decode()
            return Refusal(answer.status_code, text, UPGRADE_HEADERS)
        if self._flow.is_lost:
            raise Disconnected
        protocol.send_response(answer)
        socket = WebSocketConnection(
            self._shared, self._flow, request, protocol, limits, peer=self.peer
        )
        # The request is kept as long as the socket, and would keep the connection's parser.
        request.upgrade = None
        self._hand_over(socket)
        socket.begin(self.early)
        return socket
