"""`EntrySession` and `HolderSession`, joined by a wire that loses nothing unless it is cut."""

import pytest

from trunkline.protocol.relay.accepting_session import read_hello
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.close_codes import NOT_AUTHENTICATED, Close
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Opened, Piece, Welcomed
from trunkline.protocol.relay.hop_sessions import EntrySession, HolderSession
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.protocol.relay.session import SessionSettings

AGENT, ALICE, KEY = "acme/helper", Caller(id="alice"), b"k" * 32
SETTINGS = SessionSettings()


class Hop:
    def __init__(self) -> None:
        self.now = 100.0
        self.refused: list[str] = []
        self.entry = EntrySession(SETTINGS, now=self.now, on_refused=self.refused.append)
        self.entry.expected_key = KEY
        self.holder = HolderSession(SETTINGS, now=self.now, id="s1", key=KEY)
        self.connect()

    def connect(self) -> None:
        self.entry.connect(self.now)
        (hello,) = self.entry._output
        self.entry._output.clear()
        self.holder.connect(read_hello(hello, SETTINGS.limits), self.now)
        self.settle()

    def settle(self) -> None:
        while True:
            to_entry, to_holder = self.holder.take_output(), self.entry.take_output()
            if not to_entry and not to_holder:
                return
            for message in to_entry:
                self.entry.receive(message, self.now)
            for message in to_holder:
                self.holder.receive(message, self.now)

    def cut(self) -> None:
        self.entry.disconnect(self.now)
        self.holder.disconnect(self.now)

    def open(self, data: bytes = b"") -> int:
        return self.entry.open(
            agent=AGENT, caller=ALICE, method="POST", target="/a2a", headers=(), data=data
        )


@pytest.fixture
def hop() -> Hop:
    hop = Hop()
    hop.entry.epochs[AGENT] = 7
    hop.entry.take_events()
    return hop


def test_a_request_comes_with_the_epoch_that_the_entry_has_seen(hop: Hop) -> None:
    stream = hop.open(b"hello")
    hop.settle()
    opened, piece = hop.holder.take_events()
    assert isinstance(opened, Opened)
    assert (opened.agent, opened.epoch, opened.caller) == (AGENT, 7, ALICE)
    assert piece == Piece(stream, b"hello", True)
    hop.holder.accept(stream)
    hop.holder.answer(stream, status=200, headers=(), data=b"hi", is_last=True)
    hop.settle()
    assert hop.entry.take_events() == [
        Accepted(stream),
        Answered(stream, 200, ()),
        Piece(stream, b"hi", True),
    ]
    assert not hop.entry.streams
    assert not hop.holder.streams


def test_an_agent_that_the_entry_has_not_looked_up_gets_nothing(hop: Hop) -> None:
    hop.entry.epochs.clear()
    with pytest.raises(CannotOpen):
        hop.open()


def test_a_refusal_tells_the_entry_to_look_again(hop: Hop) -> None:
    stream = hop.open()
    hop.settle()
    hop.holder.cancel(stream, "refused", "the agent is not here any more")
    hop.settle()
    (end,) = hop.entry.take_events()
    assert isinstance(end, Cancelled)
    assert end.is_unsent
    assert hop.refused == [AGENT]


def test_a_lost_request_that_may_have_begun_is_no_refusal(hop: Hop) -> None:
    hop.open()
    hop.settle()
    hop.cut()
    hop.now += SETTINGS.resume_s
    hop.entry.tick(hop.now)
    (end,) = hop.entry.take_events()
    assert isinstance(end, Cancelled)
    assert not end.is_unsent
    assert hop.refused == []


def test_a_request_that_no_connection_has_taken_may_be_repeated(hop: Hop) -> None:
    hop.cut()
    hop.open()
    hop.now += SETTINGS.resume_s
    hop.entry.tick(hop.now)
    (end,) = hop.entry.take_events()
    assert isinstance(end, Cancelled)
    assert end.is_unsent
    assert hop.refused == [AGENT]


def test_a_session_goes_on_after_a_lost_connection(hop: Hop) -> None:
    stream = hop.open(b"hello")
    hop.settle()
    hop.holder.take_events()
    hop.cut()
    hop.holder.answer(stream, status=200, headers=(), data=b"hi", is_last=True)
    hop.connect()
    assert hop.entry.take_events() == [
        Welcomed(True),
        Answered(stream, 200, ()),
        Piece(stream, b"hi", True),
    ]


def test_a_node_that_has_forgotten_the_session_ends_its_streams(hop: Hop) -> None:
    hop.open()
    hop.settle()
    hop.cut()
    hop.holder = HolderSession(SETTINGS, now=hop.now, id="s2", key=KEY)
    hop.connect()
    end, welcomed = hop.entry.take_events()
    assert isinstance(end, Cancelled)
    assert welcomed == Welcomed(False)
    # What it knew was of the session before.
    assert hop.entry.epochs == {}


@pytest.mark.parametrize("key", [b"", b"x" * 32, KEY[:-1], KEY + b"k"])
def test_a_node_that_does_not_know_the_secret_gets_no_request(hop: Hop, key: bytes) -> None:
    hop.cut()
    hop.holder = HolderSession(SETTINGS, now=hop.now, id="s2", key=key)
    hop.connect()
    assert hop.entry.closing == Close(NOT_AUTHENTICATED, "what answers there is not the relay node")
    assert not hop.entry.is_connected


def test_a_holder_that_ends_the_session_tells_the_entry(hop: Hop) -> None:
    hop.open()
    hop.settle()
    hop.holder.end("the node stops")
    assert hop.holder.closing is not None
    hop.entry.disconnect(hop.now, hop.holder.closing)
    (end,) = hop.entry.take_events()
    assert isinstance(end, Cancelled)
    assert end.text == "the node stops"
