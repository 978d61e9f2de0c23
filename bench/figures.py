"""The figures a case may report: label, unit and how many decimals are worth reading."""

from collections.abc import Mapping
from dataclasses import dataclass

# What one case measured on one server in one round, by the key of the figure.
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    label: str
    decimals: int = 0
    # More is better for a rate; for all else less is.
    is_rate: bool = False


CPU_US = "cpu_us"
DB_CPU_US = "db_cpu_us"
PER_S = "per_s"
P50_MS = "p50_ms"
P99_MS = "p99_ms"
TIME_S = "time_s"
EVENTS = "events"
KB = "kb"
COUNT = "count"
RSS_MB = "rss_mb"
BUSY = "busy"
LOAD = "load"

FIGURES: dict[str, Figure] = {
    CPU_US: Figure("CPU µs", 1),
    DB_CPU_US: Figure("database CPU µs", 1),
    PER_S: Figure("per s", 0, is_rate=True),
    P50_MS: Figure("p50 ms", 2),
    P99_MS: Figure("p99 ms", 2),
    TIME_S: Figure("time s", 3),
    EVENTS: Figure("SSE events", 0),
    KB: Figure("KB", 2),
    COUNT: Figure("n", 0),
    RSS_MB: Figure("RSS MB", 0),
    # Share of its core that the server used: below 100 % it waited, or others took the core.
    BUSY: Figure("server %", 0),
    # Share of its own core that the load generator used: near 100 % it would be the bottleneck.
    LOAD: Figure("load gen. %", 0),
}


def written(key: str, value: float) -> str:
    """A value as people read it: three digits are enough above 100."""
    decimals = FIGURES[key].decimals if abs(value) < 100 else 0
    return f"{value:,.{decimals}f}"
