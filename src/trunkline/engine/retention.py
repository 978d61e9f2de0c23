"""`ClockTrust` and `Pacing`: whether retention may delete by age, and how fast it deletes."""

# Time servers slow a clock down or speed it up by a few seconds per minute at most. A
# larger difference is a jump: the clock was set by hand, a time server corrected it at once, or
# the machine slept, which the monotonic clock does not count.
MAX_DRIFT_S = 10.0


class ClockTrust:
    """How long the wall clock has been steady; retention asks before it deletes by age.

    A wrong clock can make every task look old, and the process cannot tell whether a jump made the
    clock right or wrong. So retention does not trust a clock that jumped a short time ago: a clock
    counts as steady since the start of the process, or since its last jump.
    """

    def __init__(self, *, now_ms: int, monotonic_s: float) -> None:
        self._now_ms = now_ms
        self._monotonic_s = self._since_s = monotonic_s

    def observe(self, *, now_ms: int, monotonic_s: float) -> float:
        """Compare the two clocks. Returns the seconds by which the wall clock jumped since the last
        call, mostly 0."""
        passed_s = monotonic_s - self._monotonic_s
        drift_s = (now_ms - self._now_ms) / 1000 - passed_s
        self._now_ms, self._monotonic_s = now_ms, monotonic_s
        if abs(drift_s) <= MAX_DRIFT_S:
            return 0.0
        self._since_s = monotonic_s
        return drift_s

    @property
    def steady_s(self) -> float:
        """The seconds for which wall clock and monotonic clock have agreed, as of the last
        observation."""
        return self._monotonic_s - self._since_s


# A step that takes longer delays commits by a time that callers notice.
LONG_STEP_S = 0.020
# A faster step spends most of its time in the commit, so it may delete more.
SHORT_STEP_S = 0.005
# The rest after a step, in multiples of the time that the step took: while other work commits,
# retention uses a fifth of the time, else half of it. A fifth still deletes about as many tasks per
# second as a busy gateway can finish.
BUSY_REST = 4.0
QUIET_REST = 1.0
# The longest rest, after a step that a slow disk held up.
MAX_REST_S = 5.0


class Pacing:
    """Adapts the size of a step, and the rest after it, to the time that steps take and to other
    work."""

    def __init__(self, *, smallest: int, largest: int) -> None:
        self._smallest = smallest
        self._largest = largest
        # The size of the next step. The first steps are small, to measure how long a step takes.
        self.size = max(smallest, largest // 4)

    def rest_after(self, took_s: float, *, is_busy: bool) -> float:
        """The seconds to wait until the next step. `is_busy` says whether other work committed
        meanwhile."""
        if took_s > LONG_STEP_S:
            self.size = max(self._smallest, self.size // 2)
        elif took_s < SHORT_STEP_S:
            self.size = min(self._largest, self.size * 2)
        return min(MAX_REST_S, took_s * (BUSY_REST if is_busy else QUIET_REST))
