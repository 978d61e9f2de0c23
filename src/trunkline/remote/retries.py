"""When to try again, and after how long."""

from email.utils import parsedate_to_datetime
from typing import Final

from trunkline.remote.errors import PeerRefused, PeerTimeout, PeerUnreachable, RemoteError

_FIRST_S: Final = 0.2
_LONGEST_S: Final = 10.0
# Who asks for more patience than this gets an error with the number in it.
LONGEST_RETRY_AFTER_S: Final = 30.0
# The peer is there and something before it is not, or it has too much to do.
_PASSING: Final = frozenset({502, 503, 504})


def delay_s(attempt: int, chance: float) -> float:
    """Before the attempt after `attempt` (from 0): doubled each time, and spread by half."""
    whole: float = min(_LONGEST_S, _FIRST_S * 2 ** min(attempt, 16))
    return whole * (0.5 + chance / 2)


def may_retry(error: RemoteError, *, is_repeatable: bool) -> bool:
    """Whether trying again can do no harm. `is_repeatable`: twice is the same as once."""
    match error:
        case PeerRefused(status=429):
            # Refused before anything was done.
            return not _is_too_long(error)
        case PeerRefused():
            return is_repeatable and is_passing(error)
        case PeerUnreachable(reason="CIRCUIT_OPEN" | "CLOSED"):
            return False
        case PeerUnreachable() | PeerTimeout():
            return error.is_unsent or (is_repeatable and isinstance(error, PeerUnreachable))
        case _:
            return False


def is_failure_of_peer(error: RemoteError) -> bool:
    """What the circuit counts. A refusal is an answer, and so is nonsense."""
    if isinstance(error, PeerRefused):
        return error.status in _PASSING
    return isinstance(error, PeerUnreachable | PeerTimeout)


def is_passing(refusal: PeerRefused) -> bool:
    """Whether what a peer refuses now may be had a little later."""
    return refusal.status in (*_PASSING, 429) and not _is_too_long(refusal)


def _is_too_long(error: RemoteError) -> bool:
    return error.retry_after_s is not None and error.retry_after_s > LONGEST_RETRY_AFTER_S


def retry_after_s(header: str | None, now_ms: int) -> float | None:
    """The header as seconds from now; it may be a number or a date."""
    text = (header or "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, at - now_ms / 1000)
