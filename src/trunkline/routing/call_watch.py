"""`CallWatch`: the participant that ends a call in the commit that ends the task of the called
agent."""

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from msgspec import Struct

from trunkline.engine.call_outcome import outcome_of
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK_TEXT
from trunkline.model.values import SETTLED, Artifact, Part, TaskState, TaskStatus
from trunkline.ports.clock import Clock
from trunkline.ports.records import Delete, Group, Record
from trunkline.routing.call_records import (
    CallEnd,
    RoutedCall,
    put_end,
    put_pending,
    read_call_body,
)
from trunkline.routing.delivery import ends_with_outcome
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.participants import NEW, Participant

_log = logging.getLogger("trunkline.routing")


class OnEnded(Protocol):
    """Learns of every call that a commit of this node has ended, and must not wait."""

    def __call__(
        self, call: RoutedCall, outcome: CallOutcome | None, *, is_late: bool, took_s: float
    ) -> None:
        """`outcome` is None where an end is on its way. `is_late`: another end was first. `took_s`:
        since the called agent was done."""
        ...


class CallWatches(Struct, frozen=True, kw_only=True, eq=False):
    """Makes the watches of the calls whose tasks are in one store."""

    main: MainStore
    clock: Clock
    on_ended: OnEnded
    # Tells entries of the same millisecond apart.
    next_number: Callable[[], int]

    def rejoin(self, live: LiveTask, records: Sequence[Record]) -> Participant:
        """The participant of the record of a watch. A task that asked a question has one for each
        call; the last one is that of the turn under way."""
        record = records[-1]
        return CallWatch(self, read_call_body(record.body), record)


def numbers() -> Callable[[], int]:
    counter = count()
    return lambda: next(counter)


class CallWatch:
    def __init__(self, watches: CallWatches, call: RoutedCall, record: Record) -> None:
        self._watches = watches
        self._call = call
        self._record = record
        # Whether the store has the call.
        self._is_stored = record.version != NEW
        # Whether the store is about to have it.
        self._is_enlisted = self._is_stored
        self._generation: int | None = None
        # What the commit that ends the call carries.
        self._ending: Group | None = None
        self._outcome: CallOutcome | None = None
        # When the called agent was done, by the monotonic clock.
        self._settled_s = 0.0

    def enlist(
        self, live: LiveTask, entries: tuple[Entry, ...], state: TaskState
    ) -> Sequence[Group]:
        if live.generation != self._generation:
            # What was enlisted before, if anything, was refused with its append.
            if self._is_enlisted and not self._is_stored:
                self._leave(live)
                return ()
            self._generation, self._ending, self._outcome = live.generation, None, None
        is_new, self._is_enlisted = not self._is_enlisted, True
        if state in SETTLED and self._ending is None:
            groups = self._ends(live, is_new=is_new)
            if groups:
                return groups
        if not is_new:
            return ()
        pending = put_pending(self._call, live.task_id)
        return (Group(self._watches.main.changes(self._call.id, pending)),)

    def _ends(self, live: LiveTask, *, is_new: bool) -> tuple[Group, ...]:
        fold = live.ahead()
        earlier = {artifact.artifact_id for artifact in fold.earlier_artifacts}
        made = [each for each in fold.artifacts if each.artifact_id not in earlier]
        outcome = None if _has_large_text(fold.status, made) else outcome_of(fold.status, made)
        if outcome is not None and outcome.is_crash and self._call.on_crash == "wait_for_timeout":
            return ()
        watches, call, task_id = self._watches, self._call, live.task_id
        self._settled_s = watches.clock.monotonic()
        if outcome is not None and watches.main.has_tasks:
            ended = ends_with_outcome(
                call,
                task_id,
                outcome,
                at_ms=watches.clock.now_ms(),
                number=watches.next_number(),
                expected=0 if is_new else 1,
            )
            self._outcome = outcome
            self._ending = Group(ended.changes, is_required=is_new)
            return (self._ending, self._forgets()) if not is_new else (self._ending,)
        end = put_end(CallEnd(call, task_id, watches.clock.now_ms(), outcome))
        self._ending = Group(watches.main.changes(call.id, end), is_required=is_new)
        if not is_new:
            return (self._ending, self._forgets())
        pending = watches.main.changes(call.id, put_pending(call, task_id))
        return (Group(pending), self._ending)

    def _forgets(self) -> Group:
        """The record of the watch has no more use."""
        return Group((Delete(key=self._record.key),), is_required=False)

    def committed(
        self,
        live: LiveTask,
        entries: tuple[Entry, ...],
        state: TaskState,
        skipped: Sequence[Group],
    ) -> None:
        self._is_stored = True
        if self._ending is None or state not in SETTLED:
            return
        self._leave(live)
        is_late = any(group is self._ending for group in skipped)
        took_s = self._watches.clock.monotonic() - self._settled_s
        self._watches.on_ended(self._call, self._outcome, is_late=is_late, took_s=took_s)

    def _leave(self, live: LiveTask) -> None:
        live.participants = tuple([each for each in live.participants if each is not self])


def _has_large_text(status: TaskStatus, artifacts: Sequence[Artifact]) -> bool:
    """Whether a text was put into the store apart, so that it must be read from there."""
    said = () if status.message is None else status.message.parts
    parts: list[Part] = [*said]
    for artifact in artifacts:
        parts += artifact.parts
    return any(part.text is not None and MARK_TEXT in part.text for part in parts)
