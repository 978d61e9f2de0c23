"""Instants on the wire: ISO 8601 in UTC with `Z` and milliseconds."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The last second that was formatted. Status updates come in bursts, so the
# expensive half of the text is nearly always the same as the time before.
_last: tuple[int, str] = (0, "1970-01-01T00:00:00")


def format_timestamp(ms: int) -> str:
    """Milliseconds since the epoch as `2026-01-31T23:59:59.123Z`."""
    global _last
    second, milli = divmod(ms, 1000)
    cached = _last
    if cached[0] != second:
        cached = (second, (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S"))
        _last = cached
    return f"{cached[1]}.{milli:03d}Z"


def parse_timestamp(text: str) -> int:
    """ISO 8601 with an offset as milliseconds since the epoch, rounded down.

    Raises ValueError when the text is no such instant or names no offset.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the timestamp has no UTC offset")
    return (moment - _EPOCH) // timedelta(milliseconds=1)
