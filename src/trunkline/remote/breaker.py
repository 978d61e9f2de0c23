"""A circuit per peer: one that fails again and again is left alone for a while."""

from typing import Final

OPEN_S: Final = 30.0


class Breaker:
    """Closed, open after so many failures in a row, half open for one probe after a while.

    Times are the caller's, in seconds that never go back.
    """

    def __init__(self, *, failures: int, open_s: float = OPEN_S) -> None:
        self._limit = failures
        self._open_s = open_s
        self._failures = 0
        self._opened_at = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        return self._failures >= self._limit

    def wait_s(self, now: float) -> float:
        """0 for who may call now; takes the probe when it is due. Else how long to wait."""
        if not self.is_open:
            return 0.0
        left = self._opened_at + self._open_s - now
        if left > 0:
            return left
        if self._is_probing:
            return self._open_s
        self._is_probing = True
        return 0.0

    def succeeded(self) -> None:
        self._failures = 0
        self._is_probing = False

    def failed(self, now: float) -> None:
        self._failures += 1
        self._is_probing = False
        if self.is_open:
            self._opened_at = now

    def abandoned(self) -> None:
        """The call ended without telling anything about the peer."""
        self._is_probing = False
