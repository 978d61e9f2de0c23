"""References to large texts, and the slices that they stand for."""

import msgspec
import pytest

from trunkline.model.large_values import (
    MARK_TEXT,
    MAX_INLINE_CHARS,
    REFERENCE_CHARS,
    SLICE_BYTES,
    LargeValue,
    is_large,
    referred_ids,
    restored,
    split,
    text_of_slices,
    value_id,
)

ONE, TWO = value_id("one"), value_id("two")


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "line\n" * 200_000,
        "日本語" * 100_000,
        "😀" * 100_000,
        "\x00\x1f" * 100_000,
        '\\"' * 300_000,
        "",
    ],
    ids=["plain", "lines", "cjk", "emoji", "controls", "quotes", "empty"],
)
def test_slices_are_the_inside_of_the_json_string(text: str) -> None:
    slices = list(LargeValue(ONE, text).slices())
    assert b'"%b"' % b"".join(slices) == msgspec.json.encode(text)
    assert all(len(each) == SLICE_BYTES for each in slices[:-1])
    assert all(len(each) <= SLICE_BYTES for each in slices)
    assert text_of_slices(slices) == text


def test_a_slice_is_made_when_it_is_asked_for() -> None:
    broken = "a" * SLICE_BYTES + "\ud800" * 10
    slices = LargeValue(ONE, broken).slices()
    assert len(next(slices)) == SLICE_BYTES
    with pytest.raises(UnicodeEncodeError):
        next(slices)


def test_what_does_not_fit_into_a_slice_is_large() -> None:
    assert not is_large("a" * SLICE_BYTES)
    assert is_large("a" * (SLICE_BYTES + 1))
    assert not is_large("😀" * MAX_INLINE_CHARS)
    assert is_large("😀" * (MAX_INLINE_CHARS + 1))


def test_a_reference_is_text_that_json_leaves_alone() -> None:
    reference = LargeValue(ONE, "text").reference
    assert len(reference) == REFERENCE_CHARS
    assert msgspec.json.encode(reference) == f'"{reference}"'.encode()


def test_references_are_found_and_split_off() -> None:
    first, second = LargeValue(ONE, "").reference, LargeValue(TWO, "").reference
    data = f'{{"a":"{first}","b":"x{second}{first}y"}}'.encode()
    assert referred_ids(data) == (ONE, TWO)
    assert split(data, {ONE: 1, TWO: 2}) == [b'{"a":"', ONE, b'","b":"x', TWO, b"", ONE, b'y"}']


def test_text_that_only_looks_like_a_reference_stays() -> None:
    known, unknown = LargeValue(ONE, "").reference, LargeValue(TWO, "").reference
    data = f"{unknown}{known}{MARK_TEXT}".encode()
    assert split(data, {ONE: 1}) == [unknown.encode(), ONE, MARK_TEXT.encode()]
    assert restored(f"{unknown}{known}{MARK_TEXT}", {ONE: "!"}) == f"{unknown}!{MARK_TEXT}"
    assert restored("plain", {ONE: "!"}) == "plain"


def test_a_text_that_is_one_reference_is_not_copied() -> None:
    text = "large " * 1000
    assert restored(LargeValue(ONE, text).reference, {ONE: text}) is text
