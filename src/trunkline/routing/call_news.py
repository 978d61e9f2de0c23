"""`CallNews`: hears what the commits of this node have made of calls, and tells those who wait."""

from collections.abc import Callable

from msgspec import Struct

from trunkline.routing.call_records import CallState, RoutedCall
from trunkline.routing.counts import CallCounts
from trunkline.routing.waiting import Waiting

# How much later than a call is due this node looks for it: the clock of a store counts whole
# milliseconds.
_SOON_S = 0.002


class CallNews(Struct, kw_only=True, eq=False):
    """No method waits. Each is called right after the commit."""

    counts: CallCounts
    waiting: Waiting
    # Has due work looked for in all stores, and in the main store after that many seconds.
    wake: Callable[[], None]
    wake_in: Callable[[float], None]
    # Tells the other nodes the id of a call that ended.
    tell: Callable[[str], None]
    # Told of each call that this node has made or ended, while anyone wants that.
    on_change: Callable[[RoutedCall], None] | None = None

    def made(self, call: RoutedCall, *, is_on_its_way: bool) -> None:
        """The call was made. `is_on_its_way`: to the main store."""
        self.counts.begun += 1
        self.wake_in(call.timeout_ms / 1000 + _SOON_S)
        if is_on_its_way:
            self.wake()
        if self.on_change is not None:
            self.on_change(call)

    def ends_soon(self) -> None:
        """The end of a call is on its way."""
        self.wake()

    def ended(self, call: RoutedCall, state: CallState, *, took_s: float | None = None) -> None:
        """The call has ended. `took_s`: since the called agent was done, if it was."""
        self.counts.ended[state] += 1
        if self.on_change is not None:
            self.on_change(call)
        if took_s is not None:
            self.counts.delivery.observe(took_s)
        if call.waits:
            if not self.waiting.wake(call.id):
                self.tell(call.id)
        elif state != "discarded" and (call.starts_turn or call.delivery != "session"):
            self.wake()

    def late(self) -> None:
        """The called agent is done, after another end of the call."""
        self.counts.ended["late"] += 1
