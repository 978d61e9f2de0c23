import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.timestamps import format_timestamp, parse_timestamp

# 1970 to the end of the year 9999.
MOMENTS = st.integers(0, 253_402_300_799_999)


@given(MOMENTS)
def test_what_is_formatted_reads_back(ms: int) -> None:
    assert parse_timestamp(format_timestamp(ms)) == ms


@given(MOMENTS, MOMENTS)
def test_timestamps_sort_as_text(one: int, other: int) -> None:
    assert (format_timestamp(one) < format_timestamp(other)) == (one < other)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (7, "1970-01-01T00:00:00.007Z"),
        (1_769_903_999_123, "2026-01-31T23:59:59.123Z"),
        (1_769_903_999_999, "2026-01-31T23:59:59.999Z"),
        (1_769_904_000_000, "2026-02-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    ],
)
def test_the_form_is_utc_with_milliseconds(ms: int, text: str) -> None:
    assert format_timestamp(ms) == text
    # The second time from the second that is kept.
    assert format_timestamp(ms) == text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-31T23:59:59Z", 1_769_903_999_000),
        ("2026-01-31T23:59:59.5Z", 1_769_903_999_500),
        ("2026-01-31T23:59:59.123999Z", 1_769_903_999_123),
        ("2026-02-01T01:29:59.123+01:30", 1_769_903_999_123),
        ("2026-01-31T18:59:59.123-05:00", 1_769_903_999_123),
        ("2026-01-31 23:59:59.123+00:00", 1_769_903_999_123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1969-12-31T23:59:59.9995Z", -1),
    ],
    ids=lambda value: str(value),
)
def test_any_offset_and_any_fraction_is_read(text: str, ms: int) -> None:
    assert parse_timestamp(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-01-31", "2026-01-31T23:59:59", "2026-02-30T00:00:00Z", "1769903999"],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is Python's own
        parse_timestamp(text)


def test_a_missing_offset_is_named() -> None:
    with pytest.raises(ValueError, match="no UTC offset"):
        parse_timestamp("2026-01-31T23:59:59")
