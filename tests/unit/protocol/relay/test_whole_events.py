import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.protocol.relay.whole_events import MAX_HELD_BYTES, WholeEvents

STREAM = b": hello\n\nid: 1\ndata: a\n\nid: 2\r\ndata: b\r\n\r\ndata: c\r\rdata: d"


@given(st.lists(st.integers(0, len(STREAM))))
def test_however_the_stream_is_cut_only_whole_events_pass(cuts: list[int]) -> None:
    events = WholeEvents()
    passed, start = b"", 0
    for end in [*sorted(cuts), len(STREAM)]:
        passed += events.feed(STREAM[start:end])
        start = end
        assert STREAM.startswith(passed)
        assert passed == b"" or passed.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
    assert passed + events.rest == STREAM
    assert events.rest == b"data: d"
    assert not events.is_torn


def test_of_a_line_end_in_two_pieces_both_belong_to_the_event() -> None:
    """Else the next event would begin with an empty line."""
    events = WholeEvents()
    assert events.feed(b"data: a\r\n\r") == b""
    assert events.feed(b"\ndata: b") == b"data: a\r\n\r\n"


def test_an_event_that_is_too_large_to_hold_passes_as_it_comes() -> None:
    events = WholeEvents()
    piece = b"x" * (MAX_HELD_BYTES // 2)
    fed = [b"data: a\n\ndata: ", piece, piece, piece, b"\n", b"\ndata: b"]
    passed = [(events.feed(data), events.is_torn) for data in fed]
    assert passed == [
        (b"data: a\n\n", False),
        (b"", False),
        (b"data: " + piece * 2, True),
        (piece, True),
        (b"\n", True),
        (b"\n", False),
    ]
    assert events.rest == b"data: b"


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_an_event_of_one_piece_passes_at_once(end: bytes) -> None:
    assert WholeEvents().feed(b"data: a" + end) == b"data: a" + end
