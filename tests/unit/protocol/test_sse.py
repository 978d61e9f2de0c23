import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.strategies import few

from trunkline.model.errors import InvalidAgentResponse
from trunkline.protocol import sse
from trunkline.protocol.sse import Parser, SseEvent


def test_frames() -> None:
    assert sse.frame(b"{}") == b"data: {}\n\n"
    assert sse.frame(b"{}", id=7) == b"id: 7\ndata: {}\n\n"
    assert sse.frame(b"x", id=0, event="gap") == b"id: 0\nevent: gap\ndata: x\n\n"
    assert sse.comment("hi") == b": hi\n\n"
    assert sse.HEARTBEAT.startswith(b":")


def test_no_line_end_escapes_its_line() -> None:
    assert sse.frame(b"a\nb\rc\r\nd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"
    assert sse.comment("a\n\ndata: b") == b": a  data: b\n\n"


def test_a_gap_says_where_it_is() -> None:
    (event,) = Parser().feed(sse.gap(3, 9))
    assert event.event == "gap"
    assert json.loads(event.data) == {"after": 3, "resumesAt": 9}


def test_the_parser_follows_the_standard() -> None:
    stream = (
        b"\xef\xbb\xbf: comment\r\n"
        b"id: 1\r\ndata: one\r\ndata:two\r\rdata\n\n"
        b"event: named\ndata:  spaced\nid: a\0b\nretry: 5\nunknown: x\nno-colon\n\n"
        b"event: dropped\nid: 9\n\n"
        b"data: last\n\ndata: unfinished\n"
    )
    assert Parser().feed(stream) == [
        SseEvent(data=b"one\ntwo", id="1", has_id=True),
        SseEvent(data=b"", id="1"),
        SseEvent(data=b" spaced", event="named", id="1"),
        SseEvent(data=b"last", id="9"),
    ]


lines = st.sampled_from(
    [b"data: a", b"data:b", b"data", b": c", b"id: 1", b"id:", b"event: e", b"", b"", b"x: y"]
)
streams = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=20),
).map(lambda both: both[0] + b"".join(line + end for line, end in both[1]))


@few
@given(streams, st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    whole = Parser().feed(stream)
    single = Parser()
    assert [e for byte in stream for e in single.feed(bytes([byte]))] == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    parser, events, start = Parser(), list[SseEvent](), 0
    for cut in [*cuts, len(stream)]:
        events += parser.feed(stream[start:cut])
        start = cut
    assert events == whole


@few
@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**63)), max_size=5))
def test_what_is_written_is_read(written: list[tuple[bytes, int]]) -> None:
    stream = b"".join(sse.frame(data, id=id) + sse.HEARTBEAT for data, id in written)
    read = Parser().feed(stream)
    assert [(event.data, int(event.id)) for event in read] == [
        (data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), id) for data, id in written
    ]


def _feed_on(parser: Parser, chunk: bytes) -> None:
    for _ in range(100):
        parser.feed(chunk)


@pytest.mark.parametrize("chunk", [b"data: xxxxxxxxx", b"data: x\n", b":yyyyyyyyyyyy"])
def test_an_event_without_end_is_refused(chunk: bytes) -> None:
    parser = Parser(max_event_bytes=64)
    if chunk.endswith(b"\n"):
        with pytest.raises(InvalidAgentResponse, match="64 bytes"):
            parser.feed(chunk * 100)
    else:
        with pytest.raises(InvalidAgentResponse, match="64 bytes"):
            _feed_on(parser, chunk)


def test_many_small_events_are_no_large_one() -> None:
    parser = Parser(max_event_bytes=64)
    assert len(parser.feed(b"data: x\n\n" * 1000)) == 1000
