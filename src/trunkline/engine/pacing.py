"""`Pacing`: how much background work a step does, and how long it rests after it."""

# A step that takes longer delays commits by a time that callers notice.
LONG_STEP_S = 0.020
# A step that takes less has most of its cost in the commit, whatever it does.
SHORT_STEP_S = 0.005
# Rest after a step, in multiples of what it took: while others commit, a fifth of the time
# goes into background work, else a half. A fifth still deletes about as many tasks per
# second as a busy gateway can finish.
BUSY_REST = 4.0
QUIET_REST = 1.0
# After a step that a slow disk held up.
MAX_REST_S = 5.0


class Pacing:
    """Adapts to what each step took, and to whether anybody else was at work."""

    def __init__(self, *, smallest: int, largest: int) -> None:
        self._smallest = smallest
        self._largest = largest
        # How much the next step may do. The first ones find out what a step takes.
        self.size = max(smallest, largest // 4)

    def rest_after(self, took_s: float, *, is_busy: bool) -> float:
        """Seconds to wait until the next step. `is_busy`: others committed meanwhile."""
        if took_s > LONG_STEP_S:
            self.size = max(self._smallest, self.size // 2)
        elif took_s < SHORT_STEP_S:
            self.size = min(self._largest, self.size * 2)
        return min(MAX_REST_S, took_s * (BUSY_REST if is_busy else QUIET_REST))
