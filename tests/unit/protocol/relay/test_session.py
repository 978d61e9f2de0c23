"""Both sides of a session, joined: requests, credit, resume, cancels, heartbeats and the end."""

import pytest
from tests.unit.protocol.relay.pair import AGENT, ALICE, Pair, body, ends

from trunkline.protocol.relay.close_codes import REPLACED, Close
from trunkline.protocol.relay.events import (
    Accepted,
    Answered,
    Draining,
    Leased,
    Opened,
    Piece,
    TokenOffered,
    TokenWanted,
    Welcomed,
    Writable,
)
from trunkline.protocol.relay.frames import PIECE_OVERHEAD_BYTES, Agents, Cancel, Limits, encode
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.protocol.relay.session import MAX_PIECE_BYTES, SessionSettings

SMALL = SessionSettings(limits=Limits(stream_bytes=4096))
# Less than two pieces may be on their way.
NARROW = SessionSettings(max_unacknowledged_frames=1000, max_unacknowledged_bytes=40_000)


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    pair.dial()
    pair.settle()
    return pair


def test_a_host_is_reachable_once_it_has_its_leases(pair: Pair) -> None:
    assert pair.host_events == [Welcomed(False), Leased({AGENT: 1})]
    assert pair.relay.leases == {AGENT: 1}


def test_a_request_and_its_response_pass(pair: Pair) -> None:
    stream = pair.open(b'{"a": 1}')
    pair.settle()
    assert pair.opened() == [
        Opened(
            stream=stream,
            agent=AGENT,
            epoch=1,
            caller=ALICE,
            method="POST",
            target="/a2a",
            headers=(("a2a-version", "1.0"),),
        )
    ]
    assert body(pair.host_events, stream) == (b'{"a": 1}', True)
    pair.host.accept(stream)
    pair.host.answer(stream, status=200, headers=[("content-type", "text/event-stream")])
    pair.host.send(stream, b"data: 1\n\n")
    pair.host.send(stream, b"data: \xff\n\n", is_last=True)
    pair.settle()
    assert pair.relay_events[1:3] == [
        Accepted(stream),
        Answered(stream, 200, (("content-type", "text/event-stream"),)),
    ]
    assert body(pair.relay_events, stream) == (b"data: 1\n\ndata: \xff\n\n", True)
    assert pair.relay.streams == pair.host.streams == {}


def test_a_request_may_deliver_a_task(pair: Pair) -> None:
    pair.open(task="t")
    pair.settle()
    assert [opened.task for opened in pair.opened()] == ["t"]


def test_a_relay_cannot_deliver_another_task_than_the_signed_one(pair: Pair) -> None:
    stream = pair.open(task="t")
    pair.collect()
    pair.to_host[-1] = pair.to_host[-1].replace(b'"task":"t"', b'"task":"u"')
    pair.settle()
    assert pair.opened() == []
    assert [end.reason for end in ends(pair.relay_events, stream)] == ["refused"]


