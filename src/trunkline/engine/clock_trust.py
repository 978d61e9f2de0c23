"""`ClockTrust`: for how long the wall clock has agreed with the monotonic clock."""

# Time servers slow a clock down or speed it up by a few seconds per minute at most. A
# larger difference is a jump: the clock was set by hand, a time server corrected it at once, or
# the machine slept, which the monotonic clock does not count.
MAX_DRIFT_S = 10.0


class ClockTrust:
    """Retention asks it before it deletes by age.

    A wrong clock can make every task look old, and the process cannot tell whether a jump
    made the clock right or wrong. What a wrong clock has in common with a right one after a
    correction is only that it was not steady for long. So a clock counts as steady from
    the start of the process, or from its last jump.
    """

    def __init__(self, *, now_ms: int, monotonic_s: float) -> None:
        self._now_ms = now_ms
        self._monotonic_s = self._since_s = monotonic_s

    def observe(self, *, now_ms: int, monotonic_s: float) -> float:
        """Returns by how many seconds the wall clock jumped since the last time; mostly 0."""
        passed_s = monotonic_s - self._monotonic_s
        drift_s = (now_ms - self._now_ms) / 1000 - passed_s
        self._now_ms, self._monotonic_s = now_ms, monotonic_s
        if abs(drift_s) <= MAX_DRIFT_S:
            return 0.0
        self._since_s = monotonic_s
        return drift_s

    @property
    def steady_s(self) -> float:
        """Seconds for which the two have agreed, as of the last observation."""
        return self._monotonic_s - self._since_s
