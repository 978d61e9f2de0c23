"""`WebSocketConnection` on a transport in memory, with the client protocol of the library."""

import asyncio
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.uri import parse_uri

from trunkline.ports.websocket import WebSocketClosed, WebSocketLimits
from trunkline.server.flow_control import FlowControl
from trunkline.server.http import Disconnected, Request, Response
from trunkline.server.memory_budget import MemoryBudget
from trunkline.server.shared import Shared
from trunkline.server.sockets import SocketRequest
from trunkline.server.websocket_connection import WebSocketConnection
from trunkline.server.websocket_upgrade import SocketUpgrade
from trunkline.testing import settle


class MemoryTransport(asyncio.Transport):
    """Keeps what is written. Its client reads nothing while `is_stuck`."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5000)})
        self.protocol: Any = None
        self.written = bytearray()
        self.is_paused = False
        self.has_eof = False
        self._is_closing = False
        self.is_stuck = False

    def write(self, data: Any) -> None:
        self.written += data
        if self.is_stuck and len(self.written) > 64 * 1024:
            self.protocol.pause_writing()

    def write_eof(self) -> None:
        self.has_eof = True

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.is_stuck else 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


class Pair:
    """A socket of the server, and the protocol of its client."""

    def __init__(self, limits: WebSocketLimits) -> None:
        self.transport = MemoryTransport()
        loop = asyncio.get_running_loop()
        self.shared = Shared(
            _never, max_header_bytes=0, budget=MemoryBudget(1 << 20), body_timeout_s=0
        )
        self.flow = FlowControl(self.transport, loop, self.shared.budget)
        # As a connection does until the request is served.
        self.flow.stop_reading()
        self.client = ClientProtocol(parse_uri("ws://here/ws"))
        self.client.send_request(self.client.connect())
        self._limits = limits
        self.upgrade = SocketUpgrade(self.shared, self.flow, self._hand_over)

    async def open(self) -> WebSocketConnection:
        [head] = self.client.data_to_send()
        lines = [line.split(b": ") for line in head.split(b"\r\n")[1:-2]]
        pairs = [(name.lower(), value) for name, value in lines]
        request = SocketRequest("GET", "/ws", b"/ws", b"", pairs, dict(pairs), flow=self.flow)
        opened = await self.upgrade.open(request, (), self._limits)
        assert isinstance(opened, WebSocketConnection)
        return opened

    def _hand_over(self, socket: WebSocketConnection) -> None:
        self.shared.connections.add(socket)
        self.transport.set_protocol(socket)

    def send(self) -> None:
        """Hand the bytes of the client to the server."""
        self.transport.protocol.data_received(b"".join(self.client.data_to_send()))

    def is_paused(self) -> bool:
        """Whether the server reads no more."""
        return self.transport.is_paused

    def heard(self) -> list[str]:
        """The frames that came since the last call."""
        data, self.transport.written = self.transport.written, bytearray()
        self.client.receive_data(bytes(data))
        return [str(event) for event in self.client.events_received() if isinstance(event, Frame)]


async def _never(request: Request, response: Response) -> None:
    raise AssertionError("no request is served here")


@pytest.fixture
async def pair() -> Pair:
    return Pair(WebSocketLimits(max_message_bytes=100_000, max_waiting_messages=2))


async def test_messages_go_and_come(pair: Pair) -> None:
    socket = await pair.open()
    assert socket.peer == "127.0.0.1"
    assert pair.heard() == []
    pair.client.send_text(b"one", fin=False)
    pair.client.send_continuation(b" two", fin=True)
    pair.send()
    assert await socket.receive() == "one two"
    await socket.send("three")
    await socket.send(b"\x00")
    assert pair.heard() == ["TEXT 'three' [5 bytes]", "BINARY 00 [1 byte]"]


async def test_messages_that_came_with_the_handshake(pair: Pair) -> None:
    pair.upgrade.early = b"\x81\x83\x00\x00\x00\x00one"
    socket = await pair.open()
    assert await socket.receive() == "one"


async def test_a_client_that_left_before_the_answer(pair: Pair) -> None:
    pair.flow.lose()
    with pytest.raises(Disconnected):
        await pair.open()


async def test_a_handler_that_is_behind_stops_the_reading(pair: Pair) -> None:
    socket, transport = await pair.open(), pair.transport
    pair.heard()
    for number in range(5):
        pair.client.send_text(b"%d" % number)
        if not transport.is_paused:
            pair.send()
    assert pair.is_paused()
    assert pair.shared.budget.held_bytes > 0
    assert [await socket.receive() for _ in range(2)] == ["0", "1"]
    await settle()
    assert not pair.is_paused()
    pair.send()
    assert [await socket.receive() for _ in range(3)] == ["2", "3", "4"]
    assert pair.shared.budget.held_bytes == 0


async def test_a_peer_that_is_behind_makes_senders_wait(pair: Pair) -> None:
    socket = await pair.open()
    pair.heard()
    pair.transport.is_stuck = True
    await socket.send(b"x" * 70_000)
    waiting = asyncio.ensure_future(socket.send(b"more"))  # noqa: TID251 - ends below
    pair.client.send_ping(b"")
    pair.send()
    await settle()
    assert not waiting.done()
    # The pong would be one more byte that it does not read.
    assert pair.is_paused()
    pair.transport.is_stuck = False
    socket.resume_writing()
    await waiting
    await settle()
    assert not pair.is_paused()
    assert [one.split()[0] for one in pair.heard()] == ["BINARY", "PONG", "BINARY"]


async def test_a_peer_that_does_not_read_is_cut_off(pair: Pair) -> None:
    socket = await pair.open()
    pair.transport.is_stuck = True
    await socket.send(b"x" * 70_000)
    now = pair.flow.loop.time()
    socket.close_if_idle(now, unread_s=75)
    socket.close_if_idle(now + 80, unread_s=75)
    await settle()
    with pytest.raises(WebSocketClosed, match="1006 the peer does not read"):
        await socket.send("late")
    assert not pair.shared.connections
    assert pair.shared.budget.held_bytes == 0


async def test_a_silent_peer_is_pinged_and_cut_off(pair: Pair) -> None:
    socket = await pair.open()
    now = pair.flow.loop.time()
    for after_s in (19, 20, 30):
        socket.close_if_idle(now + after_s, unread_s=75)
    assert pair.heard() == ["PING '' [0 bytes]"]
    socket.close_if_idle(now + 41, unread_s=75)
    assert pair.heard() == ["CLOSE 1011 (internal error) the peer does not answer pings [32 bytes]"]
    assert pair.transport.has_eof
    with pytest.raises(WebSocketClosed, match="1011 the peer does not answer pings"):
        await socket.receive()
    # It does not close its side either.
    socket.close_if_idle(now + 50, unread_s=75)
    await settle()
    assert not pair.shared.connections


async def test_a_message_without_room_closes_the_socket(pair: Pair) -> None:
    socket = await pair.open()
    pair.heard()
    pair.shared.budget.hold("", 1 << 20)
    pair.client.send_binary(b"whole")
    pair.client.send_binary(b"x" * 90_000, fin=False)
    pair.send()
    assert "1013 (try again later)" in pair.heard()[0]
    assert await socket.receive() == b"whole"
    with pytest.raises(WebSocketClosed, match="no room"):
        await socket.receive()
    assert pair.shared.budget.held_bytes == 1 << 20


@pytest.mark.parametrize("data", [b"\xff", b"x" * 200_000], ids=["no UTF-8", "too large"])
async def test_a_message_that_is_not_accepted(pair: Pair, data: bytes) -> None:
    socket = await pair.open()
    pair.heard()
    pair.client.send_text(data)
    pair.client.send_text(b"after")
    pair.send()
    [close] = pair.heard()
    assert close.startswith("CLOSE 10")
    with pytest.raises(WebSocketClosed):
        await socket.receive()


async def test_both_sides_close(pair: Pair) -> None:
    socket = await pair.open()
    pair.heard()
    closing = asyncio.ensure_future(socket.close(4001, "enough"))  # noqa: TID251 - ends below
    await settle()
    assert pair.heard() == ["CLOSE 4001 (private use) enough [8 bytes]"]
    pair.send()
    assert pair.transport.has_eof
    assert not socket.eof_received()
    pair.transport.close()
    await closing
    await socket.close()
    with pytest.raises(WebSocketClosed, match="4001 enough"):
        await socket.send("late")


async def test_a_peer_that_leaves(pair: Pair) -> None:
    socket = await pair.open()
    reading = asyncio.ensure_future(socket.receive())  # noqa: TID251 - ends below
    await settle()
    with pytest.raises(RuntimeError, match="one reader"):
        await socket.receive()
    socket.eof_received()
    with pytest.raises(WebSocketClosed, match="1006"):
        await reading


async def test_a_stop_says_goodbye_and_then_cuts_off(pair: Pair) -> None:
    socket = await pair.open()
    pair.heard()
    socket.shutdown()
    assert pair.heard() == ["CLOSE 1001 (going away) the gateway stops [19 bytes]"]
    socket.abort()
    await settle()
    assert [message async for message in socket] == []


async def test_a_peer_that_does_not_answer_a_close_frame_is_cut_off(pair: Pair) -> None:
    socket = await pair.open()
    socket.shutdown()
    now = pair.flow.loop.time()
    socket.close_if_idle(now + 19, unread_s=75)
    assert not pair.transport.is_closing()
    socket.close_if_idle(now + 21, unread_s=75)
    assert pair.transport.is_closing()


async def test_the_budget_counts_for_the_caller_of_the_handshake(pair: Pair) -> None:
    socket = await pair.open()
    pair.heard()
    pair.client.send_text(b"hello")
    pair.send()
    socket.request.caller = "another"
    assert await socket.receive() == "hello"
    assert pair.shared.budget.held_bytes == 0


async def test_a_sender_without_an_end_lets_others_run(pair: Pair) -> None:
    socket = await pair.open()
    ran: list[str] = []
    pair.flow.loop.call_soon(ran.append, "another")
    for _ in range(100):
        await socket.send("x")
    assert ran == ["another"]
