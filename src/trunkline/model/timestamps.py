"""Instants on the wire: ISO 8601 in UTC with `Z` and milliseconds."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A look-up takes a tenth of the time of formatting.
_MILLIS = [f".{milli:03d}Z" for milli in range(1000)]

# The last second and the last instant that were formatted. Status updates come in bursts, so one of
# the two nearly always fits again.
_last_second: tuple[int, str] = (0, "1970-01-01T00:00:00")
_last: tuple[int, str] = (0, "1970-01-01T00:00:00.000Z")


def format_timestamp(ms: int) -> str:
    """Milliseconds since the epoch as `2026-01-31T23:59:59.123Z`."""
    global _last, _last_second
    known, text = _last
    if known == ms:
        return text
    second, milli = divmod(ms, 1000)
    known, text = _last_second
    if known != second:
        text = (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
        _last_second = (second, text)
    text += _MILLIS[milli]
    _last = (ms, text)
    return text


def parse_timestamp(text: str) -> int:
    """ISO 8601 with an offset as milliseconds since the epoch, rounded down.

    Raises ValueError when the text is no such instant or names no offset.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the timestamp has no UTC offset")
    return (moment - _EPOCH) // timedelta(milliseconds=1)
