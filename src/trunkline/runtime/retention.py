"""`prune`: deletes ended tasks by age, by number or both, and records of callers by age."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from trunkline.engine.retention import Pacing
from trunkline.model.profile import Profile
from trunkline.ports.caller_records import AGING, ANSWER
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key
from trunkline.ports.store import Store

# The records per step. A step of this size holds the writer for a few milliseconds.
STEP = 200
# The smallest step, for stores where a larger one takes too long.
MIN_STEP = 10


class Gone(Struct, frozen=True):
    """The number of records that were deleted, or would be."""

    tasks: int = 0
    # Answers without a task.
    answers: int = 0


def forgets(profile: Profile) -> bool:
    return bool(profile.retention_s or profile.retention_max_tasks)


async def count_prunable(
    store: Store, agent: str, *, before_ms: int | None, keep: int | None
) -> Gone:
    """Count the tasks and answers that `prune` would delete."""
    old = answers = 0
    if before_ms is not None:
        old = await store.count_ended(agent, before_ms=before_ms)
        answers = await store.count_due(ANSWER, agent, before_ms=before_ms)
    many = 0 if keep is None else await store.count_ended(agent) - keep
    # Both limits delete the tasks that ended first, so the larger number includes the smaller one.
    return Gone(max(old, many), answers)


# Behind every id.
_LAST = "\U0010ffff"


async def agents_with_records(store: Store) -> set[str]:
    """The agents whose callers have left records, whether there are tasks or not."""
    found: set[str] = set()
    for kind in AGING:
        after: Key | None = None
        while page := await store.records(kind, after=after, limit=1):
            agent = page[0].key.scope
            found.add(agent)
            after = Key(kind, agent, _LAST)
    return found


# Deletes up to the given number of records, and returns how many it deleted.
Step: TypeAlias = Callable[[int], Awaitable[int]]


class Steps:
    """Repeats a step until nothing is left to do."""

    async def all(self, step: Step, *, at_most: int | None = None) -> int:
        done = 0
        while at_most is None or done < at_most:
            size = self.size if at_most is None else min(self.size, at_most - done)
            did = await self.one(step, size)
            if not did:
                break
            done += did
        return done

    @property
    def size(self) -> int:
        return STEP

    async def one(self, step: Step, size: int) -> int:
        return await step(size)


class PacedSteps(Steps):
    """Rests after each step: longer after a slow step, and while other work commits."""

    def __init__(self, clock: Clock, committed: Callable[[], int]) -> None:
        """`committed` returns the number of entries committed so far."""
        self._clock = clock
        self._committed = committed
        self._seen = committed()
        self._pacing = Pacing(smallest=MIN_STEP, largest=STEP)

    @property
    def size(self) -> int:
        return self._pacing.size

    async def one(self, step: Step, size: int) -> int:
        began = self._clock.monotonic()
        did = await step(size)
        took_s = self._clock.monotonic() - began
        if did:
            # Whether others committed during the step, or during the rest before it.
            seen = self._committed()
            is_busy, self._seen = seen != self._seen, seen
            await self._clock.sleep(self._pacing.rest_after(took_s, is_busy=is_busy))
        return did


_UNPACED = Steps()


async def _delete_old(store: Store, kind: str, agent: str, before_ms: int, limit: int) -> int:
    return await store.delete_due(kind, agent, before_ms=before_ms, limit=limit)


async def prune(
    store: Store, agent: str, *, before_ms: int | None, keep: int | None, steps: Steps = _UNPACED
) -> Gone:
    """Delete tasks that ended before the time and those beyond the number, in steps that let
    traffic through. For records of callers only the age counts."""
    gone = 0
    records: dict[str, int] = {}
    if before_ms is not None:
        for kind in AGING:
            records[kind] = await steps.all(partial(_delete_old, store, kind, agent, before_ms))
        gone = await steps.all(lambda size: store.prune(agent, limit=size, before_ms=before_ms))
    if keep is not None:
        excess = await store.count_ended(agent) - keep
        if excess > 0:
            gone += await steps.all(lambda size: store.prune(agent, limit=size), at_most=excess)
    return Gone(gone, records.get(ANSWER, 0))
