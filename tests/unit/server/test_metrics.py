from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from trunkline.ports.figures import BUCKETS_S
from trunkline.server.metrics import Metrics

LABELS = {
    "agent": "acme/echo",
    "operation": "SendMessage",
    "binding": "rest",
    "version": "1.0",
    "outcome": "ok",
}


def no_gauges() -> Iterator[tuple[str, str, float]]:
    yield from ()


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def observed(metrics: Metrics, seconds: float, *, outcome: str = "ok") -> None:
    metrics.observe(("acme/echo", "SendMessage", "rest", "1.0", outcome), seconds)


def test_without_requests_there_are_no_series() -> None:
    assert samples(Metrics(no_gauges)) == {}


def test_requests_are_counted_by_what_they_were() -> None:
    metrics = Metrics(no_gauges)
    observed(metrics, 0.5)
    observed(metrics, 0.5)
    observed(metrics, 0.5, outcome="TASK_NOT_FOUND")
    found = samples(metrics)
    ok, missing = LABELS, LABELS | {"outcome": "TASK_NOT_FOUND"}
    assert found["trunkline_requests_total", frozenset(ok.items())] == 2
    assert found["trunkline_requests_total", frozenset(missing.items())] == 1


def test_durations_fall_into_buckets() -> None:
    metrics = Metrics(no_gauges)
    # On a bound, between bounds, and beyond all of them.
    for seconds in (0.5, 0.3, 100.0):
        observed(metrics, seconds)
    found = samples(metrics)

    def bucket(bound: str) -> float:
        labels = frozenset((LABELS | {"le": bound}).items())
        return found["trunkline_request_seconds_bucket", labels]

    assert [bucket(str(bound)) for bound in BUCKETS_S] == [
        0 if bound < 0.5 else 2 for bound in BUCKETS_S
    ]
    assert bucket("+Inf") == 3
    assert found["trunkline_request_seconds_count", frozenset(LABELS.items())] == 3
    assert found["trunkline_request_seconds_sum", frozenset(LABELS.items())] == 100.8


def test_gauges_are_read_when_somebody_asks() -> None:
    value = 1.0

    def gauges() -> Iterator[tuple[str, str, float]]:
        yield "trunkline_streams_open", "Streams.", value
        yield "trunkline_journal_entries_total", "Entries.", value * 10

    metrics = Metrics(gauges)
    value = 2.0
    families = {
        family.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(metrics.text().decode())
    }
    assert families["trunkline_streams_open"] == ("gauge", "Streams.")
    assert families["trunkline_journal_entries"] == ("counter", "Entries.")
    found = samples(metrics)
    assert found["trunkline_streams_open", frozenset()] == 2
    assert found["trunkline_journal_entries_total", frozenset()] == 20
