"""`OldCounts`: deletes the counts of days and windows that are over, in small steps.

The oldest counts are the first of their kind in the store, so a look costs one page, however many
agents and callers there are. Every node looks, and one of them deletes a count.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from trunkline.background import BackgroundTasks, next_pass
from trunkline.engine.retention import ClockTrust
from trunkline.hub import budgets
from trunkline.model.errors import RecordConflict, StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Delete, Key, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.hub")

KEEP_WINDOWS_S: Final = 600
LOOK_S: Final = 60.0
# A clock that was set a short time ago may be wrong, and a day that it takes for old may be today.
_STEADY_S: Final = 3600.0
_STEP: Final = 200


class OldCounts:
    def __init__(self, *, clock: Clock, stores: Callable[[], Iterable[Store]]) -> None:
        self._clock = clock
        self._stores = stores
        self._trust = ClockTrust(now_ms=clock.now_ms(), monotonic_s=clock.monotonic())
        self._tasks = BackgroundTasks("old counts")

    def start(self) -> None:
        self._tasks.spawn(self._look_again_and_again(), name="old counts")

    async def close(self) -> None:
        await self._tasks.close()

    async def _look_again_and_again(self) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            now_ms = self._clock.now_ms()
            self._trust.observe(now_ms=now_ms, monotonic_s=self._clock.monotonic())
            if self._trust.steady_s < _STEADY_S:
                continue
            for store in [*self._stores()]:
                try:
                    await delete_old(store, now_ms)
                except StoreError as error:
                    _log.warning("old counts stay for now", extra={"reason": error.message})


async def delete_old(store: Store, now_ms: int) -> None:
    """Raises StoreError."""
    first_day = budgets.days_kept(now_ms)[-1]
    for kind in (budgets.BUDGET, budgets.COST):
        await _delete_before(store, kind, first_day)
    await _delete_before(store, budgets.RATE, f"{now_ms // 1000 - KEEP_WINDOWS_S:012d}")


async def _delete_before(store: Store, kind: str, scope: str) -> None:
    while True:
        found = await store.records(kind, limit=_STEP)
        old = [record for record in found if record.key.scope < scope]
        if old:
            try:
                await store.change(*_deletions(old))
            except RecordConflict:
                # Another node was faster, or a query was given back meanwhile.
                continue
        if len(old) < _STEP:
            return
        await next_pass()


def _deletions(old: Sequence[Record]) -> list[Change]:
    """Delete the counts. The queries of agents are added to those of earlier days, once: another
    node that deletes the same count is refused."""
    changes: list[Change] = [Delete(key=each.key, expected=each.version) for each in old]
    queries: Counter[str] = Counter()
    for each in old:
        # Without those of callers and credentials, which are parts of the same queries.
        if each.key.kind == budgets.BUDGET and " " not in each.key.id:
            queries[each.key.id] += max(0, each.count)
    for handle, count in queries.items():
        key = Key(budgets.EARLIER, handle, "")
        changes.append(Add(key=key, amount=count, at_most=budgets.UNLIMITED))
    return changes
