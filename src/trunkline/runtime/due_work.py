"""`DueWork`: hands every due record to the handler of its kind, and commits what that returns.

A record with a due time is a timer or an entry of an outbox. `DueWork` claims it for the time of
a lease, and commits the handler's changes against the version of the claim. After a crash in
between, the claim ends and the handler runs again; a handler that is still at work when another
claim was made cannot commit any more. So a handler runs at least once, and what it commits counts
exactly once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from heapq import heappop, heappush
from math import ceil
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.model.errors import RecordConflict, StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Defer, Delete, Put, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.due")

# How often the loop looks for due records when nothing wakes it.
TICK_S = 1.0
# Alarms within this time are one, so that the store is not asked for each of thousands.
ALARM_S = 0.01
# A handler that takes longer is ended, and the record is claimed again.
LEASE_S = 30.0
# The tag of a record whose handler has failed too often. It is not due any more.
DEAD = "dead"

# Returns the changes that the work leads to. A change of the record itself says what becomes of
# it; without one the record is deleted.
Handler: TypeAlias = Callable[[Record], Awaitable[Sequence[Change]]]
# Learns of the changes that the handler has returned for a record, once they are committed.
Committed: TypeAlias = Callable[[Record, Sequence[Change]], None]


class DueKind(Struct, frozen=True, kw_only=True):
    """One kind of due records and how to handle it."""

    name: str
    handle: Handler
    # How many records are handled at a time, each of another scope.
    workers: int = 4
    # After this many attempts the record becomes a dead letter, and its scope continues.
    max_attempts: int = 10
    committed: Committed | None = None


def retry_after_s(attempts: int) -> float:
    """How long to wait after that many failures: a second, then twice as long each time."""
    return float(min(2 ** min(attempts - 1, 9), 300))


class _Running(Struct, frozen=True):
    task: asyncio.Task[None]
    ends_at: float


class DueWork:
    def __init__(self, *, store: Store, clock: Clock, kinds: Sequence[DueKind] = ()) -> None:
        self._store = store
        self._clock = clock
        self._kinds = {kind.name: kind for kind in kinds}
        self._running: dict[str, set[_Running]] = {kind.name: set() for kind in kinds}
        self._tasks = BackgroundTasks("due work")
        self._woken = asyncio.Event()
        # When to look before the next tick, the earliest time first.
        self._alarms: list[float] = []
        self._alarm_times: set[float] = set()
        self._ringing: asyncio.Task[None] | None = None
        self._is_closing = False
        self._is_failing = False

    def start(self) -> None:
        if self._kinds:
            self._tasks.spawn(self._loop(), name="due work")
            self._tasks.spawn(self._tick(), name="due work: tick")

    def wake(self) -> None:
        """Look for due records at once, because one was just put."""
        self._woken.set()

    def wake_in(self, seconds: float) -> None:
        """Look for due records after this time, because one will be due then, and the next tick may
        be late for it."""
        at = ceil((self._clock.monotonic() + seconds) / ALARM_S) * ALARM_S
        if at in self._alarm_times:
            return
        self._alarm_times.add(at)
        heappush(self._alarms, at)
        if self._alarms[0] == at:
            if self._ringing is not None:
                self._ringing.cancel()
            self._ringing = self._tasks.start(self._ring(), name="due work: alarms")

    async def _ring(self) -> None:
        """Wake at each alarm."""
        while self._alarms:
            await self._clock.sleep(max(0.0, self._alarms[0] - self._clock.monotonic()))
            now = self._clock.monotonic()
            while self._alarms and self._alarms[0] <= now:
                self._alarm_times.discard(heappop(self._alarms))
            self.wake()

    async def close(self, *, grace_s: float = 1.0) -> None:
        """Claim nothing more, and let the handlers at work end within the grace."""
        self._is_closing = True
        at_work = [each.task for running in self._running.values() for each in running]
        if at_work:
            await asyncio.wait(at_work, timeout=grace_s)
        await self._tasks.close()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            now = self._clock.monotonic()
            for running in self._running.values():
                for each in running:
                    if each.ends_at <= now:
                        each.task.cancel("its lease has ended")
            self.wake()

    async def _loop(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._claim()
            except Exception as error:  # noqa: BLE001 - logged, and the next tick tries again
                # Once, and not every second, for a store that fails for long.
                if not self._is_failing:
                    # A store says what is wrong; only a bug needs the place in the code.
                    is_bug = not isinstance(error, StoreError)
                    _log.error(
                        "due work cannot be claimed",
                        exc_info=error if is_bug else None,
                        extra={"reason": str(error)},
                    )
                self._is_failing = True
            else:
                self._is_failing = False

    async def _claim(self) -> None:
        """Begin as much as there are free workers; each that ends wakes the loop again."""
        free = {name: kind.workers - len(self._running[name]) for name, kind in self._kinds.items()}
        shares = {name: count for name, count in free.items() if count}
        if self._is_closing or not shares:
            return
        # From before the claim, so that a handler never outlives the lease of the store.
        ends_at = self._clock.monotonic() + LEASE_S
        for record in await self._store.claim_due(shares, lease_ms=round(LEASE_S * 1000)):
            self._begin(self._kinds[record.key.kind], record, ends_at)

    def _begin(self, kind: DueKind, record: Record, ends_at: float) -> None:
        task = self._tasks.start(self._handle(kind, record), name=f"due {kind.name}")
        running = _Running(task, ends_at)
        self._running[kind.name].add(running)

        def ended(_: asyncio.Task[None]) -> None:
            self._running[kind.name].discard(running)
            self.wake()

        task.add_done_callback(ended)

    async def _handle(self, kind: DueKind, record: Record) -> None:
        told = kind.committed
        try:
            if record.attempts > kind.max_attempts:
                # No attempt came to an end: the handler hangs, or the process dies of it.
                changes: Sequence[Change] = [self._given_up(record, None)]
                told = None
            else:
                changes = await kind.handle(record)
        except Exception as error:  # noqa: BLE001 - a handler's failure is counted and logged
            changes, told = [self._after_failure(kind, record, error)], None
        try:
            await self._store.change(*settled(record, changes))
        except RecordConflict:
            await self._try_again(record)
        except StoreError as error:
            _log.error(
                "due work was not committed", extra={**_named(record), "reason": error.message}
            )
        else:
            if told is not None:
                told(record, changes)

    async def _try_again(self, record: Record) -> None:
        """Handle a record again whose handler met another state than it expected."""
        in_ms = round(retry_after_s(record.attempts) * 1000)
        try:
            await self._store.change(Defer(key=record.key, in_ms=in_ms, expected=record.version))
        except RecordConflict:
            # The record itself has changed, or another node has claimed it.
            _log.warning("due work came too late to count", extra=_named(record))
        except StoreError:
            """The lease ends by itself."""

    def _after_failure(self, kind: DueKind, record: Record, error: Exception) -> Change:
        if record.attempts >= kind.max_attempts:
            return self._given_up(record, error)
        delay_s = retry_after_s(record.attempts)
        _log.warning(
            "due work failed", exc_info=error, extra={**_named(record), "retry_in_s": delay_s}
        )
        return Defer(key=record.key, in_ms=round(delay_s * 1000), expected=record.version)

    def _given_up(self, record: Record, error: Exception | None) -> Change:
        _log.error("due work is given up", exc_info=error, extra=_named(record))
        return Put(key=record.key, body=record.body, tags=(*record.tags, DEAD))


def settled(record: Record, changes: Sequence[Change]) -> list[Change]:
    """The changes of a handler, bound to the version that was claimed."""
    bound: list[Change] = []
    is_settled = False
    for change in changes:
        if change.key == record.key and not isinstance(change, Add):
            change = replace(change, expected=record.version)
            is_settled = True
        bound.append(change)
    if not is_settled:
        bound.append(Delete(key=record.key, expected=record.version))
    return bound


def _named(record: Record) -> dict[str, object]:
    key = record.key
    return {
        "kind": key.kind,
        "scope": key.scope,
        "record": key.id,
        "attempts": record.attempts,
    }
