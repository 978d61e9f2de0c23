"""`CallWatch`: the participant that makes a call in the commit that accepts its message, and that
ends the call in the commit that ends its turn."""

from collections.abc import Callable, Sequence
from itertools import count

from msgspec import Struct

from trunkline.engine.call_outcome import outcome_of_turn
from trunkline.engine.turn_ends import TurnEnd, awaits_turn, end_of_turn
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK_TEXT, is_large
from trunkline.model.values import Part, TaskState
from trunkline.ports.clock import Clock
from trunkline.ports.records import Group, Record
from trunkline.routing.call_news import CallNews
from trunkline.routing.call_records import (
    CallEnd,
    RoutedCall,
    put_end,
    put_pending,
    read_call_body,
)
from trunkline.routing.delivery import ends_with_outcome
from trunkline.runtime.fanout import state_of
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.participants import NEW

# The version of the record of a call from its first commit to its end.
_PENDING = 1


class CallWatches(Struct, frozen=True, kw_only=True, eq=False):
    """Makes the watches of the calls whose tasks are in one store."""

    main: MainStore
    clock: Clock
    news: CallNews
    # Tells entries of the same millisecond apart.
    next_number: Callable[[], int]

    def rejoin(self, live: LiveTask, records: Sequence[Record]) -> Sequence["CallWatch"]:
        """The participants of calls that have not ended, of all that the task has answered."""
        watches: list[CallWatch] = []
        for record in records:
            call, is_new = read_call_body(record.body), record.version == NEW
            # The record of a call that expects no answer only says who has asked.
            if call.timeout_ms and (is_new or awaits_turn(live.committed(), call.id)):
                watches.append(CallWatch(self, call, live.generation, is_stored=not is_new))
        return watches


def numbers() -> Callable[[], int]:
    counter = count()
    return lambda: next(counter)


class _End(Struct, frozen=True, eq=False):
    """What the commit of the end of the turn carries."""

    entries: tuple[Entry, ...]
    # None for a crash of which the caller only learns by its timeout.
    group: Group | None = None
    # None where the end is on its way.
    outcome: CallOutcome | None = None
    # When the called agent was done, by the monotonic clock.
    done_s: float = 0.0


class CallWatch:
    """An append that was enlisted may still be refused, so nothing counts before its commit. Each
    is known by its entries."""

    def __init__(
        self, watches: CallWatches, call: RoutedCall, generation: int, *, is_stored: bool
    ) -> None:
        self._watches = watches
        self._call = call
        self._generation = generation
        # Whether the store has the call.
        self._is_stored = is_stored
        # The entries whose commit makes the call.
        self._makes: tuple[Entry, ...] | None = None
        self._end: _End | None = None

    def enlist(
        self, live: LiveTask, entries: tuple[Entry, ...], state: TaskState
    ) -> Sequence[Group]:
        if live.generation != self._generation:
            # What was enlisted and is not committed was refused.
            if not self._is_stored:
                self._leave(live)
                return ()
            self._generation, self._end = live.generation, None
        is_new = not self._is_stored and self._makes is None
        if is_new:
            # It is attached right before its message is recorded.
            self._makes = entries
        if self._end is None and (end := _end_of(live, entries, self._call.id)) is not None:
            return self._ends(live, entries, end, is_new=is_new)
        return (self._pending(live),) if is_new else ()

    def _ends(
        self, live: LiveTask, entries: tuple[Entry, ...], end: TurnEnd, *, is_new: bool
    ) -> tuple[Group, ...]:
        outcome = None if _is_too_large(end) else outcome_of_turn(end)
        if outcome is not None and outcome.is_crash and self._call.on_crash == "wait_for_timeout":
            self._end = _End(entries)
            return (self._pending(live),) if is_new else ()
        watches, call, task_id = self._watches, self._call, live.task_id
        done_s = watches.clock.monotonic()
        if outcome is not None and watches.main.has_tasks:
            ended = ends_with_outcome(
                call,
                task_id,
                outcome,
                at_ms=watches.clock.now_ms(),
                number=watches.next_number(),
                expected=0 if is_new else _PENDING,
            )
            group = Group(ended.changes, is_required=is_new)
            self._end = _End(entries, group, outcome, done_s)
            return (group,)
        put = put_end(CallEnd(call, task_id, watches.clock.now_ms(), outcome))
        group = Group(watches.main.changes(call.id, put), is_required=False)
        self._end = _End(entries, group)
        return (self._pending(live), group) if is_new else (group,)

    def _pending(self, live: LiveTask) -> Group:
        main = self._watches.main
        pending = put_pending(self._call, live.task_id, is_from_elsewhere=not main.has_tasks)
        return Group(main.changes(self._call.id, pending))

    def committed(
        self,
        live: LiveTask,
        entries: tuple[Entry, ...],
        state: TaskState,
        skipped: Sequence[Group],
    ) -> None:
        watches, end = self._watches, self._end
        if entries is self._makes:
            self._is_stored = True
            watches.news.made(self._call, is_on_its_way=not watches.main.has_tasks)
        if end is None or entries is not end.entries:
            return
        self._leave(live)
        if end.group is None:
            return
        if any(group is end.group for group in skipped):
            watches.news.late()
        elif end.outcome is None:
            watches.news.ends_soon()
        else:
            took_s = watches.clock.monotonic() - end.done_s
            watches.news.ended(self._call, end.outcome.status, took_s=took_s)

    def _leave(self, live: LiveTask) -> None:
        live.participants = tuple([each for each in live.participants if each is not self])


def _end_of(live: LiveTask, entries: tuple[Entry, ...], call_id: str) -> TurnEnd | None:
    """The end of the turn of the call, if it is among the entries that are to be committed."""
    # Most appends of a turn have output alone, which ends nothing.
    if all([state_of(entry) in (None, TaskState.WORKING) for entry in entries]):
        return None
    first = entries[0].seq
    fold = None if first == 1 else live.ahead(first - 1)
    return end_of_turn(fold, entries, call_id)


def _is_too_large(end: TurnEnd) -> bool:
    """Whether the answer has a text that is not to be read while a commit is made, or that is not
    at hand: the store has it apart."""
    said = () if end.status.message is None else end.status.message.parts
    parts: list[Part] = [*said]
    for artifact in end.artifacts:
        parts += artifact.parts
    texts = [part.text for part in parts if part.text is not None]
    return any(is_large(text) or MARK_TEXT in text for text in texts)
