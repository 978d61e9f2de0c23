"""`Metrics`: the figures of `/metrics`, in plain counters until a scrape asks for them."""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
LABELS = ("agent", "operation", "binding", "version", "outcome")
# The values of the labels, in this order.
Labels: TypeAlias = tuple[str, str, str, str, str]


class _Series(Struct, eq=False):
    buckets: list[int]
    count: int = 0
    seconds: float = 0.0


class Metrics(Collector):
    def __init__(self, gauges: Callable[[], Iterable[tuple[str, str, float]]]) -> None:
        """`gauges` returns the name, help text and value of each figure that a scrape reads from
        the runtime."""
        self._gauges = gauges
        self._series: dict[Labels, _Series] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, labels: Labels, seconds: float) -> None:
        """Count one request. No label holds an id, so that the number of series stays small."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series([0] * (len(BUCKETS_S) + 1))
        series.count += 1
        series.seconds += seconds
        series.buckets[bisect_left(BUCKETS_S, seconds)] += 1

    def forget_others(self, agents: Container[str]) -> None:
        """Drop the series of agents that are not among these."""
        self._series = {key: each for key, each in self._series.items() if key[0] in agents}

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "trunkline_requests", "Requests by operation and outcome.", labels=LABELS
        )
        durations = HistogramMetricFamily(
            "trunkline_request_seconds",
            "Time from the request to the end of its answer; streams count until they close.",
            labels=LABELS,
        )
        for key, series in self._series.items():
            requests.add_metric(key, series.count)
            durations.add_metric(key, _cumulative(series), series.seconds)
        yield requests
        yield durations
        for name, text, value in self._gauges():
            if name.endswith("_total"):
                yield CounterMetricFamily(name.removesuffix("_total"), text, value=value)
            else:
                yield GaugeMetricFamily(name, text, value=value)

    def text(self) -> bytes:
        return generate_latest(self._registry)


def _cumulative(series: _Series) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), series.buckets, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
