"""The ring of exchanges: bounds in bytes and in number, frames, and what is told of them."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.config.masking import KnownSecrets
from trunkline.console.wire.exchange import FIRST_FRAMES, LAST_FRAMES, MAX_KEPT_BYTES
from trunkline.console.wire.log import Wanted, WireLog
from trunkline.console.wire.masking import Masker
from trunkline.ports.wire_log import Exchange, Side, Start, WireRecord
from trunkline.testing import FakeClock, SequentialIds

MB = 1024 * 1024
EVENTS = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]


def wire_log(
    max_bytes: int = MB, *, max_records: int = 1000, known: tuple[str, ...] = ()
) -> WireLog:
    return WireLog(
        max_bytes=max_bytes,
        masker=Masker(KnownSecrets(known)),
        clock=FakeClock(),
        ids=SequentialIds(),
        max_records=max_records,
    )


def begin(log: WireLog, *, side: Side = "server", **fields: Any) -> Exchange:
    start: dict[str, Any] = {
        "agent": "acme/echo",
        "binding": "jsonrpc",
        "http_method": "POST",
        "url": "/a2a",
        "peer": "127.0.0.1",
        "headers": JSON,
    }
    exchange = log.begin(Start(side=side, **(start | fields)))
    assert exchange is not None
    return exchange


def record_of(log: WireLog, exchange: Exchange) -> WireRecord:
    record = log.find(exchange.id)
    assert record is not None
    return record


def event(number: int, text: str = "x") -> bytes:
    return f'id: {number}\ndata: {{"text":"{text}"}}\n\n'.encode()


def test_the_oldest_make_room_for_new_ones() -> None:
    log = wire_log(100_000)
    made = []
    for _ in range(200):
        exchange = begin(log)
        exchange.take_request(b'"' + b"x" * 2000 + b'"')
        exchange.begin_response(200, JSON)
        exchange.end()
        made.append(exchange.id)
    assert log.held_bytes <= 100_000
    kept = log.ids(Wanted())
    assert kept == made[-len(kept) :]
    assert log.dropped == 200 - len(kept)


def test_the_number_of_records_is_bounded() -> None:
    log = wire_log(max_records=10)
    for _ in range(25):
        begin(log).end()
    assert (len(log), log.dropped) == (10, 15)


def test_open_streams_make_room_as_well_and_are_forgotten() -> None:
    log = wire_log(200_000)
    streams = [begin(log) for _ in range(500)]
    for number in range(20):
        for exchange in streams:
            exchange.begin_response(200, EVENTS)
            exchange.take_response(event(number, "y" * 500))
    assert log.held_bytes <= 200_000
    for exchange in streams:
        exchange.end()
    log.clear()
    assert (log.held_bytes, len(log)) == (0, 0)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 6))
def test_what_is_held_is_what_the_records_hold(steps: list[int], count: int) -> None:
    log = wire_log(30_000, max_records=4)
    exchanges = [begin(log) for _ in range(count)]
    for number, step in enumerate(steps):
        exchange = exchanges[number % count]
        if step == 0:
            exchange.take_request(b"r" * 900)
        elif step == 1:
            exchange.begin_response(200, EVENTS)
        elif step == 2:
            exchange.take_response(event(number, "z" * 700)[: 300 + number])
        elif step == 3:
            exchange.take_message("m" * 400, "in")
        else:
            exchange.end("broken")
        held = [log._exchanges[id].held_bytes for id in log.ids(Wanted())]
        assert log.held_bytes == sum(held) <= 30_000


@given(st.lists(st.integers(0, 200), max_size=12))
def test_events_are_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    stream = b": open\n\n" + event(1) + b"event: end\r\ndata: 2\r\n\r\n" + event(3)
    log = wire_log()
    exchange = begin(log)
    exchange.begin_response(200, EVENTS)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    for start, end in pairwise(places):
        exchange.take_response(stream[start:end])
    exchange.end()
    record = record_of(log, exchange)
    assert "".join(frame.data for frame in record.frames).encode() == stream
    assert [(f.event_id, f.event) for f in record.frames] == [
        ("", ""),
        ("1", ""),
        ("", "end"),
        ("3", ""),
    ]
    assert (record.events, record.response_bytes) == (3, len(stream))


def test_a_long_stream_keeps_its_beginning_and_its_end() -> None:
    log = wire_log(64 * MB)
    exchange = begin(log)
    exchange.begin_response(200, EVENTS)
    for number in range(100_000):
        exchange.take_response(event(number))
    exchange.end()
    record = record_of(log, exchange)
    ids = [int(frame.event_id) for frame in record.frames]
    assert ids == [*range(FIRST_FRAMES), *range(100_000 - LAST_FRAMES, 100_000)]
    assert record.frames_before_gap == FIRST_FRAMES
    assert record.frames_left_out == 100_000 - FIRST_FRAMES - LAST_FRAMES
    assert record.events == 100_000
    assert log.held_bytes < MB


def test_large_events_do_not_push_the_other_exchanges_out() -> None:
    log = wire_log(8 * MB)
    others = [begin(log) for _ in range(100)]
    exchange = begin(log)
    exchange.begin_response(200, EVENTS)
    for number in range(200):
        exchange.take_response(event(number, "x" * 100_000))
    assert log.held_bytes < 2 * MB
    assert all(log.find(other.id) is not None for other in others)


def test_an_event_without_an_end_takes_no_more_than_what_is_kept() -> None:
    log = wire_log(8 * MB)
    exchange = begin(log)
    exchange.begin_response(200, EVENTS)
    for _ in range(200):
        exchange.take_response(b"data: " + b"x" * 100_000)
    assert log.held_bytes < MB
    exchange.end()
    record = record_of(log, exchange)
    (frame,) = record.frames
    assert frame.size == 200 * 100_006
    assert len(frame.data) <= MAX_KEPT_BYTES
    assert record.truncated


@pytest.mark.parametrize("offset", [-40, -20, -10, -5, 0, 5])
def test_a_secret_at_the_place_of_a_cut_does_not_survive(offset: int) -> None:
    secret = "Zq7-open-sesame-behind-the-door"
    log = wire_log(8 * MB, known=(secret,))
    body = ("x" * (MAX_KEPT_BYTES + offset) + secret + "y" * 400_000).encode()
    for margin in (0, log._masker.margin_chars):
        exchange = begin(log)
        padded = b"x" * margin + body
        exchange.take_request(padded[:1000])
        exchange.take_request(padded[1000:])
        exchange.begin_response(200, EVENTS)
        exchange.take_response(b"data: " + padded + b"\n\n")
        exchange.end()
        record = record_of(log, exchange)
        for text in (record.request_body.text, record.frames[0].data):
            assert isinstance(text, str)
            assert "Zq7-open" not in text
            assert "the-door" not in text
        assert record.truncated
        assert record.request_body.size == len(padded)


def test_messages_of_a_socket_name_their_turns() -> None:
    log = wire_log()
    socket = begin(log, side="client", binding="websocket")
    socket.begin_response(101, [])
    socket.take_message('{"token":"hush-hush"}', "out", task_id="a", parent="r1")
    socket.take_message(b"\x00\xff", "in")
    socket.take_message("lone \ud800", "in")
    socket.take_message("two", "out", task_id="b", parent="r2")
    assert log.ids(Wanted(task_id="a")) == log.ids(Wanted(task_id="b")) == [socket.id]
    assert log.ids(Wanted(task_id="c")) == []
    record = record_of(log, socket)
    assert [(f.direction, f.task_id, f.parent) for f in record.frames] == [
        ("out", "a", "r1"),
        ("in", "", ""),
        ("in", "", ""),
        ("out", "b", "r2"),
    ]
    assert record.frames[0].data == '{"token":"***"}'
    json.dumps(record.frames[1].data)
    assert record.events == 4


@pytest.mark.parametrize(
    ("method", "url", "headers", "body", "expected"),
    [
        ("POST", "http://h/a2a", [], b'{"jsonrpc":"2.0","method":"message/send","id":1}',
         ("SendMessage", "0.3", "jsonrpc")),
        ("POST", "http://h/a2a", [(b"A2A-Version", b"1.0")],
         b'{"jsonrpc":"2.0","method":"GetTask","id":1}', ("GetTask", "1.0", "jsonrpc")),
        ("POST", "http://h/v1/message:stream", [], b"{}",
         ("SendStreamingMessage", "0.3", "rest")),
        ("GET", "http://h/x/tasks/T-1", [(b"a2a-version", b"1.0")], b"",
         ("GetTask", "1.0", "rest")),
        ("GET", "http://h/.well-known/agent-card.json", [], b"", ("GetAgentCard", "", "http")),
        ("POST", "http://h/v1/chat/completions", [], b'{"model":"m"}', ("", "", "http")),
        ("POST", "http://h/a2a", [], b'{"jsonrpc":{},"method":[]}', ("", "", "http")),
        ("POST", "http://h/a2a", [], b"[" * 100_000, ("", "", "http")),
        ("POST", "http://h", [], b"\xff\xfe", ("", "", "http")),
    ],
)  # fmt: skip
def test_a_request_of_a_backend_is_named_by_its_bytes(
    method: str, url: str, headers: Any, body: bytes, expected: tuple[str, str, str]
) -> None:
    log = wire_log(8 * MB)
    exchange = begin(
        log, side="client", binding="http", http_method=method, url=url, headers=headers
    )
    exchange.take_request(body)
    exchange.end()
    record = record_of(log, exchange)
    assert (record.operation, record.version, record.binding) == expected


@pytest.mark.parametrize(
    ("request_body", "answer", "expected"),
    [
        ('{"params":{"message":{"taskId":"t","contextId":"c"}}}', "", ("t", "c")),
        ('{"params":{"id":"t"}}', "", ("t", "")),
        ("{}", '{"result":{"task":{"id":"t","contextId":"c","status":{}}}}', ("t", "c")),
        ("{}", '{"result":{"id":"t","contextId":"c","status":{},"kind":"task"}}', ("t", "c")),
        ("{}", '{"result":{"message":{"taskId":"t","contextId":"c"}}}', ("t", "c")),
        ("{}", '{"task":{"id":"t","contextId":"c","status":{}}}', ("t", "c")),
        ("{}", '{"result":{"statusUpdate":{"taskId":"t","contextId":"c"}}}', ("t", "c")),
        ('{"params":{"id":{"a":1},"contextId":7}}', '{"result":[1]}', ("", "")),
        ("{}", '{"result":' * 2000 + "1" + "}" * 2000, ("", "")),
        ('{"jsonrpc":"2.0","id":"not-a-task"}', '{"jsonrpc":"2.0","id":"x"}', ("", "")),
    ],
)
def test_the_ids_of_task_and_context(
    request_body: str, answer: str, expected: tuple[str, str]
) -> None:
    log = wire_log()
    exchange = begin(log)
    exchange.take_request(request_body.encode())
    exchange.begin_response(200, JSON)
    exchange.take_response(answer.encode())
    exchange.end()
    record = record_of(log, exchange)
    assert (record.task_id, record.context_id) == expected


@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_any_bytes_can_be_recorded(sent: bytes, answered: bytes, is_stream: bool) -> None:
    log = wire_log(8 * MB)
    exchange = begin(log, headers=[(sent, answered)], url=sent.decode("latin-1"))
    exchange.take_request(sent)
    exchange.begin_response(200, [*(EVENTS if is_stream else JSON), (answered, sent)])
    exchange.take_response(answered)
    exchange.end(sent.decode("latin-1"))
    record = record_of(log, exchange)
    assert record.request_body.size == len(sent)
    assert record.response_bytes == len(answered)


async def test_a_search_looks_at_everything() -> None:
    log = wire_log()
    for word in ("url", "header", "request", "answer", "event"):
        exchange = begin(
            log,
            url=f"/a?{word == 'url'}NEEDLE-{word}",
            headers=[(b"x-note", f"needle-{word}".encode())],
        )
        exchange.take_request(b'{"a":"Needle-request"}' if word == "request" else b"{}")
        exchange.begin_response(200, EVENTS if word == "event" else JSON)
        exchange.take_response(f'data: {{"a":"neeDLE-{word}"}}\n\n'.encode())
        exchange.end()
    for q, count in (("needle-URL", 1), ("needle", 5), ("needle-request", 1), ("[.*", 0)):
        items, _ = await log.page(Wanted(q=q), limit=100)
        assert len(items) == count, q
