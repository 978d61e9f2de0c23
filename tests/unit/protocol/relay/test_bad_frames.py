"""What is no frame, or none that may come now: each has a code, and nothing else goes wrong."""

from random import Random

import msgspec
import pytest
from tests.unit.protocol.relay.pair import AGENT, Pair, ends

from trunkline.protocol.relay.accepting_session import read_hello
from trunkline.protocol.relay.close_codes import BAD_FRAME, OUT_OF_ORDER, OVER_LIMIT, TOO_LARGE
from trunkline.protocol.relay.frames import (
    Accept,
    Ack,
    Agents,
    Cancel,
    Credit,
    Data,
    Frame,
    Hello,
    Leases,
    Limits,
    Ping,
    Reauth,
    Req,
    Res,
    Resume,
    Violation,
    Welcome,
    encode,
)
from trunkline.protocol.relay.session import Session, SessionSettings

WELCOME = Welcome(
    session="s", resumed=False, limits=Limits(), key="00", heartbeat_s=20, resume_s=30
)
REQ = Req(n=2, stream=2, agent=AGENT, epoch=1, caller="", method="GET", target="/")


@pytest.fixture
def pair() -> Pair:
    """With stream 1, whose request has come; the next number is 2 from the host, and 3 from the
    relay."""
    pair = Pair()
    pair.dial()
    pair.settle()
    pair.open(b"x", is_last=False)
    pair.settle()
    return pair


def closed_by(pair: Pair, side: Session, message: bytes | str) -> int:
    side.receive(message, pair.now)
    assert side.closing is not None
    assert len(side.closing.reason.encode()) <= 123
    code = side.closing.code
    pair.collect()
    # The streams end, and nothing that still comes is heard.
    assert ends(pair.relay_events, 1)[0].reason == "lost"
    side.receive(encode(Ping()), pair.now)
    assert side.take_output() == side.take_events() == []
    return code


NOT_FRAMES = {
    "empty": b"",
    "garbage": b"\x00\xff\xfe",
    "no JSON": b"{",
    "no object": b"[1]",
    "no kind": b"{}",
    "unknown kind": b'{"frame":"nonsense"}',
    "missing member": b'{"frame":"ack"}',
    "wrong type": b'{"frame":"ack","n":"1"}',
    "negative": b'{"frame":"ack","n":-1}',
    "no number": b'{"frame":"data","n":0,"stream":1}',
    "huge": b'{"frame":"ack","n":9007199254740992}',
    "very huge": b'{"frame":"ack","n":' + b"9" * 400 + b"}",
    "deep": b'{"frame":"ping","x":' + b"[" * 60_000,
    "invalid UTF-8": b'{"frame":"ping\xff"}',
    "body of a ping": b'{"frame":"ping"}\nbody',
    "empty body of a ping": b'{"frame":"ping"}\n',
}


@pytest.mark.parametrize("message", NOT_FRAMES.values(), ids=NOT_FRAMES)
@pytest.mark.parametrize("side", ["relay", "host"])
def test_what_is_no_frame(pair: Pair, side: str, message: bytes) -> None:
    assert closed_by(pair, getattr(pair, side), message) == BAD_FRAME


def test_frames_are_binary(pair: Pair) -> None:
    assert closed_by(pair, pair.relay, '{"frame":"ping"}') == BAD_FRAME


@pytest.mark.parametrize("size", [65 * 1024, 257 * 1024])
def test_what_is_too_large(pair: Pair, size: int) -> None:
    head = b'{"frame":"data","n":2,"stream":1,"x":"%b"}' % (b"x" * size)
    assert closed_by(pair, pair.relay, head) == TOO_LARGE


NOT_AGENTS = ("", "acme", "acme/", "/helper", "acme/a/b", "acme/a\0", "acme/a\n", "acme/a b", "ö/a")


