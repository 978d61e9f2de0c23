"""`UsageFigures`: the queries of agents, read from the counts that the limits keep."""

from collections.abc import Callable, Mapping, Sequence

from trunkline.hub import budgets
from trunkline.hub.figures import AgentFigures
from trunkline.hub.limits import Place
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key
from trunkline.ports.store import Store


class UsageFigures:
    """Each answer is read from the store, so that it holds whichever node counted last."""

    def __init__(self, *, clock: Clock, place_of: Callable[[str], Place]) -> None:
        self._clock = clock
        self._place_of = place_of

    async def of(self, handles: Sequence[str]) -> Mapping[str, AgentFigures]:
        days = budgets.days_kept(self._clock.now_ms())
        return {handle: await self._read(handle, days) for handle in handles}

    async def _read(self, handle: str, days: Sequence[str]) -> AgentFigures:
        store = self._place_of(handle).store
        last = await store.record(Key(budgets.LAST, handle, ""))
        # Before the days, so that a day which is deleted meanwhile counts at most once.
        earlier = await _count(store, Key(budgets.EARLIER, handle, ""))
        by_day = [await _count(store, Key(budgets.BUDGET, day, handle)) for day in days]
        return AgentFigures(
            queries_today=by_day[0],
            queries_all_time=earlier + sum(by_day),
            last_query_ms=None if last is None else int(last.body),
        )


async def _count(store: Store, key: Key) -> int:
    record = await store.record(key)
    return 0 if record is None else max(0, record.count)
