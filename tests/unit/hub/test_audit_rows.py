"""Rows of the audit: chained, and checked so that no change of a stored line passes."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.hub.audit_rows import (
    BrokenLine,
    Row,
    check_line,
    encode_row,
    genesis,
    link,
    read_line,
    recovered,
)

START = genesis("chain-1", "", 1_000)
TEXTS = st.text(max_size=20)
ROWS = st.builds(
    Row,
    kind=st.sampled_from(["attempt", "outcome", "refusal", "change"]),
    at_ms=st.integers(0, 2**50),
    who=TEXTS,
    agent=TEXTS,
    question=TEXTS,
    chain=st.lists(TEXTS, max_size=3).map(tuple),
    ran_ms=st.none() | st.integers(0, 10**6),
    count=st.integers(1, 10**6),
)


def chained(rows: list[Row]) -> list[bytes]:
    lines, before = [], START
    for number, row in enumerate(rows, 1):
        line, before = link(encode_row(row), number=number, before=before)
        lines.append(line)
    return lines


def checks(lines: list[bytes]) -> str:
    before = START
    for number, line in enumerate(lines, 1):
        before = check_line(line, number=number, before=before)
    return before


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_lines_are_read_as_they_were_chained(rows: list[Row]) -> None:
    lines = chained(rows)
    last = read_line(lines[-1])
    assert checks(lines) == last.hash
    for number, (row, line) in enumerate(zip(rows, lines, strict=True), 1):
        found = read_line(line)
        assert found.n == number
        for name in Row.__struct_fields__:
            assert getattr(found, name) == getattr(row, name)


@given(st.lists(ROWS, min_size=2, max_size=6), st.data())
def test_any_mutation_of_the_lines_is_found(rows: list[Row], data: st.DataObject) -> None:
    lines = chained(rows)
    last = checks(lines)
    how = data.draw(st.sampled_from(["flip", "remove", "swap", "insert", "cut", "repeat"]))
    at = data.draw(st.integers(0, len(lines) - 1))
    changed = [*lines]
    if how == "flip":
        byte = data.draw(st.integers(0, len(lines[at]) - 1))
        bit = 1 << data.draw(st.integers(0, 7))
        line = bytearray(lines[at])
        line[byte] ^= bit
        changed[at] = bytes(line)
    elif how == "remove":
        del changed[at]
    elif how == "swap":
        other = data.draw(st.integers(0, len(lines) - 1).filter(lambda each: each != at))
        changed[at], changed[other] = changed[other], changed[at]
    elif how == "insert":
        changed.insert(at, lines[data.draw(st.integers(0, len(lines) - 1))])
    elif how == "repeat":
        changed.append(lines[-1])
    else:
        changed[at] = lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]
    try:
        found = checks(changed)
    except BrokenLine:
        return
    # Only rows that are missing at the end fit, and the head of the chain knows the last hash.
    assert (how, at, found != last) == ("remove", len(lines) - 1, True)


def test_a_row_with_a_hash_of_its_own_does_not_fit_the_row_behind_it() -> None:
    """One who changes a row and its hash has to change every later row, and the head."""
    lines = chained([Row(kind="attempt", at_ms=number, who="alice") for number in range(3)])
    forged, _ = link(
        encode_row(Row(kind="attempt", at_ms=1, who="bob")),
        number=2,
        before=read_line(lines[0]).hash,
    )
    with pytest.raises(BrokenLine, match="hash"):
        checks([lines[0], forged, lines[2]])


def test_a_line_is_json_and_can_be_checked_without_this_program() -> None:
    (line,) = chained([Row(kind="refusal", at_ms=7, who='user:"x"', reason="budget_exhausted")])
    assert json.loads(line) == {
        "n": 1,
        "kind": "refusal",
        "atMs": 7,
        "who": 'user:"x"',
        "reason": "budget_exhausted",
        "hash": read_line(line).hash,
    }
    content = line[: line.rindex(b',"hash":"')]
    assert hashlib.sha256(START.encode() + content).hexdigest() == read_line(line).hash


def test_a_chain_is_bound_to_the_one_before_it() -> None:
    assert (
        len({genesis("a", "", 1), genesis("b", "", 1), genesis("a", "b", 1), genesis("a", "", 2)})
        == 4
    )


def test_a_row_of_a_node_that_died_names_its_chain() -> None:
    body = recovered(encode_row(Row(kind="attempt", at_ms=7)), 'chain "1"')
    line, _ = link(body, number=1, before=START)
    assert read_line(line).recovered_from == 'chain "1"'


@pytest.mark.parametrize("line", [b"", b"{}", b'{"n":01,"kind":"change"}', b"\xff" * 200])
def test_what_is_no_line_is_broken(line: bytes) -> None:
    with pytest.raises(BrokenLine):
        check_line(line, number=1, before=START)
    with pytest.raises(BrokenLine):
        read_line(line)
