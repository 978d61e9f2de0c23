"""`CallEnds`: the due work of calls: timeouts, ends that one commit could not make, and the end of
their records."""

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from trunkline.model.call_outcomes import CallOutcome
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.routing.call_news import CallNews
from trunkline.routing.call_records import (
    CALL,
    END,
    PENDING_TAG,
    CallRecord,
    CallState,
    RoutedCall,
    call_key,
    decode_end,
    decode_record,
)
from trunkline.routing.delivery import discards, ends_with_outcome, ends_with_timeout
from trunkline.runtime.due_work import Committed, DueKind, Handler

_log = logging.getLogger("trunkline.routing")

# Calls that were made at once time out at once, and each handler only makes one change.
_WORKERS: Final = 256
_PAGE: Final = 200


class CallEnds(Struct, frozen=True, kw_only=True, eq=False):
    open_main: Callable[[], Awaitable[Store]]
    clock: Clock
    next_number: Callable[[], int]
    # Reads the outcome of a call from the task of the called agent; None where that is gone.
    outcome_from_task: Callable[[RoutedCall, str], Awaitable[CallOutcome | None]]
    # When the session of a call was ended last; 0 if it never was.
    session_ended_ms: Callable[[RoutedCall], Awaitable[int]]
    news: CallNews
    wake_in: Callable[[float], None]

    def due_kinds(self) -> tuple[DueKind, ...]:
        return (
            self._kind(CALL, self._time_out, self._timed_out),
            self._kind(END, self._end, self._ended),
        )

    def _kind(self, name: str, handle: Handler, committed: Committed) -> DueKind:
        # Every call ends, however often a process dies of it or a store is unusable.
        return DueKind(
            name=name,
            handle=handle,
            workers=_WORKERS,
            max_attempts=sys.maxsize,
            committed=committed,
        )

    async def arm(self) -> None:
        """Have each pending call timed out in time, after a start. Raises StoreError."""
        main = await self.open_main()
        after: Key | None = None
        while page := await main.records(CALL, tag=PENDING_TAG, after=after, limit=_PAGE):
            now_ms = self.clock.now_ms()
            for record in page:
                self.wake_in(max(0, (record.due_ms or 0) - now_ms) / 1000)
            after = page[-1].key

    async def _time_out(self, due: Record) -> Sequence[Change]:
        record = decode_record(due.body)
        if record.state != "pending":
            # Its outcome was kept for as long as was promised.
            return ()
        return await self._ends(record, None, due.version)

    def _timed_out(self, due: Record, changes: Sequence[Change]) -> None:
        state = _state_in(changes)
        if state is not None:
            call = decode_record(due.body).call
            late_ms = self.clock.now_ms() - call.begun_ms - call.timeout_ms
            self.news.counts.timeout_error.observe(abs(late_ms) / 1000)
            self.news.ended(call, state)

    async def _end(self, due: Record) -> Sequence[Change]:
        end = decode_end(due.body)
        main = await self.open_main()
        stored = await main.record(call_key(end.call.id))
        record = None if stored is None else decode_record(stored.body)
        if stored is None or record is None or record.state != "pending":
            self.news.late()
            return ()
        outcome = end.outcome or await self.outcome_from_task(end.call, end.task_id)
        if outcome is None:
            outcome = CallOutcome("error", code="task_gone", text="The task is not kept any more.")
        if outcome.is_crash and end.call.on_crash == "wait_for_timeout":
            return ()
        return await self._ends(record, outcome, stored.version)

    def _ended(self, due: Record, changes: Sequence[Change]) -> None:
        state = _state_in(changes)
        if state is not None:
            end = decode_end(due.body)
            took_s = max(0, self.clock.now_ms() - end.settled_ms) / 1000
            self.news.ended(end.call, state, took_s=took_s)

    async def _ends(
        self, record: CallRecord, outcome: CallOutcome | None, version: int
    ) -> Sequence[Change]:
        """The changes that end a pending call: with the outcome, or with its timeout."""
        call, task_id = record.call, record.task_id
        at_ms = self.clock.now_ms()
        # A call on its way to the main store is not seen when its session is ended.
        if record.is_from_elsewhere and await self.session_ended_ms(call) > call.begun_ms:
            return (discards(call, task_id, at_ms=at_ms, expected=version),)
        number = self.next_number()
        if outcome is None:
            ended = ends_with_timeout(call, task_id, at_ms=at_ms, number=number, expected=version)
        else:
            ended = ends_with_outcome(
                call, task_id, outcome, at_ms=at_ms, number=number, expected=version
            )
        return ended.changes


def _state_in(changes: Sequence[Change]) -> CallState | None:
    """How the changes end a call; None if they do not."""
    for change in changes:
        if isinstance(change, Put) and change.key.kind == CALL:
            return decode_record(change.body).state
    return None