@pytest.mark.parametrize("agent", NOT_AGENTS)
def test_an_agent_is_a_tenant_and_a_name(pair: Pair, agent: str) -> None:
    assert closed_by(pair, pair.relay, encode(Agents(2, (agent,)))) == BAD_FRAME


FROM_HOST: dict[str, tuple[Frame, bytes, int]] = {
    "hello twice": (Hello(Limits()), b"", BAD_FRAME),
    "frames of a relay": (Leases(2, {}), b"", BAD_FRAME),
    "a gap": (Agents(3, ()), b"", OUT_OF_ORDER),
    "a repetition": (Agents(1, ()), b"", OUT_OF_ORDER),
    "an acknowledgement of what was not sent": (Ack(3), b"", OUT_OF_ORDER),
    "a stream that is not there": (Data(2, 2, True), b"", BAD_FRAME),
    "an answer to no stream": (Res(n=2, stream=2, status=200), b"", BAD_FRAME),
    "a body before its head": (Data(2, 1), b"x", BAD_FRAME),
    "an acceptance of no stream": (Accept(2, 2), b"", BAD_FRAME),
    "credit for more than there was": (Credit(2, 1, 64 * 1024), b"", OVER_LIMIT),
    "more than the credit": (Res(n=2, stream=1, status=200), b"x" * 65_536, OVER_LIMIT),
}


@pytest.mark.parametrize(("frame", "body", "code"), FROM_HOST.values(), ids=FROM_HOST)
def test_what_a_host_must_not_send(pair: Pair, frame: Frame, body: bytes, code: int) -> None:
    assert closed_by(pair, pair.relay, encode(frame, body)) == code


AFTER_ITS_ANSWER: dict[str, tuple[Frame, bytes]] = {
    "a second answer": (Res(n=3, stream=1, status=200), b""),
    "an empty piece": (Data(3, 1), b""),
    "a second acceptance": (Accept(3, 1), b""),
}


@pytest.mark.parametrize(("frame", "body"), AFTER_ITS_ANSWER.values(), ids=AFTER_ITS_ANSWER)
def test_what_a_host_must_not_send_after_its_answer(pair: Pair, frame: Frame, body: bytes) -> None:
    pair.relay.receive(encode(Res(n=2, stream=1, status=200)), pair.now)
    assert closed_by(pair, pair.relay, encode(frame, body)) == BAD_FRAME


@pytest.mark.parametrize("frame", [Data(3, 1, True), Data(3, 1)], ids=["end", "piece"])
def test_what_a_host_must_not_send_after_its_end(pair: Pair, frame: Frame) -> None:
    pair.relay.receive(encode(Res(n=2, stream=1, status=200, fin=True)), pair.now)
    assert closed_by(pair, pair.relay, encode(frame, b"x")) == BAD_FRAME


FROM_RELAY: dict[str, tuple[Frame, int]] = {
    "welcome twice": (WELCOME, BAD_FRAME),
    "frames of a host": (Reauth("x"), BAD_FRAME),
    "a gap": (Leases(4, {}), OUT_OF_ORDER),
    "a stream out of its order": (msgspec.structs.replace(REQ, n=3, stream=4), BAD_FRAME),
    "a stream again": (msgspec.structs.replace(REQ, n=3, stream=1), BAD_FRAME),
}


@pytest.mark.parametrize(("frame", "code"), FROM_RELAY.values(), ids=FROM_RELAY)
def test_what_a_relay_must_not_send(pair: Pair, frame: Frame, code: int) -> None:
    assert closed_by(pair, pair.host, encode(frame)) == code


def test_a_relay_must_not_open_more_streams_than_the_host_takes() -> None:
    pair = Pair(host=SessionSettings(limits=Limits(max_streams=1)))
    pair.dial()
    pair.settle()
    pair.open(is_last=False)
    pair.settle()
    req = msgspec.structs.replace(REQ, n=3, stream=2)
    assert closed_by(pair, pair.host, encode(req)) == OVER_LIMIT


