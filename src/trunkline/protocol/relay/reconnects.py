"""`Reconnects`: when a host tries again to reach its relay.

Waits grow from half a second to a minute, each a random part of its limit, so that the hosts of a
relay that has restarted do not come back all at once.
"""

from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 60.0
# A connection that lasted shorter counts as another failure.
STABLE_S: Final = 10.0


class Reconnects:
    def __init__(self) -> None:
        self._failures = 0
        self._connected_at: float | None = None

    def connected(self, now: float) -> None:
        self._connected_at = now

    def failed(self, now: float, chance: float, *, retry_after_s: float = 0.0) -> float:
        """The seconds to wait after an attempt has failed, or a connection was lost. `chance` is a
        random number from 0 to 1; the relay may have said `retry_after_s`."""
        if self._connected_at is not None and now - self._connected_at >= STABLE_S:
            self._failures = 0
        self._connected_at = None
        # The exponent is limited, so that a relay that is away for days costs no large numbers.
        limit = min(FIRST_S * 2.0 ** min(self._failures, 16), LONGEST_S)
        self._failures += 1
        return max(retry_after_s, chance * limit)
