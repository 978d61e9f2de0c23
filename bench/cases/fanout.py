"""One task, many subscribers, every delta to each of them."""

from bench.cases.case import Case, Scale
from bench.figures import BUSY, COUNT, CPU_US, EVENTS, LOAD, RSS_MB, TIME_S, Figures
from bench.servers import SUBSCRIBE
from bench.subscribers import Subscribers
from bench.target import Target


def run(target: Target, scale: Scale) -> Figures:
    count, deltas = scale.subscribers, scale.fanout_deltas
    with Subscribers(target, count=count, deltas=deltas) as subscribers:
        with target.window() as window:
            subscribers.release()
        events = subscribers.events()
    return {
        CPU_US: window.cpu_s * 1e6 / (count * deltas),
        TIME_S: window.wall_s,
        EVENTS: events,
        COUNT: count * deltas,
        RSS_MB: target.process.rss_bytes() / 1e6,
        BUSY: window.server_share * 100,
        LOAD: window.generator_share * 100,
    }


CASES = (
    Case(
        name="fanout",
        title="{scale.subscribers:,} subscribers on one task, {scale.fanout_deltas} deltas",
        per="delta and subscriber",
        needs=SUBSCRIBE,
        run=run,
    ),
)