def test_a_response_may_be_complete_in_its_head(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.host.answer(stream, status=404, headers=[], data=b"no", is_last=True)
    pair.settle()
    assert pair.relay_events[1:] == [Answered(stream, 404, ()), Piece(stream, b"no", True)]


def test_a_request_may_come_in_pieces(pair: Pair) -> None:
    stream = pair.open(b"first ", is_last=False)
    pair.settle()
    pair.relay.send(stream, b"second")
    pair.relay.send(stream, b"", is_last=True)
    pair.settle()
    assert body(pair.host_events, stream) == (b"first second", True)


def test_a_sender_without_credit_waits_until_its_reader_has_read() -> None:
    pair = Pair(relay=SMALL)
    pair.dial()
    pair.settle()
    stream = pair.open()
    pair.settle()
    pair.host.answer(stream, status=200, headers=[])
    sent = pair.host.room(stream)
    assert sent == 4096 - PIECE_OVERHEAD_BYTES
    pair.host.send(stream, b"x" * sent)
    assert pair.host.room(stream) == 0
    pair.settle()
    assert Writable(stream) not in pair.host_events
    pair.relay.consume(stream, sent)
    pair.settle()
    assert Writable(stream) in pair.host_events
    assert pair.host.room(stream) == sent


def test_streams_take_turns_when_much_is_on_its_way() -> None:
    pair = Pair(host=NARROW)
    pair.dial()
    pair.settle()
    streams = [pair.open() for _ in range(3)]
    pair.settle()
    for stream in streams:
        pair.host.answer(stream, status=200, headers=[])
    pair.pass_time(1)
    piece = b"x" * MAX_PIECE_BYTES
    greedy, second, third = streams
    assert pair.host.room(greedy) == MAX_PIECE_BYTES
    pair.host.send(greedy, piece)
    assert pair.host.room(greedy) == MAX_PIECE_BYTES - 2 * PIECE_OVERHEAD_BYTES
    pair.host.send(greedy, piece[: -2 * PIECE_OVERHEAD_BYTES])
    for stream in (second, third, greedy):
        assert pair.host.room(stream) == 0
    pair.host_events.clear()
    pair.settle()
    assert pair.host_events == []
    pair.pass_time(1)
    assert pair.host_events == [Writable(second), Writable(third)]
    assert pair.host.room(greedy) == 0
    assert pair.host.room(second) == MAX_PIECE_BYTES
    pair.host.send(second, piece)
    pair.host.cancel(third, "failed")
    pair.settle()
    for size in (MAX_PIECE_BYTES, MAX_PIECE_BYTES - 2 * PIECE_OVERHEAD_BYTES):
        pair.relay.consume(greedy, size)
    pair.pass_time(1)
    # What `third` did not use goes to the next.
    assert pair.host_events[-1] == Writable(greedy)


def test_a_stream_without_credit_leaves_its_turn_to_the_next() -> None:
    pair = Pair(relay=SMALL, host=SessionSettings(max_unacknowledged_bytes=4000))
    pair.dial()
    pair.settle()
    first, second, third = [pair.open() for _ in range(3)]
    pair.settle()
    for stream in (first, second, third):
        pair.host.answer(stream, status=200, headers=[])
    pair.pass_time(1)
    pair.host.send(first, b"x" * pair.host.room(first))
    pair.host.send(second, b"x" * 10)
    assert [pair.host.room(stream) for stream in (second, third)] == [0, 0]
    # `second` is called first, and has no credit when it comes to it.
    pair.host.streams[second].credit = 0
    pair.host_events.clear()
    pair.settle()
    pair.pass_time(1)
    assert pair.host_events == [Writable(second)]
    assert pair.host.room(second) == 0
    pair.collect()
    assert pair.host_events == [Writable(second), Writable(third)]


def test_what_was_lost_with_a_connection_comes_again(pair: Pair) -> None:
    first = pair.open(b"first")
    pair.settle()
    pair.host.answer(first, status=200, headers=[])
    pair.host.send(first, b"lost ")
    second = pair.open(b"also lost")
    pair.collect()
    pair.cut()
    pair.host.send(first, b"written without a connection", is_last=True)
    third = pair.open(b"opened without a connection")
    pair.dial()
    pair.settle()
    assert pair.host_events[-5:-4] == [Welcomed(True)]
    assert body(pair.relay_events, first) == (b"lost written without a connection", True)
    assert body(pair.host_events, second) == (b"also lost", True)
    assert body(pair.host_events, third) == (b"opened without a connection", True)


def test_frames_that_have_come_do_not_come_again(pair: Pair) -> None:
    stream = pair.open(b"once")
    pair.deliver_to_host()
    # The acknowledgement is on its way when the connection is lost.
    pair.settle()
    pair.cut()
    pair.dial()
    pair.settle()
    assert [event.stream for event in pair.opened()] == [stream]


def test_a_relay_that_has_lost_the_session_begins_anew(pair: Pair) -> None:
    stream = pair.open(b"x")
    pair.settle()
    pair.restart_relay()
    pair.dial()
    pair.settle()
    assert [end.reason for end in ends(pair.host_events, stream)] == ["lost"]
    assert pair.host_events[-2:] == [Welcomed(False), Leased({AGENT: 2})]
    again = pair.open(b"y")
    pair.settle()
    assert again == stream == 1
    assert pair.opened()[-1].stream == again


def test_a_session_that_does_not_come_back_ends(pair: Pair) -> None:
    """Only a request that no connection has taken may safely be sent elsewhere."""
    sent = pair.open()
    pair.settle()
    pair.host.accept(sent)
    pair.settle()
    pair.cut()
    unsent = pair.open()
    pair.pass_time(29)
    assert ends(pair.relay_events, sent) == []
    pair.pass_time(1)
    assert pair.relay.is_ended
    assert pair.host.is_ended
    assert [end.is_unsent for end in ends(pair.relay_events, sent)] == [False]
    assert [end.is_unsent for end in ends(pair.relay_events, unsent)] == [True]
    assert [end.reason for end in ends(pair.host_events, sent)] == ["lost"]
    with pytest.raises(CannotOpen, match="not attached"):
        pair.open()


def test_a_client_that_leaves_cancels_a_stream_whose_request_was_complete(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.host.answer(stream, status=200, headers=[])
    pair.host.send(stream, b"on its way")
    pair.relay.cancel(stream, "closed", "the client has left")
    pair.settle()
    (end,) = ends(pair.host_events, stream)
    assert (end.reason, end.text) == ("closed", "the client has left")
    # Its response is dropped, and nobody is told of it.
    assert pair.relay_events[1:] == []
    assert pair.relay.streams == pair.host.streams == {}


def test_both_may_cancel_at_once(pair: Pair) -> None:
    stream = pair.open(is_last=False)
    pair.settle()
    pair.relay.cancel(stream, "closed")
    pair.host.cancel(stream, "failed")
    pair.settle()
    assert ends(pair.relay_events, stream) == ends(pair.host_events, stream) == []
    assert pair.relay.streams == pair.host.streams == {}
    assert pair.is_up


def test_a_cancel_may_cross_the_end(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.host.answer(stream, status=200, headers=[], is_last=True)
    pair.relay.cancel(stream, "closed")
    pair.settle()
    assert pair.relay.streams == pair.host.streams == {}
    assert pair.is_up


def test_a_host_that_has_answered_stops_the_rest_of_the_request(pair: Pair) -> None:
    stream = pair.open(b"x", is_last=False)
    pair.settle()
    pair.host.answer(stream, status=413, headers=[], is_last=True)
    pair.host.cancel(stream, "closed")
    pair.settle()
    assert body(pair.relay_events, stream) == (b"", True)
    assert [end.reason for end in ends(pair.relay_events, stream)] == ["closed"]
    assert pair.relay.streams == pair.host.streams == {}


def test_a_request_that_the_host_refuses_may_be_sent_elsewhere(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.host.cancel(stream, "refused", "busy")
    pair.settle()
    (end,) = ends(pair.relay_events, stream)
    assert (end.reason, end.text, end.is_unsent) == ("refused", "busy", True)


def test_a_request_that_was_accepted_may_not(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.host.accept(stream)
    pair.host.accept(stream)
    pair.host.cancel(stream, "refused", "not any more")
    pair.settle()
    assert not ends(pair.relay_events, stream)[0].is_unsent


def test_a_request_under_an_old_lease_is_refused(pair: Pair) -> None:
    # The host has not heard yet that its lease has changed.
    pair.relay.leases = {AGENT: 7}
    stream = pair.open(b"x")
    pair.settle()
    assert pair.opened() == []
    (end,) = ends(pair.relay_events, stream)
    assert (end.reason, end.is_unsent) == ("refused", True)
    assert body(pair.host_events, stream) == (b"", False)


def test_an_agent_without_a_lease_gets_no_request(pair: Pair) -> None:
    pair.relay.lease({})
    pair.settle()
    assert pair.host_events[-1] == Leased({})
    with pytest.raises(CannotOpen, match="not attached"):
        pair.open()


def test_agents_come_and_go_on_a_session(pair: Pair) -> None:
    pair.host.offer([AGENT, "acme/other"])
    pair.settle()
    assert pair.host_events[-1] == Leased({AGENT: 1, "acme/other": 1})


def test_a_caller_that_the_relay_did_not_sign_is_refused(pair: Pair) -> None:
    pair.relay._key = b"another key"
    stream = pair.open()
    pair.settle()
    assert pair.opened() == []
    assert "signed" in ends(pair.relay_events, stream)[0].text


def test_no_more_streams_are_opened_than_the_host_takes() -> None:
    pair = Pair(host=SessionSettings(limits=Limits(max_streams=2)))
    pair.dial()
    pair.settle()
    first = pair.open()
    pair.open()
    with pytest.raises(CannotOpen, match="2 requests"):
        pair.open()
    pair.relay.cancel(first, "closed")
    pair.settle()
    pair.open()
    pair.settle()
    assert pair.is_up


def test_a_request_that_does_not_fit_is_refused(pair: Pair) -> None:
    with pytest.raises(CannotOpen, match="head"):
        pair.open(target="/" + "x" * 70_000)
    with pytest.raises(CannotOpen, match="room"):
        pair.open(b"x" * (pair.relay.first_room + 1))
    stream = pair.open(b"x" * pair.relay.first_room)
    pair.settle()
    assert len(body(pair.host_events, stream)[0]) == MAX_PIECE_BYTES


def test_a_piece_without_room_is_the_fault_of_the_sender(pair: Pair) -> None:
    stream = pair.open(is_last=False)
    with pytest.raises(ValueError, match="no room"):
        pair.relay.send(stream, b"x" * (MAX_PIECE_BYTES + 1))
    pair.relay.send(stream, b"", is_last=True)
    with pytest.raises(ValueError, match="no room"):
        pair.relay.send(stream, b"more")


def test_nothing_is_sent_to_a_relay_that_is_behind() -> None:
    pair = Pair(relay=SessionSettings(max_unacknowledged_bytes=3000))
    pair.dial()
    pair.settle()
    pair.pass_time(1)
    pair.open(b"x" * 3000)
    with pytest.raises(CannotOpen, match="behind"):
        pair.open()


def test_a_peer_that_does_not_read_gets_one_answer_to_its_pings(pair: Pair) -> None:
    for _ in range(1000):
        pair.relay.receive(b'{"frame":"ping"}', pair.now)
    assert pair.relay.take_output() == [b'{"frame":"pong"}']


def test_a_relay_that_does_not_answer_is_left(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.cut()
    pair.dial()
    pair.to_relay.clear()
    for _ in range(10):
        assert pair.host.closing is None
        pair.now += 1
        pair.host.tick(pair.now)
    assert pair.host.closing is not None
    assert pair.host.closing.code == 4408
    pair.dial()
    pair.settle()
    assert ends(pair.host_events, stream) == []


def test_an_idle_session_stays(pair: Pair) -> None:
    pair.pass_time(200)
    assert pair.is_up
    assert pair.relay.round_trip_s == 0


@pytest.mark.parametrize("dead", ["relay", "host"])
def test_a_silent_peer_is_left(pair: Pair, dead: str) -> None:
    """A connection whose other end is gone without a word, while nothing is asked of it."""
    stream = pair.open()
    pair.settle()
    pair.pass_time(2)
    side, wire = (pair.host, pair.to_host) if dead == "relay" else (pair.relay, pair.to_relay)
    for _ in range(41):
        pair.now += 1
        side.tick(pair.now)
        wire.clear()
    assert side.closing is not None
    assert side.closing.code == 4408
    pair.collect()
    # The session can be resumed.
    pair.dial()
    pair.settle()
    assert Welcomed(True) in pair.host_events
    assert ends(pair.relay_events, stream) == ends(pair.host_events, stream) == []


def silent_seconds(pair: Pair, *, most: int) -> int:
    """How long the relay bears a host of which nothing comes."""
    for second in range(most):
        if pair.relay.closing is not None:
            return second
        pair.now += 1
        pair.relay.tick(pair.now)
        pair.to_host += pair.relay.take_output()
        pair.to_relay.clear()
    return most


def test_a_host_that_is_silent_about_a_request_is_left_soon(pair: Pair) -> None:
    pair.pass_time(5)
    stream = pair.open()
    pair.collect()
    assert silent_seconds(pair, most=30) == 11
    assert sum(b'"ping"' in message for message in pair.to_host) == 1
    assert pair.relay.closing is not None
    assert pair.relay.closing.code == 4408
    pair.collect()
    pair.dial()
    pair.settle()
    # The session was resumed, and the request with it.
    assert Welcomed(True) in pair.host_events
    assert [opened.stream for opened in pair.opened()] == [stream]
    assert ends(pair.relay_events, stream) == []


def test_the_patience_with_a_silent_host_can_be_set() -> None:
    pair = Pair(relay=SessionSettings(ack_wait_s=1, ping_wait_s=2))
    pair.dial()
    pair.settle()
    pair.open()
    assert silent_seconds(pair, most=30) == 3


def test_a_host_that_was_silent_before_a_request_has_as_long(pair: Pair) -> None:
    """The ping of quiet times may be on its way already."""
    pair.pass_time(2)
    assert silent_seconds(pair, most=25) == 25
    pair.open()
    assert silent_seconds(pair, most=7) == 7
    assert silent_seconds(pair, most=7) == 1


def test_a_host_that_works_for_long_on_a_request_stays(pair: Pair) -> None:
    """It has acknowledged the request, and says nothing more."""
    pair.open()
    pair.settle()
    pair.pass_time(2)
    assert silent_seconds(pair, most=35) == 35


@pytest.mark.parametrize("busy_s", [5, 10])
def test_a_host_that_is_busy_for_some_seconds_stays(pair: Pair, busy_s: int) -> None:
    stream = pair.open()
    pair.collect()
    for _ in range(busy_s):
        pair.now += 1
        pair.relay.tick(pair.now)
        pair.collect()
    pair.settle()
    pair.pass_time(30)
    assert pair.closes == []
    assert [opened.stream for opened in pair.opened()] == [stream]


def test_a_relay_that_was_busy_itself_leaves_no_host(pair: Pair) -> None:
    pair.open()
    pair.collect()
    pair.now += 30
    pair.relay.tick(pair.now)
    pair.settle()
    pair.pass_time(10)
    assert pair.closes == []


def test_a_peer_that_acknowledges_nothing_is_left(pair: Pair) -> None:
    pair.open()
    pair.collect()
    for _ in range(41):
        pair.now += 1
        pair.relay.receive(b'{"frame":"ping"}', pair.now)
        pair.relay.tick(pair.now)
    assert pair.relay.closing is not None
    assert (pair.relay.closing.code, pair.relay.closing.reason) == (
        4408,
        "the peer acknowledges nothing",
    )


def test_frames_without_a_body_are_bounded_too(pair: Pair) -> None:
    for _ in range(3000):
        if pair.relay.closing is not None:
            break
        pair.relay.lease({AGENT: 1} if not pair.relay.leases else {})
    assert pair.relay.closing is not None
    assert pair.relay.closing.code == 4429
    assert pair.relay.is_ended


def test_the_bytes_of_frames_without_a_body_are_bounded(pair: Pair) -> None:
    """Leases of many agents with long names, for a host that offers others again and again."""
    many = {f"acme/{number:0120}": 1 for number in range(200)}
    for _ in range(3000):
        if pair.relay.closing is not None:
            break
        pair.relay.lease(many if not pair.relay.leases else {})
    assert pair.relay.closing is not None
    assert pair.relay.closing.code == 4429
    settings = pair.relay.settings
    assert pair.relay._outbox.bytes < 2.1 * settings.max_unacknowledged_bytes


def test_a_host_may_change_its_agents_now_and_then(pair: Pair) -> None:
    for number in range(100):
        pair.host.offer([f"acme/a{number}"])
        pair.settle()
        pair.pass_time(1)
    assert pair.is_up
    assert pair.relay.leases.keys() == {"acme/a99"}


def test_a_host_that_changes_them_without_end_is_left(pair: Pair) -> None:
    numbers = 0
    while pair.relay.closing is None:
        numbers += 1
        # The first frame of the host was the list of the handshake.
        message = encode(Agents(numbers + 1, (f"acme/a{numbers}",)))
        pair.relay.receive(message, pair.now)
    assert numbers == 10
    assert pair.relay.closing.code == 4429


def test_new_tokens_of_a_host_that_does_not_read_get_one_answer(pair: Pair) -> None:
    for ends_in_s in (10, 20, 30):
        pair.relay.renew(pair.now + ends_in_s, pair.now)
    assert [message for message in pair.relay.take_output() if b"reauthed" in message] == [
        b'{"frame":"reauthed","token_ends_in_s":30.0}'
    ]
    assert pair.relay.take_output() == []


def test_a_long_reason_is_shortened_by_its_reader(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    message = encode(Cancel(2, stream, "refused", "x" * 60_000))
    pair.relay.receive(message, pair.now)
    pair.collect()
    (end,) = ends(pair.relay_events, stream)
    assert len(end.text) == 200


def test_a_message_that_the_socket_found_too_large_ends_the_session(pair: Pair) -> None:
    """It would be sent again on the next connection."""
    pair.relay.disconnect(pair.now, Close(1009, "a frame is larger than 262144 bytes"))
    assert pair.relay.is_ended


def test_a_host_asks_for_a_new_token_and_goes_on() -> None:
    pair = Pair(token_lasts_s=100)
    pair.dial()
    pair.settle()
    pair.pass_time(79)
    assert TokenWanted() not in pair.host_events
    pair.pass_time(1)
    assert pair.host_events.count(TokenWanted()) == 1
    pair.host.reauthenticate("new")
    pair.settle()
    assert TokenOffered("new") in pair.relay_events
    pair.relay.renew(pair.now + 1000, pair.now)
    pair.settle()
    pair.pass_time(900)
    assert pair.is_up
    assert pair.host_events.count(TokenWanted()) == 1
    pair.pass_time(40)
    assert pair.host_events.count(TokenWanted()) == 2


def test_a_token_that_has_ended_closes_the_connection() -> None:
    pair = Pair(token_lasts_s=100)
    pair.dial()
    pair.settle()
    stream = pair.open()
    pair.settle()
    pair.pass_time(109)
    assert pair.is_up
    pair.pass_time(1)
    assert pair.closes == [4401]
    assert ends(pair.relay_events, stream)[0].reason == "lost"
    assert ends(pair.host_events, stream)[0].reason == "lost"


def test_a_token_that_does_not_end_is_never_asked_for(pair: Pair) -> None:
    pair.relay.renew(None, pair.now)
    pair.settle()
    pair.pass_time(500)
    assert pair.is_up
    assert TokenWanted() not in pair.host_events


def test_a_host_that_stops_leaves_when_its_requests_have_ended(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.host.drain(60, pair.now)
    crossing = pair.open()
    pair.settle()
    assert pair.relay_events[-2] == Draining(60)
    assert ends(pair.relay_events, crossing)[0].is_unsent
    with pytest.raises(CannotOpen, match="stop"):
        pair.open()
    pair.pass_time(5)
    assert pair.is_up
    pair.host.answer(stream, status=200, headers=[], is_last=True)
    pair.relay.lease({})
    pair.settle()
    pair.pass_time(1)
    assert pair.closes == [1001]
    assert pair.relay.is_ended
    assert ends(pair.relay_events, stream) == []


def test_a_relay_that_stops_waits_until_its_time_is_over(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.relay.drain(10, pair.now)
    pair.settle()
    assert pair.host_events[-1] == Draining(10)
    # Until the host has drained as well, it gets requests.
    later = pair.open()
    pair.settle()
    assert [opened.stream for opened in pair.opened()] == [stream, later]
    pair.pass_time(9)
    assert pair.is_up
    pair.pass_time(1)
    assert pair.closes == [1012]
    assert ends(pair.host_events, stream)[0].text == "the relay stops"


def test_a_session_that_drains_ends_with_its_connection(pair: Pair) -> None:
    stream = pair.open()
    pair.settle()
    pair.relay.drain(10, pair.now)
    pair.settle()
    pair.cut()
    assert pair.relay.is_ended
    assert ends(pair.host_events, stream)[0].reason == "lost"


def test_a_second_connection_takes_the_place_of_a_dead_one(pair: Pair) -> None:
    stream = pair.open(b"x")
    pair.collect()
    # The relay has not noticed that the connection is lost.
    pair.is_up = False
    pair.to_host.clear()
    pair.host.disconnect(pair.now)
    pair.dial()
    pair.settle()
    assert pair.opened()[0].stream == stream
    assert pair.relay.is_connected


def test_a_host_that_dials_again_leaves_its_old_connection(pair: Pair) -> None:
    pair.host.connect(pair.now)
    pair.is_up, pair._has_greeted = True, False
    pair.settle()
    assert Welcomed(True) in pair.host_events


def test_a_relay_that_is_not_connected_sends_no_frames_of_the_moment(pair: Pair) -> None:
    pair.cut()
    pair.host.reauthenticate("token")
    pair.relay.renew(None, pair.now)
    assert pair.host.take_output() == pair.relay.take_output() == []


def test_frames_are_counted_too() -> None:
    pair = Pair(relay=SessionSettings(max_unacknowledged_frames=3))
    pair.dial()
    pair.settle()
    pair.pass_time(1)
    for _ in range(3):
        pair.open()
    with pytest.raises(CannotOpen, match="behind"):
        pair.open()


def test_what_is_read_after_the_end_gives_no_credit(pair: Pair) -> None:
    stream = pair.open(b"x")
    pair.settle()
    pair.relay.cancel(stream, "closed")
    pair.settle()
    pair.host.consume(stream, 1)
    assert pair.host.take_output() == []


def test_a_session_ends_with_or_without_a_connection(pair: Pair) -> None:
    stream = pair.open()
    pair.cut()
    pair.relay.end(Close(REPLACED, "another host has the agent"))
    pair.relay.end(Close(REPLACED, "again"))
    assert [end.text for end in ends(pair.relay_events, stream)] == []
    pair.collect()
    assert [end.text for end in ends(pair.relay_events, stream)] == ["another host has the agent"]
