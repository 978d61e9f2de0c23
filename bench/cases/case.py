"""What a case is, and how much of it a run does."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.figures import CPU_US, Figures
from bench.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Every case is bounded in count and in time, whichever comes first."""

    rounds: int
    requests: int
    limit_s: float
    warm_up: int
    subscribers: int
    fanout_deltas: int
    long_streams: int
    growth_sends: int
    growth_limit_s: float
    stored_tasks: int


FULL = Scale(
    rounds=3,
    requests=5_000,
    limit_s=4,
    warm_up=500,
    subscribers=1_000,
    fanout_deltas=100,
    long_streams=5,
    growth_sends=50_000,
    growth_limit_s=45,
    stored_tasks=1_000_000,
)
QUICK = Scale(
    rounds=1,
    requests=500,
    limit_s=1,
    warm_up=100,
    subscribers=100,
    fanout_deltas=100,
    long_streams=1,
    growth_sends=1_000,
    growth_limit_s=2,
    stored_tasks=20_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    # May name fields of the scale: "{scale.subscribers}".
    title: str
    # What the CPU or the memory is divided by.
    per: str
    # What a server must be able to do (see servers.py).
    needs: str
    run: Callable[[Target, Scale], Figures]
    # The figure that servers are compared by.
    headline: str = CPU_US
    # Memory is only comparable in a process that has done nothing else; one round is enough.
    own_process: bool = False
    once: bool = False
