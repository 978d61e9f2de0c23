"""Streams: short ones side by side, and long ones that show what one more delta costs."""

from bench.calls import Stream
from bench.cases.case import Case, Scale
from bench.cases.loop import closed_loop, without
from bench.figures import EVENTS, P50_MS, P99_MS, PER_S, TIME_S, Figures
from bench.servers import STREAM
from bench.target import Target

SHORT = 10
# Some peers take half a minute for the longest stream; a shorter one warms up as well.
WARM_UP = 200


def run_short(target: Target, scale: Scale) -> Figures:
    return streams(target, scale, deltas=SHORT, connections=32, requests=scale.requests // 2)


def streams(
    target: Target,
    scale: Scale,
    *,
    deltas: int,
    connections: int,
    requests: int,
    per_request: int = 1,
) -> dict[str, float]:
    exchange = Stream(target.caller, deltas=deltas)
    figures = closed_loop(
        target,
        exchange,
        scale,
        connections=connections,
        requests=requests,
        per_request=per_request,
        warm_up=Stream(target.caller, deltas=min(deltas, WARM_UP)),
    )
    return {**figures, EVENTS: exchange.events / exchange.streams}


def long_case(deltas: int) -> Case:
    def run(target: Target, scale: Scale) -> Figures:
        figures = streams(
            target,
            scale,
            deltas=deltas,
            connections=1,
            requests=scale.long_streams,
            per_request=deltas,
        )
        figures[TIME_S] = figures[P50_MS] / 1e3
        return without(figures, PER_S, P50_MS, P99_MS)

    return Case(
        name=f"long-{deltas}",
        title=f"One stream of {deltas:,} deltas",
        per="delta",
        needs=STREAM,
        run=run,
    )


CASES = (
    Case(
        name="stream-10",
        title=f"Stream of {SHORT} deltas, 32 at a time",
        per="stream",
        needs=STREAM,
        run=run_short,
    ),
    *(long_case(deltas) for deltas in (200, 1_000, 2_000)),
)
