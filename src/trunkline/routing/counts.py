"""`CallCounts`: how many calls there were and how they came out, for `/metrics`."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from trunkline.ports.figures import Durations, Figure, Labelled, Timed


class CallCounts(Struct, eq=False):
    """The counts of this node."""

    begun: int = 0
    # The ends of calls by their state; `late` for an answer after another end.
    ended: Counter[str] = field(default_factory=Counter)
    # From the end of the called agent's work to the entry in the session of the caller.
    delivery: Durations = field(default_factory=Durations)
    # By how much a timeout came late.
    timeout_error: Durations = field(default_factory=Durations)

    def figures(self) -> Iterator[Figure | Labelled | Timed]:
        yield "trunkline_agent_calls_total", "Calls of agents to agents.", self.begun
        yield Labelled(
            "trunkline_agent_calls_ended_total",
            "Calls of agents to agents that ended, by their outcome.",
            "outcome",
            self.ended,
        )
        yield Timed(
            "trunkline_agent_call_delivery_seconds",
            "Time from the end of the called agent's work to its answer in the caller's session.",
            self.delivery,
        )
        yield Timed(
            "trunkline_agent_call_timeout_error_seconds",
            "By how much timeouts of calls came late.",
            self.timeout_error,
        )
