"""`Journal`: commits the events of tasks, then publishes them. Nothing else changes a task.

`record` numbers an event and returns at once. All events recorded until the end of the event loop's
next pass go to the store together, and readers see them once the store has committed them. So an
agent never waits for the disk, and no reader sees an event that a crash could undo.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import Protocol

from msgspec import Struct, field

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import (
    GatewayBug,
    LeaseLost,
    LimitReached,
    StoreError,
    StoreUnusable,
    TooManyRequests,
    TrunklineError,
    Unavailable,
    Unstorable,
)
from trunkline.model.events import Entry, Event
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import SETTLED, Part, TaskState
from trunkline.ports.clock import Ids
from trunkline.ports.records import Committed, Group
from trunkline.ports.store import Append, Result, Settled, Snapshot, Store
from trunkline.runtime.commit_waits import CommitWaits, Second
from trunkline.runtime.fanout import NoReply, state_of
from trunkline.runtime.large_append_turns import LARGE_APPEND_BYTES, LargeAppendTurns
from trunkline.runtime.large_values import slim
from trunkline.runtime.live_task import Durable, LiveTask
from trunkline.runtime.participants import Tap, enlisted, tell_committed

_log = logging.getLogger("trunkline.journal")


class CommitObserver(Protocol):
    """Learns whether the store committed or refused the entries of a task."""

    def settled(self, live: LiveTask) -> None:
        """A state without a running turn is committed, or the task has nothing left to store."""

    def limited(self, live: LiveTask, error: LimitReached) -> bool:
        """The store refused a new task because of a limit. True when it is recorded again, as one
        that says so."""

    def refused(self, live: LiveTask, error: StoreError) -> None:
        """The store refused, and the task is back at its committed state."""


class Journal(Struct, kw_only=True, eq=False, dict=True):
    store: Store
    ids: Ids
    observer: CommitObserver
    # Called with each task and its entries right after their commit.
    taps: tuple[Tap, ...] = ()
    # Whether the store has accepted nothing since its last failure.
    is_refusing: bool = False
    # The number of entries committed since the start, for the metrics.
    committed_entries: int = 0
    # Appends that the store refused because another node owns the lane.
    fenced_appends: int = 0
    _dirty: list[LiveTask] = []
    large_turns: LargeAppendTurns = field(default_factory=LargeAppendTurns)
    commit_waits: CommitWaits = field(default_factory=CommitWaits)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        # Kept, because asking for the running loop takes a system call.
        return asyncio.get_running_loop()

    def record(self, live: LiveTask, event: Event, *, state: TaskState, status_ms: int) -> Entry:
        # Before any change to the task, because encoding raises for output that is not JSON.
        entry = Entry.of(live.seq + 1, event)
        live.seq = entry.seq
        live.unflushed.append(entry)
        live.recorded_bytes += len(entry.body)
        live.state = state
        live.status_ms = status_ms
        if not live.is_dirty:
            # The same as in `hold_back`, without a call, because this runs for every event.
            live.is_dirty = True
            if not self._dirty:
                self._loop.call_soon(self._flush_soon)
            self._dirty.append(live)
        return entry

    def record_first(self, live: LiveTask, entry: Entry, *, status_ms: int) -> None:
        """Record the first entry of a task with the bytes that another gateway has written."""
        live.seq = entry.seq
        live.unflushed.append(entry)
        live.recorded_bytes += len(entry.body)
        live.status_ms = status_ms
        self.hold_back(live, list)

    def hold_back(self, live: LiveTask, events: Callable[[], list[Event]]) -> None:
        """Flush the task with the next pass, and ask `events` for more to record then."""
        live.held_back = events
        if not live.is_dirty:
            live.is_dirty = True
            if not self._dirty:
                self._loop.call_soon(self._flush_soon)
            self._dirty.append(live)

    def attach(self, live: LiveTask, group: Group) -> None:
        """Change records in the same commit as the next append of the task."""
        live.also += (group,)

    def slim(self, live: LiveTask, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts to record, with references in place of large texts, which the store keeps
        apart."""
        if not self.store.keeps_large_values:
            return parts
        known = live.in_flight_values + live.values
        parts, new = slim(parts, known, self.ids.new)
        live.values += new
        return parts

    def amend(self, live: LiveTask, event: Event) -> None:
        """Replace the last recorded event, which must not be on its way to the store."""
        entry = Entry.of(live.seq, event)
        live.recorded_bytes += len(entry.body) - len(live.unflushed[-1].body)
        live.unflushed[-1] = entry

    def once_durable(self, live: LiveTask, callback: Durable, *, seq: int = 0) -> None:
        """Call `callback` once: right after the commit of entry `seq`, or with the error when the
        store refuses it. 0 means the last recorded entry."""
        live.once_durable.append((seq or live.seq, callback))

    def settled(self, live: LiveTask) -> asyncio.Future[None]:
        """A future that is done once a state without a running turn is committed.

        The state includes every entry recorded before this call.
        """
        waiter: asyncio.Future[None] = self._loop.create_future()
        is_clean = not live.unflushed and not live.in_flight
        if live.is_dropped:
            waiter.set_exception(not_stored())
        elif is_clean and live.exists and live.state in SETTLED:
            waiter.set_result(None)
        else:
            live.waiters.append((live.seq, waiter))
        return waiter

    async def durable(self, live: LiveTask) -> None:
        """Wait for the commit of everything recorded so far."""
        if live.is_dropped:
            raise not_stored()
        if live.unflushed or live.in_flight:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self.once_durable(live, partial(_wake, waiter))
            await waiter

    def _flush_soon(self) -> None:
        """Flush after the next pass, so that the first output of a turn that starts now goes to the
        store in the same append. Tasks that become dirty from here on wait for a pass of their
        own."""
        dirty, self._dirty = self._dirty, []
        self._loop.call_soon(self._flush, dirty)

    def _flush(self, dirty: list[LiveTask]) -> None:
        appends: list[tuple[Append, Settled]] = []
        for live in dirty:
            # A task that was refused meanwhile has nothing to store.
            if live.is_dirty:
                try:
                    if live.held_back is not None:
                        self._record_held_back(live)
                    turns = self.large_turns
                    if live.recorded_bytes > LARGE_APPEND_BYTES and turns.must_wait(live):
                        turns.waiting.append(live)
                        continue
                    append = self._append(live)
                    if append is not None:
                        appends.append(append)
                except Exception as cause:  # noqa: BLE001 - goes to the log
                    self._refuse_unmade(live, cause)
        if appends:
            self.commit_waits.second.unsettled += len(appends)
            self.store.submit(appends)

    def _record_held_back(self, live: LiveTask) -> None:
        held_back, live.held_back = live.held_back, None
        assert held_back is not None
        for event in held_back():
            self.record(live, event, state=live.state, status_ms=live.status_ms)

    def _flush_large(self) -> None:
        turns = self.large_turns
        # A task that was refused while it waited has nothing to store.
        while turns.waiting and turns.holder is None:
            self._flush([turns.waiting.popleft()])

    def _settle_large(self, live: LiveTask, append: Append) -> None:
        live.in_flight_values = live.in_flight_values[len(append.values) :]
        if self.large_turns.holder is live and not live.in_flight and not live.is_dirty:
            self._end_large_turn()

    def _end_large_turn(self) -> None:
        # Before the agents that wait are woken: one of them could take the turn for a task that is
        # among those to flush, and would wait for itself.
        if self.large_turns.waiting:
            self._loop.call_soon(self._flush_large)
        self.large_turns.end()

    def _append(self, live: LiveTask) -> tuple[Append, Settled] | None:
        entries = tuple(live.unflushed)
        if not entries:
            # The flush was scheduled for a held-back text that has been dropped since.
            live.is_dirty = False
            if self.large_turns.holder is live and not live.in_flight:
                self._end_large_turn()
            self.observer.settled(live)
            return None
        fold: TaskFold | None = None
        snapshot: Snapshot | None = None
        size = live.recorded_bytes - live.flushed_bytes
        if live.state in SETTLED:
            fold = live.ahead()
            if fold.has_grown and self.store.keeps_large_values:
                fold.slim(partial(self.slim, live))
            snapshot = fold.snapshot()
            size += len(snapshot.task) + len(snapshot.artifacts)
        lease = live.lease
        if lease is None:
            raise GatewayBug(f"task {live.task_id} is written to without a lease")
        append = Append(
            task_id=live.task_id,
            expected_seq=entries[0].seq - 1,
            lane=lease.lane,
            epoch=lease.epoch,
            entries=entries,
            state=live.state,
            status_ms=live.status_ms,
            creation=live.creation,
            snapshot=snapshot,
            values=live.values,
            also=live.also if not live.participants else enlisted(live, entries),
            counted_bytes=size,
        )
        # Nothing beyond this point can fail: an append is made as a whole, or not at all.
        live.creation = None
        live.also = ()
        live.in_flight.extend(entries)
        live.flushed_bytes = live.recorded_bytes
        live.unflushed.clear()
        if append.values:
            live.in_flight_values += append.values
            live.values = ()
        live.is_dirty = False
        return append, partial(
            self._settle,
            self.commit_waits.second,
            live,
            live.generation,
            append,
            fold,
            live.flushed_bytes,
        )

    def _settle(
        self,
        second: Second,
        live: LiveTask,
        generation: int,
        append: Append,
        fold: TaskFold | None,
        flushed_bytes: int,
        result: Result,
    ) -> None:
        second.unsettled -= 1
        if generation != live.generation:
            # The store refused an earlier append of the task, which voids this one as well.
            return
        entries = append.entries
        if result is not None and not self._is_committed(live, result):
            return
        self.is_refusing = False
        live.commit(entries, append.state, fold, append.snapshot)
        del live.in_flight[: len(entries)]
        live.committed_bytes = flushed_bytes
        if append.values or self.large_turns.holder is live:
            self._settle_large(live, append)
        self.committed_entries += len(entries)
        # From here to the end there is no await: a reader that attaches sees either this
        # commit in its snapshot or the entries on its stream, never both or neither.
        if live.subscriptions:
            live.publish(entries)
        if live.once_durable:
            self._run_once_durable(live)
        if live.participants or self.taps:
            tell_committed(live, self.taps, append, result)
        if append.state in SETTLED:
            if live.waiters:
                seq = live.committed_seq
                waiting, live.waiters = live.waiters, []
                for wanted, waiter in waiting:
                    if wanted > seq:
                        live.waiters.append((wanted, waiter))
                    elif not waiter.done():
                        waiter.set_result(None)
            self.observer.settled(live)

    def _is_committed(self, live: LiveTask, result: StoreError | Committed) -> bool:
        if isinstance(result, StoreError):
            self._settle_refused(live, result)
            return False
        if result.epoch and live.lease is not None:
            live.lease.epoch = result.epoch
        return True

    def follow(self, live: LiveTask, entries: tuple[Entry, ...]) -> None:
        """Publish entries that another node has committed."""
        state = live.state
        for entry in entries:
            state = state_of(entry) or state
        live.commit(entries, state, None, None)
        live.seq, live.state = live.committed_seq, state
        live.publish(entries)
        if live.once_durable:
            self._run_once_durable(live)
        if state in SETTLED:
            self.answer_waiters(live)
            self.observer.settled(live)

    def fence(self, live: LiveTask) -> None:
        """Give up a task of a lane that another node has taken."""
        self._refuse(live, LeaseLost(f"Another node works on task {live.task_id}"))

    def _settle_refused(self, live: LiveTask, error: StoreError) -> None:
        is_unusable = isinstance(error, StoreUnusable)
        self.fenced_appends += isinstance(error, LeaseLost)
        # A full disk is logged once, and not for every task that runs into it.
        if not (is_unusable and self.is_refusing) and not isinstance(error, LimitReached):
            _log.error(
                "the store refused a commit",
                extra={"task_id": live.task_id, "reason": error.message},
            )
        self.is_refusing = is_unusable
        is_new = live.admitted is not None and not live.exists
        if isinstance(error, LimitReached) and is_new and self.observer.limited(live, error):
            return
        self._refuse(live, error)

    def begin_again(self, live: LiveTask) -> None:
        """Forget what was recorded of a task that the store has refused to create. Those that wait
        for its commit wait for that of its next first entry."""
        self._forget_recorded(live)
        live.held_back = None
        live.once_durable = [(1, callback) for _, callback in live.once_durable]
        live.waiters = [(1, waiter) for _, waiter in live.waiters]
        for reader in live.subscriptions:
            reader.begin_again()

    def _run_once_durable(self, live: LiveTask) -> None:
        seq = live.committed_seq
        due, live.once_durable = live.once_durable, []
        if due[-1][0] > seq:
            live.once_durable = [item for item in due if item[0] > seq]
            due = [item for item in due if item[0] <= seq]
        self._call_back(live, due, None)

    def _call_back(
        self, live: LiveTask, due: list[tuple[int, Durable]], error: TrunklineError | None
    ) -> None:
        """Call each callback. A callback that raises is logged, and the others are still called."""
        for _, callback in due:
            try:
                callback(error)
            except Exception:  # noqa: BLE001 - logged, and the others are told
                _log.exception("a callback failed", extra={"task_id": live.task_id})

    def answer_waiters(self, live: LiveTask, error: TrunklineError | None = None) -> None:
        """Answer the requests that wait for the task to settle: with the task as it is, or
        with the error."""
        waiting, live.waiters = live.waiters, []
        for _, waiter in waiting:
            _wake(waiter, error)

    def _refuse_unmade(self, live: LiveTask, cause: Exception) -> None:
        """Refuse a task whose entries cannot be made into an append. The task stays dirty until
        then, so that nothing more of it goes to the store."""
        _log.error("a commit could not be made", exc_info=cause, extra={"task_id": live.task_id})
        generation = live.generation

        def refuse() -> None:
            if generation == live.generation:
                self._refuse(live, Unstorable("what was recorded cannot be stored"))

        def refuse_soon(_: TrunklineError | None) -> None:
            self._loop.call_soon(refuse)

        if live.in_flight:
            # The entries in flight may still be committed, and then they count.
            live.once_durable.append((live.in_flight[-1].seq, refuse_soon))
        else:
            refuse_soon(None)

    def _refuse(self, live: LiveTask, error: StoreError) -> None:
        """Return the task to its committed state, and fail everything that waits for its commit."""
        self._forget_recorded(live)
        # Events that cannot be stored may not fold either, so such a task is loaded again.
        is_sound = live.exists and not isinstance(error, Unstorable)
        if is_sound and (timestamp := live.committed().status.timestamp):
            live.status_ms = parse_timestamp(timestamp)
        refusal: TrunklineError = not_stored()
        if live.admitted is not None and live.admitted.refusal is not None and not live.exists:
            refusal = live.admitted.refusal.as_error()
        callbacks, live.once_durable = live.once_durable, []
        self._call_back(live, callbacks, refusal)
        self.answer_waiters(live, refusal)
        for reader in list(live.subscriptions):
            if isinstance(refusal, TooManyRequests):
                reader.finish(NoReply(refusal))
            else:
                reader.stop("the store is unavailable", live.committed_seq)
        self.observer.refused(live, error)

    def _forget_recorded(self, live: LiveTask) -> None:
        """Return the task to its committed state."""
        live.generation += 1
        live.unflushed.clear()
        live.in_flight.clear()
        live.recorded_bytes = live.flushed_bytes = live.committed_bytes
        live.values = live.in_flight_values = ()
        live.also = ()
        live.is_dirty = False
        if self.large_turns.holder is live:
            self._end_large_turn()
        live.seq = live.committed_seq
        live.state = live.committed_state


def _wake(waiter: "asyncio.Future[None]", error: TrunklineError | None = None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)


def not_stored() -> Unavailable:
    return Unavailable("The task could not be stored; try again", retry_after_s=5)
