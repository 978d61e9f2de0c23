"""Batches of messages over requests and responses that are lost, late, repeated and reordered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.protocol.relay.close_codes import BAD_FRAME, TOO_LARGE, Close
from trunkline.protocol.relay.frames import Violation
from trunkline.protocol.relay.polling import (
    MAX_BATCH_BYTES,
    MAX_BATCH_MESSAGES,
    Incoming,
    Outgoing,
    batch_of,
    close_of,
    messages_of,
)


def outgoing(*messages: bytes) -> Outgoing:
    made = Outgoing()
    for message in messages:
        made.add(message)
    return made


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_a_batch_holds_the_messages_as_they_are(messages: list[bytes]) -> None:
    assert messages_of(batch_of(messages)) == messages
    assert outgoing(*messages).batch() == (batch_of(messages), len(messages))


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.data())
def test_a_batch_that_is_cut_is_refused_or_holds_fewer_messages(
    messages: list[bytes], data: st.DataObject
) -> None:
    batch = batch_of(messages)
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    whole = [batch_of(messages[:count]) for count in range(len(messages))]
    if cut in whole:
        assert messages_of(cut) == messages[: whole.index(cut)]
        return
    with pytest.raises(Violation) as raised:
        messages_of(cut)
    assert raised.value.close.code == BAD_FRAME


def test_a_batch_has_a_limit_in_bytes() -> None:
    half = b"x" * (MAX_BATCH_BYTES // 2 - 4)
    sender = outgoing(half, half, b"y")
    batch, last = sender.batch()
    assert (len(batch), last) == (MAX_BATCH_BYTES, 2)
    assert messages_of(batch) == [half, half]
    assert sender.confirm(2)
    assert sender.batch() == (batch_of([b"y"]), 3)
    with pytest.raises(Violation) as raised:
        messages_of(batch + b"\0\0\0\1y")
    assert raised.value.close.code == TOO_LARGE


def test_a_batch_has_a_limit_in_messages() -> None:
    batch, last = outgoing(*[b""] * (MAX_BATCH_MESSAGES + 5)).batch()
    assert last == MAX_BATCH_MESSAGES == len(messages_of(batch))
    with pytest.raises(Violation) as raised:
        messages_of(batch + bytes(4))
    assert raised.value.close.code == TOO_LARGE


def test_a_sender_keeps_what_is_not_confirmed() -> None:
    sender = outgoing(b"a", b"bc", b"def")
    assert (sender.bytes, sender.last) == (6, 3)
    assert sender.confirm(2)
    assert (sender.bytes, sender.last, sender.confirmed) == (3, 3, 2)
    assert sender.batch() == (batch_of([b"def"]), 3)
    # What was confirmed before, and what was never sent.
    assert not sender.confirm(1)
    assert not sender.confirm(4)


def test_a_receiver_waits_for_the_batch_before() -> None:
    receiver = Incoming()
    assert receiver.take(2, batch_of([b"b"])) is None
    assert receiver.take(1, batch_of([b"a"])) == [b"a"]
    assert receiver.take(1, batch_of([b"a", b"b"])) == [b"b"]
    assert receiver.take(1, batch_of([b"a"])) == []
    assert receiver.received == 2


@given(st.lists(st.sampled_from(["say", "send", "arrive", "old", "confirm", "lose"]), max_size=60))
def test_each_message_comes_once_and_in_order(steps: list[str]) -> None:
    sender, receiver = Outgoing(), Incoming()
    said: list[bytes] = []
    got: list[bytes] = []
    # Those that were sent, however often; each may arrive at any time, or never.
    requests: list[tuple[int, bytes]] = []
    answers: list[int] = []

    def send() -> None:
        requests.append((sender.confirmed + 1, sender.batch()[0]))

    def arrive(request: tuple[int, bytes]) -> None:
        new = receiver.take(*request)
        assert new is not None
        got.extend(new)
        answers.append(receiver.received)

    def say() -> None:
        said.append(b"%d" % len(said))
        sender.add(said[-1])

    def confirm() -> None:
        number = answers.pop()
        # An answer that was overtaken is of a request that its sender has given up.
        assert sender.confirm(number) or number < sender.confirmed

    for step in steps:
        match step:
            case "say":
                say()
            case "send":
                send()
            case "arrive" if requests:
                arrive(requests[-1])
            case "old" if requests:
                arrive(requests[0])
            case "confirm" if answers:
                confirm()
            case "lose" if answers:
                answers.pop()
        assert got == said[: len(got)]
        assert sender.last == len(said)
    # At last a request and its answer get through.
    arrive((sender.confirmed + 1, sender.batch()[0]))
    confirm()
    assert got == said
    assert sender.bytes == 0


def test_a_close_is_told_from_the_page_of_a_proxy() -> None:
    assert close_of(b'{"code":4408,"reason":"silent"}') == Close(4408, "silent")
    for body in (b"", b"<html>", b"[]", b"{}", b'{"code":"a","reason":""}', b"\xff", b"[" * 9999):
        assert close_of(body) is None
