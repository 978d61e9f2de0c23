"""The closed loop that most cases are: warm up, open the window, ask, close it, judge."""

from bench.cases.case import Scale
from bench.exchange import Exchange
from bench.figures import (
    BUSY,
    COUNT,
    CPU_US,
    DB_CPU_US,
    LOAD,
    P50_MS,
    P99_MS,
    PER_S,
    RSS_MB,
    Figures,
)
from bench.target import Target, expect_right


def closed_loop(
    target: Target,
    exchange: Exchange,
    scale: Scale,
    *,
    connections: int,
    requests: int | None = None,
    per_request: int = 1,
    warm_up: Exchange | None = None,
) -> dict[str, float]:
    """Figures of one run; CPU is divided by what one request stands for."""
    total = requests or scale.requests
    with target.client(connections) as client:
        first = min(total, max(scale.warm_up, connections))
        expect_right(client.run(warm_up or exchange, total=first, limit_s=scale.limit_s / 2))
        with target.window() as window:
            outcome = client.run(exchange, total=total, limit_s=scale.limit_s)
    expect_right(outcome)
    figures = {
        CPU_US: window.cpu_s * 1e6 / (outcome.done * per_request),
        PER_S: outcome.done / window.wall_s,
        P50_MS: outcome.percentile_ms(0.50),
        P99_MS: outcome.percentile_ms(0.99),
        COUNT: outcome.done,
        RSS_MB: target.process.rss_bytes() / 1e6,
        BUSY: window.server_share * 100,
        LOAD: window.generator_share * 100,
    }
    if window.database_cpu_s is not None:
        figures[DB_CPU_US] = window.database_cpu_s * 1e6 / (outcome.done * per_request)
    return figures


def without(figures: dict[str, float], *keys: str) -> Figures:
    return {key: value for key, value in figures.items() if key not in keys}
