"""Memory: an idle subscriber, and a finished task."""

from bench.calls import Send
from bench.cases.case import Case, Scale
from bench.figures import COUNT, KB, RSS_MB, Figures
from bench.servers import SEND, SUBSCRIBE
from bench.subscribers import Subscribers
from bench.target import Target, expect_right

CONNECTIONS = 32


def warm_up(target: Target, scale: Scale) -> None:
    """Every code path loaded, every pool at its usual size."""
    target.ask(Send(target.caller), times=2 * scale.warm_up, connections=CONNECTIONS)


def run_idle(target: Target, scale: Scale) -> Figures:
    warm_up(target, scale)
    with Subscribers(target, count=10, deltas=1) as few:
        few.release()
    before = target.process.rss_bytes()
    with Subscribers(target, count=scale.subscribers, deltas=1) as many:
        after = target.process.rss_bytes()
        many.release()
    return {
        KB: (after - before) / 1e3 / scale.subscribers,
        COUNT: scale.subscribers,
        RSS_MB: after / 1e6,
    }


def run_growth(target: Target, scale: Scale) -> Figures:
    warm_up(target, scale)
    before = target.process.rss_bytes()
    with target.client(CONNECTIONS) as client:
        outcome = expect_right(
            client.run(Send(target.caller), total=scale.growth_sends, limit_s=scale.growth_limit_s)
        )
    after = target.process.rss_bytes()
    return {KB: (after - before) / 1e3 / outcome.done, COUNT: outcome.done, RSS_MB: after / 1e6}


CASES = (
    Case(
        name="idle",
        title="Memory of an idle SSE subscriber",
        per="subscriber",
        needs=SUBSCRIBE,
        run=run_idle,
        headline=KB,
        own_process=True,
    ),
    Case(
        name="growth",
        title="Memory that a finished task leaves behind",
        per="task",
        needs=SEND,
        run=run_growth,
        headline=KB,
        own_process=True,
        once=True,
    ),
)
