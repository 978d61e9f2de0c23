"""`WebSocketConnection`: a WebSocket on one of our own connections.

The protocol of `websockets` reads and writes the frames and does no I/O. Here are the socket, the
limits and the back-pressure: a peer that sends more than its handler takes is not read from, and
a peer that does not read is cut off.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Generator
from types import coroutine

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.ports.websocket import (
    ABNORMAL,
    GOING_AWAY,
    INTERNAL_ERROR,
    INVALID_DATA,
    NORMAL,
    TOO_BIG,
    TRY_AGAIN_LATER,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
    check_reason,
)
from trunkline.server.flow_control import FlowControl
from trunkline.server.memory_budget import SMALL_BYTES
from trunkline.server.shared import Shared
from trunkline.server.sockets import SocketRequest

_log = logging.getLogger("trunkline.server")

# The bytes that are parsed at once, and the frames after which other connections get a turn, in
# both directions. A read may bring 40,000 empty frames, which take half a second.
SLICE_BYTES = 2048
MAX_FRAMES_AT_ONCE = 64
# A message that waits costs about this much beside its bytes.
MESSAGE_OVERHEAD_BYTES = 64
_DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})


@coroutine
def _others_run() -> Generator[None]:
    """Wait for one turn of the event loop."""
    yield


class WebSocketConnection(WebSocket, asyncio.Protocol):
    request: SocketRequest

    def __init__(
        self,
        shared: Shared,
        flow: FlowControl,
        request: SocketRequest,
        protocol: ServerProtocol,
        limits: WebSocketLimits,
        *,
        peer: str,
    ) -> None:
        self.request = request
        self.peer = peer
        self.subprotocol = protocol.subprotocol
        self._shared = shared
        self._flow = flow
        # The memory budget counts for the caller that the check has found, to the end.
        self._caller = request.caller
        self._protocol = protocol
        self._limits = limits
        # The messages that wait for the handler, and their bytes.
        self._messages: deque[str | bytes] = deque()
        self._waiting_bytes = 0
        # The message whose last frame has not come yet.
        self._fragments: bytearray | None = None
        self._is_text = False
        # Bytes that were read and not parsed, because the handler is behind.
        self._unparsed = b""
        self._is_scheduled = False
        # Whether the peer pings and does not read the answers.
        self._owes_pongs = False
        # The bytes that the memory budget counts for messages that come.
        self._held_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        self._is_lost = False
        # Whether the gateway has ended the socket because of the peer; what it sends is dropped.
        self._has_failed = False
        # The reason, where no close frame could tell it.
        self._cut_reason = ""
        # A peer may read as fast as its handler writes, which then never waits.
        self._sends_in_a_row = 0
        self._heard_at = flow.loop.time()
        self._is_pinged = False
        # The time when a peer that does not close its side is cut off.
        self._close_due: float | None = None

    def begin(self, early: bytes) -> None:
        """Send the answer of the handshake, and read."""
        self._flush()
        self._flow.start_reading()
        if early:
            self.data_received(early)

    # Called by the handler.

    async def receive(self) -> str | bytes:
        while not self._messages:
            if self._is_over:
                raise self._closing()
            if self._reader is not None:
                raise RuntimeError("a WebSocket has one reader at a time")
            self._reader = self._flow.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._messages.popleft()
        self._waiting_bytes -= len(message) + MESSAGE_OVERHEAD_BYTES
        if not self._is_lost:
            self._hold(self._size)
        if not self._messages:
            self._parse_soon()
        return message

    async def send(self, message: str | bytes) -> None:
        data = message.encode() if isinstance(message, str) else message
        if len(data) > SMALL_BYTES:
            self._flow.admit(self._caller, len(data))
        self._sends_in_a_row += 1
        if self._sends_in_a_row >= MAX_FRAMES_AT_ONCE:
            self._sends_in_a_row = 0
            await _others_run()
        while self._flow.is_congested:
            await self._flow.drain()
        # A transport that fails tells so in the next turn of the loop.
        if not self._is_open or self._flow.is_lost or self._flow.transport.is_closing():
            raise self._closing()
        if isinstance(message, str):
            self._protocol.send_text(data)
        else:
            self._protocol.send_binary(data)
        self._flush()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        check_reason(reason)
        self._send_close(code, reason)
        if self._is_lost:
            return
        if self._closed is None:
            self._closed = self._flow.loop.create_future()
        # Messages that still come are dropped, so that the close frame behind them is read.
        self._parse_soon()
        try:
            async with asyncio.timeout(self._limits.close_s):
                # Shielded, because others may wait for it too.
                await asyncio.shield(self._closed)
        except TimeoutError:
            self._flow.abort()

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._flow.loop.time()
        self._is_pinged = False
        self._unparsed = self._unparsed + data if self._unparsed else data
        if not self._is_scheduled:
            self._parse()

    def eof_received(self) -> bool:
        """The peer sends no more, which ends a WebSocket: it could not answer a close frame."""
        self._flow.has_ended = True
        self._protocol.receive_eof()
        self._flush()
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._shared.connections.discard(self)
        self._hold(0)
        self._flow.lose()
        self._flow.forget()
        self._unparsed, self._fragments = b"", None
        self.request.wake()
        self._wake()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()
        if self._owes_pongs:
            self._owes_pongs = False
            self._parse_soon()

    # Called by the listener.

    def close_if_idle(self, now: float, *, unread_s: float) -> None:
        """Ping a silent peer. Cut off one that does not answer, read, or close."""
        silent_s = now - self._heard_at
        self._flow.abort_if_stuck_since(now - unread_s, now)
        if self._close_due is not None:
            if self._close_due <= now:
                self._flow.abort()
        elif self._flow.is_lost:
            if not self._cut_reason:
                self._cut_reason = "the peer does not read"
                self._log_end(self._cut_reason)
        elif not self._flow.is_reading:
            # The peer cannot be heard, because its handler is behind.
            self._heard_at = now
        elif not self._is_open:
            # A close frame was sent, and the peer does not answer it.
            if silent_s >= self._limits.ping_s:
                self._flow.abort()
        elif silent_s >= self._limits.ping_s + self._limits.pong_s:
            self._fail(INTERNAL_ERROR, "the peer does not answer pings")
            self._log_end("the peer does not answer pings")
        elif silent_s >= self._limits.ping_s and not self._is_pinged:
            self._is_pinged = True
            self._protocol.send_ping(b"")
            self._flush()

    def abort(self) -> None:
        self._flow.abort()

    def shutdown(self) -> None:
        self._send_close(GOING_AWAY, "the gateway stops")

    # The rest is internal.

    @property
    def _is_open(self) -> bool:
        return self._protocol.state is State.OPEN

    @property
    def _is_over(self) -> bool:
        """Whether no more messages come."""
        return self._is_lost or self._protocol.eof_sent or self._protocol.reader.eof

    @property
    def _is_full(self) -> bool:
        limits = self._limits
        is_behind = (
            len(self._messages) >= limits.max_waiting_messages
            or self._waiting_bytes >= limits.max_waiting_bytes
        )
        return (is_behind and self._closed is None) or self._owes_pongs

    def _closing(self) -> WebSocketClosed:
        protocol = self._protocol
        if self._cut_reason:
            return WebSocketClosed(ABNORMAL, self._cut_reason)
        told = protocol.close_rcvd if protocol.close_rcvd_then_sent else protocol.close_sent
        if told is None:
            told = protocol.close_rcvd
        if told is None:
            return WebSocketClosed(ABNORMAL, "the connection ended without a close frame")
        return WebSocketClosed(told.code, told.reason)

    def _parse_soon(self) -> None:
        """Parse what was read, after the other connections had their turn."""
        if not self._is_scheduled and not (self._is_lost or self._flow.is_reading):
            self._is_scheduled = True
            self._flow.loop.call_soon(self._parse)

    def _parse(self) -> None:
        """Parse what was read, until the handler is behind or other connections want a turn."""
        self._is_scheduled = False
        if self._is_lost:
            return
        data, start, frames = self._unparsed, 0, 0
        while start < len(data) and frames < MAX_FRAMES_AT_ONCE and not self._is_full:
            frames += self._feed(data[start : start + SLICE_BYTES])
            start += SLICE_BYTES
        self._unparsed = data[start:]
        self._flush()
        self._hold(self._size)
        if self._is_over:
            # The protocol discards what comes now; it is read so that the peer gets the close frame
            # instead of a reset.
            self._unparsed, self._fragments = b"", None
            self._hold(self._size)
            self._wake()
            self._flow.start_reading()
        elif self._unparsed or self._is_full:
            self._flow.pause_reading()
            if not self._is_full:
                self._parse_soon()
        else:
            self._flow.resume_reading()

    def _feed(self, data: bytes) -> int:
        """The number of frames that the data have completed."""
        self._protocol.receive_data(data)
        frames = self._protocol.events_received()
        for frame in frames:
            if isinstance(frame, Frame) and not self._has_failed:
                self._take(frame)
        return len(frames)

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PING:
            # The pongs of a peer that does not read them would fill the memory.
            self._owes_pongs = self._flow.is_congested
            return
        if frame.opcode not in _DATA or self._closed is not None:
            return
        if len(frame.data) > self._limits.max_frame_bytes:
            limit = self._limits.max_frame_bytes
            self._fail(TOO_BIG, f"a frame is larger than {limit} bytes")
            return
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        data = frame.data
        if not frame.fin or self._fragments is not None:
            if self._fragments is None:
                self._fragments = bytearray()
            self._fragments += data
            if not frame.fin:
                return
            data, self._fragments = self._fragments, None
        self._deliver(data)

    def _deliver(self, data: "bytes | bytearray | memoryview") -> None:
        try:
            message = str(data, "utf-8") if self._is_text else bytes(data)
        except UnicodeDecodeError:
            # RFC 6455, 8.1.
            self._fail(INVALID_DATA, "a text is not valid UTF-8")
            return
        self._messages.append(message)
        self._waiting_bytes += len(message) + MESSAGE_OVERHEAD_BYTES
        self._wake()

    @property
    def _size(self) -> int:
        """The bytes of messages that are here and not with the handler."""
        fragments = len(self._fragments) if self._fragments is not None else 0
        buffered = len(self._protocol.reader.buffer)
        return self._waiting_bytes + fragments + buffered + len(self._unparsed)

    def _hold(self, size: int) -> None:
        """Have the memory budget count `size` bytes, or close a socket that has no room."""
        budget, caller = self._flow.budget, self._caller
        more = size - self._held_bytes
        if more > 0:
            if size > SMALL_BYTES and not self._has_failed:
                try:
                    budget.admit(caller, more)
                except (TooManyRequests, Unavailable):
                    self._fail(TRY_AGAIN_LATER, "the gateway has no room for the message")
                    self._log_end("the gateway has no room for the message")
            # They are here, and are dropped in a moment if there is no room for them.
            budget.hold(caller, more)
        elif more < 0:
            budget.release(caller, -more)
        self._held_bytes = size

    def _send_close(self, code: int, reason: str) -> None:
        if self._is_open and not self._is_lost:
            self._protocol.send_close(code, reason)
            self._flush()

    def _fail(self, code: int, reason: str) -> None:
        """End the socket because of the peer, which is told the reason if it reads."""
        self._has_failed = True
        if self._is_open:
            self._protocol.fail(code, reason)
            self._flush()
        self._wake()

    def _log_end(self, reason: str) -> None:
        _log.info("WebSocket ended: %s", reason, extra={"path": self.request.path})

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._flow.write(data)
            else:
                self._flow.end_writing()
                self._close_due = self._flow.loop.time() + self._limits.close_s

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