@pytest.mark.parametrize(
    "frame", [Cancel(2, 9, "closed"), Credit(2, 9, 1)], ids=["cancel", "credit"]
)
def test_a_stream_may_have_ended_before_its_peer_knew(pair: Pair, frame: Frame) -> None:
    pair.relay.receive(encode(frame), pair.now)
    assert pair.relay.closing is None


def test_members_of_later_versions_are_passed_over(pair: Pair) -> None:
    pair.relay.receive(b'{"frame":"ping","later":[1]}', pair.now)
    assert pair.relay.closing is None


# The handshake.


@pytest.mark.parametrize(
    "message",
    [
        encode(Ping()),
        b'{"frame":"hello"}',
        b'{"frame":"hello","limits":{"max_frame_bytes":1}}',
        b'{"frame":"hello","limits":{"stream_bytes":1}}',
        b'{"frame":"hello","limits":{"max_streams":0}}',
    ],
)
def test_a_host_begins_with_hello(message: bytes) -> None:
    with pytest.raises(Violation) as caught:
        read_hello(message, Limits())
    assert caught.value.close.code == BAD_FRAME


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (Ping(), BAD_FRAME),
        (Leases(1, {}), BAD_FRAME),
        (msgspec.structs.replace(WELCOME, key="no key"), BAD_FRAME),
        (msgspec.structs.replace(WELCOME, resumed=True), OUT_OF_ORDER),
    ],
    ids=["ping", "leases", "key", "no session"],
)
def test_a_relay_begins_with_welcome(frame: Frame, code: int) -> None:
    pair = Pair()
    pair.dial()
    pair.host.receive(encode(frame), pair.now)
    assert pair.host.closing is not None
    assert pair.host.closing.code == code


@pytest.mark.parametrize("received", [0, 99])
def test_a_host_cannot_resume_what_it_has_not(pair: Pair, received: int) -> None:
    pair.pass_time(1)
    pair.cut()
    pair.relay.connect(Hello(Limits(), Resume(pair.relay.id, received)), pair.now)
    assert pair.relay.closing is not None
    assert pair.relay.closing.code == OUT_OF_ORDER
    assert pair.relay.is_ended


def test_a_relay_cannot_resume_another_session(pair: Pair) -> None:
    pair.cut()
    pair.dial()
    other = msgspec.structs.replace(WELCOME, resumed=True, session="other")
    pair.host.receive(encode(other), pair.now)
    assert pair.host.closing is not None
    assert pair.host.closing.code == OUT_OF_ORDER
    assert pair.host.is_ended


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_close_the_session_or_are_frames(seed: int) -> None:
    """Frames that were good, with bytes of them changed, cut, doubled or swapped."""
    chance = Random(seed)
    for _ in range(20):
        pair = Pair()
        pair.dial()
        pair.settle()
        stream = pair.open(b"request", is_last=False)
        pair.settle()
        pair.host.accept(stream)
        pair.host.answer(stream, status=200, headers=[("a", "b")], data=b"head")
        pair.host.send(stream, b"body", is_last=True)
        pair.relay.send(stream, b"more")
        pair.relay.cancel(stream, "closed")
        pair.collect()
        for side, wire in ((pair.relay, pair.to_relay), (pair.host, pair.to_host)):
            for message in [*wire]:
                changed = bytearray(message)
                for _ in range(chance.randrange(3)):
                    changed[chance.randrange(len(changed))] = chance.choice(b'{}",:0129a\n\xff')
                if chance.random() < 0.2:
                    del changed[chance.randrange(len(changed)) :]
                side.receive(bytes(changed), pair.now)
                if chance.random() < 0.1:
                    side.receive(message, pair.now)
            side.take_events()
            if side.closing is not None:
                assert side.closing.code in {BAD_FRAME, OUT_OF_ORDER, OVER_LIMIT, TOO_LARGE}
