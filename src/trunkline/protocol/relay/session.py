"""`Session`: what relay and host share, over any number of connections.

It does no I/O and has no clock. The caller of a method that takes `now` gives the seconds of a
clock that only runs forward, and afterwards takes the events and the frames to send; `closing` says
that the connection is to be closed. `tick` is called about once a second.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    OUT_OF_ORDER,
    OVER_LIMIT,
    SILENT,
    Close,
    ends_session,
)
from trunkline.protocol.relay.events import Cancelled, Draining, Piece, Writable
from trunkline.protocol.relay.frames import (
    MAX_HEAD_BYTES,
    PIECE_OVERHEAD_BYTES,
    Ack,
    Cancel,
    Credit,
    Data,
    Drain,
    Frame,
    Limits,
    Numbered,
    Ping,
    Pong,
    Reason,
    Req,
    Res,
    Violation,
    decode,
    encode,
)
from trunkline.protocol.relay.outbox import Outbox, Turns
from trunkline.protocol.relay.streams import Stream, cost

# Streams take turns after pieces of this size.
MAX_PIECE_BYTES: Final = 32 * 1024
# The frames, or bytes, after which an acknowledgement is sent at once; else `tick` sends it.
_ACK_FRAMES: Final = 32
_ACK_BYTES: Final = 128 * 1024
# A stream has at most this many frames without a body on their way: accept, cancel, and credit for
# the two halves of its window.
_CONTROLS_PER_STREAM: Final = 4
# What those frames take at most, beside the bodies. Only leases that change all the time take more.
_CONTROL_BYTES: Final = 1024 * 1024
_MAX_TEXT_CHARS: Final = 200


class SessionSettings(Struct, frozen=True, kw_only=True):
    # What this side lets the peer do.
    limits: Limits = Limits()
    # What this side keeps of frames that were not acknowledged.
    max_unacknowledged_frames: int = 1000
    max_unacknowledged_bytes: int = 1024 * 1024
    # A silent peer is pinged after this time, and counts as gone after twice of it. The host takes
    # this and the next from the relay.
    heartbeat_s: float = 20.0
    # A side that opens streams pings a peer that has said nothing for this time, though it was to
    # acknowledge a frame within a second.
    ack_wait_s: float = 3.0
    # And it counts such a peer as gone when nothing comes for this time after the ping. Hosts whose
    # event loop is busy for some seconds, or whose network is, are not gone.
    ping_wait_s: float = 8.0
    # How long a session outlives its connection.
    resume_s: float = 30.0
    # How long a token counts after its end, for a new one to come.
    token_grace_s: float = 10.0


class Session:
    """The common part of both sides; `handlers` of a side have its own frames."""

    def __init__(self, settings: SessionSettings, *, now: float) -> None:
        self.settings = settings
        self.limits: Final = settings.limits
        # What the peer lets this side do.
        self.peer_limits = Limits()
        self.id = ""
        self.closing: Close | None = None
        self.is_connected = False
        self.is_ended = False
        self.is_draining = False
        self.peer_is_draining = False
        self.streams: dict[int, Stream] = {}
        # The seconds from a ping to its answer, the last time; None before the first one.
        self.round_trip_s: float | None = None
        self._outbox = self._new_outbox()
        # The number of the last frame of the peer, and of the last one that was acknowledged.
        self._received = 0
        self._acknowledged = 0
        self._unacknowledged_bytes = 0
        self._turns = Turns()
        self._events: list[Any] = []
        # Frames without a number, except for those that answer: however often such a one is owed,
        # it is sent once, so that a peer that does not read cannot fill the memory.
        self._output: list[bytes] = []
        self._owes_ack = False
        self._owes_pong = False
        self._now = now
        self._heard_at = now
        self._pinged_at: float | None = None
        # When the peer last acknowledged a frame, or had all of them.
        self._moved_at = now
        self._lost_at = now
        self._drained_at: float | None = None
        # By the kind of the frame; what they take is the frame and its body.
        self._handlers: dict[type[Frame], Callable[[Any, bytes], None]] = {
            Ack: self._on_ack,
            Ping: self._on_ping,
            Pong: self._on_pong,
            Drain: self._on_drain,
            Data: self._on_data,
            Cancel: self._on_cancel,
            Credit: self._on_credit,
        }

    # Called by the owner of the connection.

    def receive(self, message: bytes | str, now: float) -> None:
        """Take a message of the peer. After a violation of the protocol, `closing` is set."""
        if not self._is_listening:
            return
        self._now = self._heard_at = now
        try:
            frame, body = decode(message, max_bytes=self.limits.max_frame_bytes)
            handler = self._handler_of(frame)
            if handler is None:
                raise Violation(BAD_FRAME, f"{frame.__struct_config__.tag} is not expected now")
            if isinstance(frame, Numbered):
                self._count(frame, len(message))
            handler(frame, body)
        except Violation as violation:
            self._close(violation.close)

    def disconnect(self, now: float, close: Close | None = None) -> None:
        """The connection was lost, or the peer has closed it."""
        if not self.is_connected:
            return
        self._now = now
        self._let_go()
        if close is not None and ends_session(close.code):
            self._end(close.reason or "the peer has closed the session")
        elif self.is_draining or self.peer_is_draining:
            self._end("the peer stops")

    def tick(self, now: float) -> None:
        self._now = now
        if self.is_ended:
            return
        if not self.is_connected:
            # Not while a welcome is on its way, which may resume the session.
            if not self._is_listening and now - self._lost_at >= self.settings.resume_s:
                self._end("the connection was lost and did not come back")
            return
        self._owes_ack = self._received > self._acknowledged
        silent_s, heartbeat_s = now - self._heard_at, self.settings.heartbeat_s
        if silent_s >= 2 * heartbeat_s:
            self._close(Close(SILENT, "nothing was heard of the peer"))
        elif self._outbox.last > self._outbox.acknowledged and (
            now - self._moved_at >= 2 * heartbeat_s
        ):
            self._close(Close(SILENT, "the peer acknowledges nothing"))
        elif silent_s >= heartbeat_s and self._pinged_at is None:
            self._ping()

    def take_events(self) -> list[Any]:
        """Those of `RelayEvent` or `HostEvent`, in order."""
        events, self._events = self._events, []
        return events

    def take_output(self) -> list[bytes]:
        """The messages to send, in order."""
        output, self._output = self._output, []
        if not self.is_connected:
            return output
        if self._owes_pong:
            self._owes_pong = False
            output.append(encode(Pong()))
        if self._owes_ack:
            self._owes_ack = False
            self._acknowledged = self._received
            self._unacknowledged_bytes = 0
            output.append(encode(Ack(self._received)))
        return output + self._outbox.write()

    def drain(self, within_s: float, now: float, *, retry_after_s: float = 0.0) -> None:
        """Tell the peer that this side stops, and how long its address is worth no attempt."""
        if not self.is_draining and not self.is_ended:
            self.is_draining = True
            self._drained_at = now + within_s
            self._add(Drain(self._number, within_s, retry_after_s))

    # Called by those who read and write streams.

    def room(self, stream: int) -> int:
        """The bytes that `send` takes now. After 0, the event Writable says when to ask again."""
        state = self.streams[stream]
        by_credit = state.credit - PIECE_OVERHEAD_BYTES
        if by_credit <= 0:
            state.is_short = True
            self._end_turn(stream)
            return 0
        if not self._turns.ask(stream, has_room=self._outbox.room > 0):
            return 0
        return min(by_credit, MAX_PIECE_BYTES)

    def send(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        """A piece of the body, with no more bytes than there is `room` for. The last one may be
        empty, which needs no room."""
        frame = Data(self._number, stream, is_last)
        self._send_piece(self.streams[stream], frame, data, is_last=is_last)

    def consume(self, stream: int, size: int) -> None:
        """A piece of this size was read, so the peer may send more."""
        state = self.streams.get(stream)
        if state is None:
            return
        more = state.consume(size, window=self.limits.stream_bytes)
        if more:
            self._add(Credit(self._number, stream, more))

    def cancel(self, stream: int, reason: Reason, text: str = "") -> None:
        """End this side's half of a stream, and want no more of the other one."""
        state = self.streams.get(stream)
        if state is not None and not state.is_cancelled:
            state.is_cancelled = True
            self._add(Cancel(self._number, stream, reason, text[:_MAX_TEXT_CHARS]))
            self._end_turn(stream)
            self._end_own(state)

    # The rest is internal.

    @property
    def _is_listening(self) -> bool:
        return self.is_connected

    def _new_outbox(self) -> Outbox:
        return Outbox(
            max_frames=self.settings.max_unacknowledged_frames,
            max_bytes=self.settings.max_unacknowledged_bytes,
        )

    def _handler_of(self, frame: Frame) -> Callable[[Any, bytes], None] | None:
        return self._handlers.get(type(frame))

    @property
    def _number(self) -> int:
        """The number of the next numbered frame."""
        return self._outbox.last + 1

    def _count(self, frame: Numbered, size: int) -> None:
        if frame.n != self._received + 1:
            raise Violation(OUT_OF_ORDER, f"frame {frame.n} came, and {self._received + 1} is next")
        self._received = frame.n
        self._unacknowledged_bytes += size
        if (
            self._received - self._acknowledged >= _ACK_FRAMES
            or self._unacknowledged_bytes >= _ACK_BYTES
        ):
            self._owes_ack = True

    def _on_ack(self, ack: Ack, _: bytes) -> None:
        if not self._outbox.acknowledge(ack.n):
            raise Violation(OUT_OF_ORDER, f"frame {ack.n} cannot be acknowledged now")
        self._moved_at = self._now
        self._wake()

    def _wake(self) -> None:
        """Give the streams that wait for the outbox their turns, as far as it has room."""
        if self._turns.are_waited_for:
            pieces = -(-self._outbox.room // MAX_PIECE_BYTES)
            self._events.extend(map(Writable, self._turns.give(pieces)))

    def _end_turn(self, stream: int) -> None:
        self._turns.end(stream)
        self._wake()

    def _ping(self) -> None:
        self._pinged_at = self._now
        self._push(Ping())

    def _on_ping(self, ping: Ping, _: bytes) -> None:
        self._owes_pong = True

    def _on_pong(self, pong: Pong, _: bytes) -> None:
        if self._pinged_at is not None:
            self.round_trip_s = self._now - self._pinged_at
            self._pinged_at = None

    def _on_drain(self, drain: Drain, _: bytes) -> None:
        self.peer_is_draining = True
        self._events.append(Draining(drain.within_s, drain.retry_after_s))

    def _on_data(self, data: Data, body: bytes) -> None:
        if not body and not data.fin:
            raise Violation(BAD_FRAME, "a piece of a body is empty, and not the last one")
        stream = self._stream(data.stream)
        if not stream.peer_has_begun:
            raise Violation(BAD_FRAME, f"stream {data.stream} has no response yet")
        self._receive_piece(stream, body, is_last=data.fin)

    def _receive_piece(self, stream: Stream, body: bytes, *, is_last: bool) -> None:
        if stream.peer_has_ended:
            raise Violation(BAD_FRAME, f"stream {stream.number} has ended")
        if not stream.receive(len(body)):
            raise Violation(OVER_LIMIT, f"stream {stream.number} has no credit left")
        if (body or is_last) and not stream.is_cancelled:
            self._events.append(Piece(stream.number, body, is_last))
        if is_last:
            self._end_peer(stream)

    def _on_cancel(self, cancel: Cancel, _: bytes) -> None:
        stream = self.streams.get(cancel.stream)
        # It may have ended before the peer knew.
        if stream is None:
            return
        if not stream.is_cancelled:
            is_unsent = cancel.reason == "refused" and not stream.is_accepted
            text = cancel.text[:_MAX_TEXT_CHARS]
            self._cancelled(stream, cancel.reason, text, is_unsent=is_unsent)
            stream.is_cancelled = True
        if not stream.has_ended:
            self._add(Cancel(self._number, stream.number, cancel.reason))
            self._end_turn(stream.number)
            self._end_own(stream)
        self._end_peer(stream)

    def _cancelled(self, stream: Stream, reason: Reason, text: str, *, is_unsent: bool) -> None:
        self._events.append(
            Cancelled(stream=stream.number, reason=reason, text=text, is_unsent=is_unsent)
        )

    def _on_credit(self, credit: Credit, _: bytes) -> None:
        stream = self.streams.get(credit.stream)
        # The stream may have ended meanwhile.
        if stream is None:
            return
        stream.credit += credit.more
        if stream.credit > self.peer_limits.stream_bytes:
            raise Violation(
                OVER_LIMIT, f"stream {credit.stream} got more credit than it began with"
            )
        if stream.is_short:
            stream.is_short = False
            self._events.append(Writable(credit.stream))

    def _stream(self, number: int) -> Stream:
        stream = self.streams.get(number)
        if stream is None:
            raise Violation(BAD_FRAME, f"there is no stream {number}")
        return stream

    def _send_piece(
        self, stream: Stream, frame: Req | Res | Data, data: bytes, *, is_last: bool
    ) -> None:
        spent = cost(len(data))
        if stream.has_ended or spent > stream.credit or len(data) > MAX_PIECE_BYTES:
            raise ValueError(f"stream {stream.number} has no room for {len(data)} bytes")
        self._add(frame, data)
        stream.credit -= spent
        self._end_turn(stream.number)
        if is_last:
            self._end_own(stream)

    def _end_own(self, stream: Stream) -> None:
        stream.has_ended = True
        self._forget_if_over(stream)

    def _end_peer(self, stream: Stream) -> None:
        stream.peer_has_ended = True
        self._forget_if_over(stream)

    def _forget_if_over(self, stream: Stream) -> None:
        if stream.is_over:
            self.streams.pop(stream.number, None)

    def _push(self, frame: Frame) -> None:
        """Send a frame without a number, on this connection or never."""
        self._output.append(encode(frame))

    def _add(self, frame: Numbered, body: bytes = b"") -> None:
        """Send a numbered frame, on this connection or on one that resumes the session."""
        data = encode(frame, body)
        if len(data) - len(body) > MAX_HEAD_BYTES:
            raise ValueError("the head of a frame is too large")
        if self._outbox.last == self._outbox.acknowledged:
            self._moved_at = self._now
        self._outbox.add(data)
        on_their_way = self._outbox.last - self._outbox.acknowledged
        controls = _CONTROLS_PER_STREAM * self.limits.max_streams
        settings = self.settings
        if (
            on_their_way > settings.max_unacknowledged_frames + controls
            or self._outbox.bytes > settings.max_unacknowledged_bytes + _CONTROL_BYTES
        ):
            self._close(Close(OVER_LIMIT, "the peer acknowledges too little"))

    def _connect(self, limits: Limits, now: float) -> None:
        self.peer_limits = limits
        self.closing = None
        self.is_connected = True
        self._now = self._heard_at = self._moved_at = now
        self._pinged_at = None
        # All of it was acknowledged by the handshake.
        self._acknowledged = self._received
        self._unacknowledged_bytes = 0
        self._owes_ack = self._owes_pong = False

    def _close(self, close: Close) -> None:
        """Close the connection; `closing` tells the caller."""
        self.closing = close
        self._let_go()
        if ends_session(close.code):
            self._end(close.reason)

    def _let_go(self) -> None:
        if self.is_connected:
            self.is_connected = False
            self._lost_at = self._now
        self._output.clear()

    def _end(self, text: str) -> None:
        self.is_ended = True
        self._turns = Turns()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            if not stream.is_cancelled:
                is_unsent = stream.opened_by > self._outbox.written
                self._cancelled(stream, "lost", text, is_unsent=is_unsent)
