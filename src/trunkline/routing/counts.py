"""`CallCounts`: how many calls there were and how they came out, for `/metrics`."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from trunkline.model.call_outcomes import CallOutcome
from trunkline.ports.figures import Figure
from trunkline.routing.call_records import RoutedCall


class CallCounts(Struct, eq=False):
    begun: int = 0
    by_outcome: Counter[str] = field(default_factory=Counter)

    def made(self, call: RoutedCall) -> None:
        self.begun += 1

    def ended(self, call: RoutedCall, outcome: CallOutcome | None, *, is_late: bool) -> None:
        """An outcome of None is on its way."""
        if is_late:
            self.by_outcome["late"] += 1
        elif outcome is not None:
            self.by_outcome[outcome.status] += 1

    def timed_out(self, call: RoutedCall) -> None:
        self.by_outcome["timeout"] += 1

    def discarded(self, count: int) -> None:
        self.by_outcome["discarded"] += count

    def figures(self) -> Iterator[Figure]:
        yield "trunkline_agent_calls_total", "Calls of agents to agents.", self.begun
