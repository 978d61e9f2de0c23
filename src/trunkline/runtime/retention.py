"""`prune` deletes ended tasks by age, by number or both, and records of callers by age; `Retention`
does it for each agent as its profile says.

An agent that forgets has one record of due work, so that of several nodes one sweeps it, and the
sweep continues after a restart.
"""

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from trunkline.engine.retention import ClockTrust, Pacing
from trunkline.model.errors import RecordConflict
from trunkline.model.profile import Profile
from trunkline.model.values import TERMINAL
from trunkline.ports.caller_records import AGING, ANSWER, ENTRY
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store, StoredTask
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.outbox import MainStore

_log = logging.getLogger("trunkline.retention")

RETENTION = "retention.1"
SWEEP_EVERY_S = 60.0
# A sweep that takes longer continues as new due work, behind the other agents: it must end well
# before its lease does.
SLICE_S = 10.0
# How long the clock must have been steady before anything is deleted by age: a time server corrects
# a wrong clock within minutes of a start. An agent that keeps its tasks for less than this waits
# only as long as it keeps them.
STEADY_CLOCK_S = 3600.0

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
    """Repeats a step until nothing is left to do, or its time is over."""

    is_over = False

    async def all(self, step: Step, *, at_most: int | None = None) -> int:
        done = 0
        while not self.is_over and (at_most is None or done < at_most):
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

    def __init__(self, clock: Clock, committed: Callable[[], int], *, for_s: float) -> None:
        """`committed` returns the number of entries committed so far."""
        self._clock = clock
        self._ends_at = clock.monotonic() + for_s
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
            self.is_over = self._clock.monotonic() >= self._ends_at
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


class Retention(Struct, kw_only=True, eq=False):
    """Sweeps the agents that keep their ended tasks for a time, or a number of them."""

    store: Store
    clock: Clock
    trust: ClockTrust
    agents: Mapping[str, PublishedAgent]
    # Returns the number of entries committed so far.
    committed: Callable[[], int]
    # The way to the main store, which has the entries of sessions.
    main: MainStore
    # Agents whose record is due in time.
    _scheduled: set[str] = set()

    def due_kind(self) -> DueKind:
        # One at a time, because the pace is that of the whole gateway. A store that refuses for
        # long must not end retention for ever.
        return DueKind(name=RETENTION, handle=self._handle, workers=1, max_attempts=sys.maxsize)

    async def look_at_clock(self) -> None:
        """Notice a jump of the clock, and schedule the agents that are new. Raises StoreError."""
        jump_s = self.trust.observe(now_ms=self.clock.now_ms(), monotonic_s=self.clock.monotonic())
        if jump_s:
            _log.warning(
                "the system clock jumped; nothing is pruned by age until it has been steady",
                extra={"jump_s": round(jump_s), "steady_s": STEADY_CLOCK_S},
            )
            # When the clock was set back, the due times are far away.
            self._scheduled.clear()
        for handle, agent in list(self.agents.items()):
            if handle not in self._scheduled and forgets(agent.profile):
                await self._schedule(Key(RETENTION, handle, ""))
                self._scheduled.add(handle)

    async def _schedule(self, key: Key) -> None:
        """Have the record due within the time between two sweeps."""
        found = await self.store.record(key)
        soon_ms = round(SWEEP_EVERY_S * 1000)
        due_ms = None if found is None else found.due_ms
        if due_ms is not None and due_ms <= self.clock.now_ms() + soon_ms:
            return
        # A conflict means that another node has just scheduled or claimed it.
        with suppress(RecordConflict):
            await self.store.change(
                Put(key=key, due_in_ms=soon_ms, expected=0 if found is None else found.version)
            )

    async def _handle(self, record: Record) -> Sequence[Change]:
        agent = self.agents.get(record.key.scope)
        if agent is not None and not forgets(agent.profile):
            self._scheduled.discard(agent.handle)
            return ()
        # An agent that is not published here may be so at another node, or later.
        is_done = True if agent is None else await self.sweep(agent)
        due_in_ms = 0
        if is_done:
            # At another part of a second each time, so that of the nodes, which look for due work
            # once a second, not always the same is the first.
            due_in_ms = round(SWEEP_EVERY_S * 1000) + self.clock.now_ms() % 997
        return (Put(key=record.key, due_in_ms=due_in_ms),)

    async def sweep(self, agent: PublishedAgent) -> bool:
        """Delete what the agent keeps no longer. Returns whether that was all of it."""
        await self.look_at_clock()
        steps = PacedSteps(self.clock, self.committed, for_s=SLICE_S)
        gone = await prune(
            self.store,
            agent.handle,
            before_ms=self._forgets_before(agent.profile),
            keep=agent.profile.retention_max_tasks or None,
            steps=steps,
        )
        await self._forget_entries(agent, steps)
        if gone.tasks:
            _log.info("pruned ended tasks", extra={"agent": agent.handle, "count": gone.tasks})
        return not steps.is_over

    async def _forget_entries(self, agent: PublishedAgent, steps: Steps) -> None:
        """Delete old entries of the sessions of an agent whose tasks are in another store."""
        before_ms = self._forgets_before(agent.profile)
        if before_ms is None or self.main.has_tasks or not agent.calls_others:
            return
        main = await self.main.open()
        await steps.all(partial(_delete_old, main, ENTRY, agent.handle, before_ms))

    def is_expired(self, stored: StoredTask) -> bool:
        """Whether callers do not find the task any more. A sweep deletes it later, once the clock
        can be trusted: a wrong clock must not delete, and what it hides comes back."""
        agent = self.agents.get(stored.scope.agent)
        if agent is None or not agent.profile.retention_s or stored.state not in TERMINAL:
            return False
        age_ms = self.clock.now_ms() - stored.status_ms
        return age_ms > agent.profile.retention_s * 1000

    def _forgets_before(self, profile: Profile) -> int | None:
        keeps_s = profile.retention_s
        if not keeps_s or self.trust.steady_s < min(keeps_s, STEADY_CLOCK_S):
            return None
        return self.clock.now_ms() - int(keeps_s * 1000)
