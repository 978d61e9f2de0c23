"""`CommitWaits`: how long appends have waited for the store, in seconds of the watchdog."""

from msgspec import Struct, field


class Second(Struct, eq=False):
    """The number of appends, submitted in one second, that the store has not settled yet."""

    tick: int
    unsettled: int = 0


class CommitWaits(Struct, eq=False):
    # The journal counts in it without a call, because it does so for every append.
    second: Second = field(default_factory=lambda: Second(0))
    _earlier: list[Second] = []

    def tick(self) -> int:
        """Count one second. Returns the seconds for which the oldest unsettled append has
        waited."""
        now = self.second.tick + 1
        self._earlier = [each for each in (*self._earlier, self.second) if each.unsettled]
        self.second = Second(now)
        return now - self._earlier[0].tick if self._earlier else 0

    @property
    def unsettled(self) -> int:
        """The number of appends that the store has not settled."""
        return sum(each.unsettled for each in (*self._earlier, self.second))
