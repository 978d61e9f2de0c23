"""`CallEnds`: the due work of calls: timeouts, ends that one commit could not make, and the end of
their records."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from trunkline.model.call_outcomes import CallOutcome
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Record
from trunkline.ports.store import Store
from trunkline.routing.call_records import (
    CALL,
    END,
    PENDING_TAG,
    RoutedCall,
    call_key,
    decode_end,
    decode_record,
)
from trunkline.routing.call_watch import OnEnded
from trunkline.routing.counts import CallCounts
from trunkline.routing.delivery import ends_with_outcome, ends_with_timeout
from trunkline.runtime.due_work import DueKind

_log = logging.getLogger("trunkline.routing")

_WORKERS: Final = 32
_PAGE: Final = 200


class CallEnds(Struct, frozen=True, kw_only=True, eq=False):
    open_main: Callable[[], Awaitable[Store]]
    clock: Clock
    next_number: Callable[[], int]
    # Reads the outcome of a call from the task of the called agent; None where that is gone.
    outcome_from_task: Callable[[RoutedCall, str], Awaitable[CallOutcome | None]]
    counts: CallCounts
    on_ended: OnEnded
    wake_in: Callable[[float], None]

    def due_kinds(self) -> tuple[DueKind, ...]:
        return (
            DueKind(name=CALL, handle=self._time_out, workers=_WORKERS),
            DueKind(name=END, handle=self._end, workers=_WORKERS),
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
        ended = ends_with_timeout(
            record.call,
            record.task_id,
            at_ms=self.clock.now_ms(),
            number=self.next_number(),
            expected=due.version,
        )
        self.counts.ended["timeout"] += 1
        late_ms = self.clock.now_ms() - record.call.begun_ms - record.call.timeout_ms
        self.counts.timeout_error.observe(abs(late_ms) / 1000)
        return ended.changes

    async def _end(self, due: Record) -> Sequence[Change]:
        end = decode_end(due.body)
        main = await self.open_main()
        stored = await main.record(call_key(end.call.id))
        if stored is None or decode_record(stored.body).state != "pending":
            return ()
        outcome = end.outcome or await self.outcome_from_task(end.call, end.task_id)
        if outcome is None:
            outcome = CallOutcome("error", code="task_gone", text="The task is not kept any more.")
        ended = ends_with_outcome(
            end.call,
            end.task_id,
            outcome,
            at_ms=self.clock.now_ms(),
            number=self.next_number(),
            expected=stored.version,
        )
        took_s = max(0, self.clock.now_ms() - end.settled_ms) / 1000
        self.on_ended(end.call, outcome, is_late=False, took_s=took_s)
        return ended.changes
