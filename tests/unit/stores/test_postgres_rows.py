"""Every body comes back as it went in, whatever its bytes."""

from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.stores.postgres.rows import (
    EventRow,
    TimedRow,
    entries_after,
    event_rows,
    mark,
    number_in,
    numbers_in,
    plain,
    stored,
)
from trunkline.stores.sqlite.rows import MAX_BYTES, MAX_ENTRIES, PACKED
from trunkline.testing.stores.kit import entries


def seqs(rows: list[tuple[int, str, bytes]]) -> list[int]:
    return [seq for seq, _, _ in rows]


@given(st.binary(max_size=12))
def test_body_is_never_taken_for_a_mark(body: bytes) -> None:
    assert number_in(stored(body)) is None
    assert plain(stored(body)) == body


@given(st.integers(1, (1 << 63) - 1))
def test_mark_has_the_number_of_its_value(number: int) -> None:
    assert number_in(mark(number)) == number
    assert plain(mark(number), {number: b"{}"}) == b"{}"


def timed(rows: list[EventRow]) -> list[TimedRow]:
    return [(*row, None) for row in rows]


def test_entries_of_a_commit_share_a_row() -> None:
    rows = event_rows(entries(2, MAX_ENTRIES + 2), {})
    assert seqs(rows) == [2 + MAX_ENTRIES, 4 + MAX_ENTRIES]
    assert [kind for _, kind, _ in rows] == [PACKED, PACKED]
    assert entries_after(timed(rows), 0, -1) == entries(2, MAX_ENTRIES + 2)
    assert entries_after(timed(rows), 4, 3) == entries(4, 3)


def test_long_entries_have_a_row_each() -> None:
    long = (Entry(1, "k", b"x" * MAX_BYTES), Entry(2, "k", b"y"))
    rows = event_rows(long, {})
    assert seqs(rows) == [1, 2]
    assert entries_after(timed(rows), 0, -1) == long


def test_large_body_lies_in_slices() -> None:
    large = Entry(2, "k", b"x" * (SLICE_BYTES + 1))
    both = (Entry(1, "k", b"\0small"), large)
    rows = event_rows(both, {id(large.body): 7})
    assert numbers_in(rows) == [7]
    assert entries_after(timed(rows), 0, -1, {7: large.body}) == both
