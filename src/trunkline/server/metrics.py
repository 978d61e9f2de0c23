"""`Metrics`: the figures of `/metrics`, in plain counters until a scrape asks for them."""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trunkline.ports.figures import BUCKETS_S, Durations, Figure, Labelled, Timed

LABELS = ("agent", "operation", "binding", "version", "outcome")
# The values of the labels, in this order.
Labels: TypeAlias = tuple[str, str, str, str, str]


class Metrics(Collector):
    def __init__(self, figures: Callable[[], Iterable[Figure | Labelled | Timed]]) -> None:
        """`figures` returns what a scrape reads from other parts of the gateway."""
        self._figures = figures
        self._series: dict[Labels, Durations] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, labels: Labels, seconds: float) -> None:
        """Count one request. No label holds an id, so that the number of series stays small."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Durations()
        # As `Durations.observe`, without a call, because this runs for every request.
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
        for figure in self._figures():
            yield _metric(figure)

    def text(self) -> bytes:
        return generate_latest(self._registry)


def _metric(figure: Figure | Labelled | Timed) -> Metric:
    if isinstance(figure, Timed):
        durations = HistogramMetricFamily(figure.name, figure.text)
        durations.add_metric([], _cumulative(figure.durations), figure.durations.seconds)
        return durations
    if isinstance(figure, Labelled):
        name = figure.name.removesuffix("_total")
        counter = CounterMetricFamily(name, figure.text, labels=[figure.label])
        for value, count in figure.values.items():
            counter.add_metric([value], count)
        return counter
    name, text, number = figure
    if name.endswith("_total"):
        return CounterMetricFamily(name.removesuffix("_total"), text, value=number)
    return GaugeMetricFamily(name, text, value=number)


def _cumulative(series: Durations) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), series.buckets, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
