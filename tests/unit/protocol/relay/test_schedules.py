"""Random schedules on a wire that is cut, delayed and dialed again, with a relay that forgets.

Whatever happens, each half of a stream is complete and in order, or it ended with a reason; and
what both sides hold stays bounded.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field
from tests.unit.protocol.relay.pair import Pair

from trunkline.protocol.relay.events import (
    Answered,
    Cancelled,
    HostEvent,
    Opened,
    Piece,
    RelayEvent,
    Welcomed,
)
from trunkline.protocol.relay.frames import MAX_HEAD_BYTES, PIECE_OVERHEAD_BYTES, Limits
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.protocol.relay.session import MAX_PIECE_BYTES, Session, SessionSettings

WINDOW = 4096
SETTINGS = SessionSettings(
    limits=Limits(stream_bytes=WINDOW, max_streams=6),
    max_unacknowledged_frames=40,
    max_unacknowledged_bytes=9000,
    resume_s=6,
    heartbeat_s=3,
)
MOST_BYTES = SETTINGS.max_unacknowledged_bytes + MAX_PIECE_BYTES + MAX_HEAD_BYTES


class Half(Struct):
    """What one side sends on a stream, and what the other one got of it."""

    to_send: bytes
    sent: bytes = b""
    # Whether the last piece was sent, and whether it came.
    is_done: bool = False
    is_complete: bool = False
    got: bytes = b""
    unread: list[int] = field(default_factory=list)

    def take(self, piece: Piece) -> None:
        assert not self.is_complete
        self.got += piece.data
        self.is_complete = piece.is_last
        self.unread.append(len(piece.data))
        assert sum(size + PIECE_OVERHEAD_BYTES for size in self.unread if size) <= WINDOW
        assert self.sent.startswith(self.got)


class Exchange(Struct):
    stream: int
    request: Half
    response: Half
    has_reached_host: bool = False
    has_answered: bool = False
    relay_got_answer: bool = False
    # How the stream ended for each side, where it was not complete.
    relay_ends: list[str] = field(default_factory=list)
    host_ends: list[str] = field(default_factory=list)


class World(Pair):
    def __init__(self) -> None:
        # By the session and the number of the stream.
        self.exchanges: dict[tuple[str, int], Exchange] = {}
        self.host_session = ""
        super().__init__(relay=SETTINGS, host=SETTINGS)
        self.dial()

    def at_relay(self, stream: int) -> Exchange:
        return self.exchanges[self.relay.id, stream]

    def at_host(self, stream: int) -> Exchange:
        return self.exchanges[self.host_session, stream]

    def on_relay_event(self, event: RelayEvent) -> None:
        match event:
            case Answered():
                assert not self.at_relay(event.stream).relay_got_answer
                self.at_relay(event.stream).relay_got_answer = True
            case Piece():
                assert self.at_relay(event.stream).relay_got_answer
                self.at_relay(event.stream).response.take(event)
            case Cancelled():
                self.at_relay(event.stream).relay_ends.append(event.reason)
            case _:
                pass

    def on_host_event(self, event: HostEvent) -> None:
        match event:
            case Welcomed(is_resumed=False):
                self.host_session = self.host.id
            case Opened():
                assert not self.at_host(event.stream).has_reached_host
                self.at_host(event.stream).has_reached_host = True
            case Piece():
                self.at_host(event.stream).request.take(event)
            case Cancelled():
                self.at_host(event.stream).host_ends.append(event.reason)
            case _:
                pass

    def step(self, what: str, number: int) -> None:
        operations: dict[str, Callable[[int], None]] = {
            "open": self.begin,
            "write": self.write,
            "read": self.read,
            "cancel": self.cancel,
            "to relay": partial(self.deliver, self.deliver_to_relay),
            "to host": partial(self.deliver, self.deliver_to_host),
            "cut": lambda _: self.cut(),
            "dial": lambda _: self.dial(),
            "forget": self.forget,
            "wait": lambda number: self.wait(1 + number % 3),
        }
        operations[what](number)
        self.collect()
        self.check()

    def begin(self, number: int) -> None:
        data = bytes(index % 251 for index in range(number % 9000))
        room = self.relay.first_room
        try:
            stream = self.open(data[:room], is_last=len(data) <= room)
        except CannotOpen:
            return
        self.exchanges[self.relay.id, stream] = Exchange(
            stream,
            Half(data, data[:room], is_done=len(data) <= room),
            Half(bytes(index % 241 for index in range(number * 7 % 20_000))),
        )

    def open_halves(self) -> Iterator[tuple[Session, Exchange, Half, Half]]:
        """The streams of both sides, each with the half that the side sends and the one it
        reads."""
        for (session, stream), each in list(self.exchanges.items()):
            if session == self.relay.id and stream in self.relay.streams:
                yield self.relay, each, each.request, each.response
            if session == self.host_session and stream in self.host.streams:
                yield self.host, each, each.response, each.request

    def write(self, number: int) -> None:
        able = [each[:3] for each in self.open_halves() if self._has_more(*each[:3])]
        if able:
            session, exchange, half = able[number % len(able)]
            self._write(session, exchange, half, 1 + number % MAX_PIECE_BYTES)

    def _has_more(self, session: Session, exchange: Exchange, half: Half) -> bool:
        return not (half.is_done or session.streams[exchange.stream].has_ended)

    def _write(self, session: Session, exchange: Exchange, half: Half, size: int) -> bool:
        room = session.room(exchange.stream)
        if not room:
            return False
        piece = half.to_send[len(half.sent) :][: min(room, size)]
        half.sent += piece
        half.is_done = len(half.sent) == len(half.to_send)
        if session is self.host and not exchange.has_answered:
            exchange.has_answered = True
            self.host.accept(exchange.stream)
            self.host.answer(
                exchange.stream, status=200, headers=[], data=piece, is_last=half.is_done
            )
        else:
            session.send(exchange.stream, piece, is_last=half.is_done)
        return True

    def read(self, number: int) -> None:
        able = [each for each in self.open_halves() if each[3].unread]
        if able:
            session, exchange, _, half = able[number % len(able)]
            session.consume(exchange.stream, half.unread.pop(0))

    def cancel(self, number: int) -> None:
        able = list(self.open_halves())
        if able:
            session, exchange, _, _ = able[number % len(able)]
            ends = exchange.relay_ends if session is self.relay else exchange.host_ends
            if not session.streams[exchange.stream].is_cancelled:
                ends.append("own")
                session.cancel(exchange.stream, "closed")

    def deliver(self, one: Callable[[], bool], number: int) -> None:
        for _ in range(1 + number % 5):
            one()

    def forget(self, number: int) -> None:
        """The process of the relay ends; its clients lose their connections."""
        if number % 4:
            return
        for session, exchange, _, _ in self.open_halves():
            if session is self.relay and not self.relay.streams[exchange.stream].is_cancelled:
                exchange.relay_ends.append("own")
        self.restart_relay()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.relay.tick(self.now)
            self.host.tick(self.now)
            self.collect()

    def check(self) -> None:
        assert set(self.closes) <= {4408}
        for session in (self.relay, self.host):
            assert session._outbox.bytes <= MOST_BYTES
            assert len(session.streams) <= 6

    def finish(self) -> None:
        """Let everything come to its end on a wire that works."""
        for _ in range(200):
            if not self.is_up:
                self.dial()
            self.settle()
            for session, exchange, own, other in self.open_halves():
                while other.unread:
                    session.consume(exchange.stream, other.unread.pop(0))
                if self._has_more(session, exchange, own):
                    self._write(session, exchange, own, MAX_PIECE_BYTES)
            self.settle()
            self.wait(1)
            if not (self.relay.streams or self.host.streams):
                return
        raise AssertionError("some streams never end")


OPERATIONS = (
    ["open"] * 4
    + ["write"] * 10
    + ["read"] * 8
    + ["cancel"]
    + ["to relay", "to host"] * 8
    + ["cut", "dial", "dial", "wait"]
    + ["forget"]
)


@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 2**16)), min_size=20, max_size=120
    )
)
@settings(max_examples=60, deadline=None)
def test_each_half_is_complete_or_ended_with_a_reason(schedule: list[tuple[str, int]]) -> None:
    play(schedule)


@pytest.mark.parametrize("seed", range(40))
def test_so_it_is_after_long_schedules(seed: int) -> None:
    chance = Random(seed)
    play([(chance.choice(OPERATIONS), chance.randrange(2**16)) for _ in range(400)])


def play(schedule: list[tuple[str, int]]) -> None:
    world = World()
    for what, number in schedule:
        world.step(what, number)
    world.finish()
    for exchange in world.exchanges.values():
        judge(exchange.response, exchange.relay_ends)
        if exchange.has_reached_host:
            judge(exchange.request, exchange.host_ends)


def judge(half: Half, ends: list[str]) -> None:
    # A half that is complete may be followed by a cancel of the other one.
    assert len(ends) <= 1
    if half.is_complete:
        assert half.got == half.to_send
    else:
        assert ends
