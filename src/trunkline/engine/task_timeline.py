"""`TimelineFold`: when what happened to a task, from its journal entry by entry.

It has the states of the task as bands, its turns with the time that each waited, and the longest
times in which nothing was recorded. Folding on later is the same as folding all entries at once,
so a reader may keep it and give it the entries that have come since.
"""

from collections.abc import Iterable
from heapq import heappush, heappushpop
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.events import (
    ARTIFACT,
    Entry,
    MessageAccepted,
    TaskSubmitted,
    TurnRetried,
)
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import (
    SETTLED,
    TERMINAL,
    Message,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)

# Shorter times without an entry are no gaps, and of the others the longest are kept.
MIN_GAP_MS: Final = 1000
MAX_GAPS: Final = 100


class Band(Struct, frozen=True, gc=False):
    """A time in which the task was in one state."""

    state: TaskState
    # The entry that began it.
    seq: int
    # None if it is not known.
    from_ms: int | None
    # None for the present state as well.
    to_ms: int | None = None


class Turn(Struct, frozen=True, kw_only=True, gc=False):
    """A message of the caller, and the run of the agent for it."""

    # In the order in which the messages were accepted, from 1.
    number: int
    # Empty for a turn whose message was pruned from the journal.
    message_id: str = ""
    queued_ms: int | None = None
    # None while it waits, and for one that ended without having begun.
    started_ms: int | None = None
    # None for a turn that has not ended.
    ended_ms: int | None = None
    # The state in which it left the task. SUBMITTED where another message waited already, and where
    # the gateway was to run the turn again, which is then a turn of its own.
    outcome: TaskState | None = None
    # The entries from its message to its end, or to the last one so far.
    first_seq: int
    last_seq: int


class Gap(Struct, frozen=True, order=True, gc=False):
    """A time without an entry, while the task had not ended."""

    # First, because the longest are kept; of equal ones the first.
    ms: int
    # The negative number of the entry before it.
    place: int
    from_ms: int
    to_ms: int

    @property
    def after_seq(self) -> int:
        return -self.place


def time_of(entry: Entry) -> int | None:
    """When the entry was committed. Of entries without that time, statuses say when they were
    recorded."""
    if entry.committed_ms is not None:
        return entry.committed_ms
    if entry.kind == ARTIFACT:
        return None
    public = entry.public
    if isinstance(public, TaskArtifactUpdateEvent):
        return None
    return _stated_ms(public.status)


def _stated_ms(status: TaskStatus) -> int | None:
    try:
        return parse_timestamp(status.timestamp) if status.timestamp else None
    except (ValueError, OverflowError):
        return None


class TimelineFold(Struct, eq=False):
    # The last entry so far.
    seq: int = 0
    bands: list[Band] = []
    turns: list[Turn] = []
    _state: TaskState = TaskState.UNSPECIFIED
    _last_ms: int | None = None
    # A heap, the shortest first.
    _gaps: list[Gap] = []
    # Places in `turns`: of those that wait, and of the one that runs.
    _waiting: list[int] = []
    _running: int | None = None

    def apply(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._apply(entry)

    def gaps(self) -> list[Gap]:
        """In the order of time."""
        return sorted(self._gaps, key=lambda gap: gap.after_seq)

    def shown_turns(self) -> list[Turn]:
        """The turns, of which the one under way goes on to the last entry."""
        turns = self.turns.copy()
        if self._running is not None:
            turns[self._running] = replace(turns[self._running], last_seq=self.seq)
        return turns

    def _apply(self, entry: Entry) -> None:
        at_ms = time_of(entry)
        self._note_gap(at_ms)
        self.seq = entry.seq
        # Most entries of a long task are chunks of artifacts, which need not be decoded.
        if entry.kind == ARTIFACT:
            return
        event = entry.event
        if isinstance(event, TaskSubmitted):
            event = event.task
        if isinstance(event, Task):
            asked = event.history[-1] if event.history else None
            self._submitted(asked, event.status.state, at_ms)
            return
        if isinstance(event, TurnRetried):
            undone = None if self._running is None else self.turns[self._running].message_id
            self._move(event.status_update.status.state, at_ms)
            if undone is not None:
                self._queue(undone, at_ms, first=True)
            return
        if isinstance(event, MessageAccepted):
            self._queue(event.message.message_id, at_ms)
            self._move(event.status_update.status.state, at_ms)
            return
        public = entry.public
        if not isinstance(public, TaskArtifactUpdateEvent):
            self._move(public.status.state, at_ms)

    def _submitted(self, asked: Message | None, state: TaskState, at_ms: int | None) -> None:
        if asked is not None and asked.role is Role.USER:
            self._queue(asked.message_id, at_ms)
        self._move(state, at_ms)

    def _note_gap(self, at_ms: int | None) -> None:
        before = self._last_ms
        if at_ms is None:
            return
        self._last_ms = at_ms if before is None else max(before, at_ms)
        if before is None or at_ms - before < MIN_GAP_MS or self._state in TERMINAL:
            return
        gap = Gap(at_ms - before, -self.seq, before, at_ms)
        if len(self._gaps) < MAX_GAPS:
            heappush(self._gaps, gap)
        else:
            heappushpop(self._gaps, gap)

    def _queue(self, message_id: str, at_ms: int | None, *, first: bool = False) -> None:
        turn = Turn(
            number=len(self.turns) + 1,
            message_id=message_id,
            queued_ms=at_ms,
            first_seq=self.seq,
            last_seq=self.seq,
        )
        self.turns.append(turn)
        self._waiting.insert(0 if first else len(self._waiting), turn.number - 1)

    def _move(self, state: TaskState, at_ms: int | None) -> None:
        before = self._state
        if state is before:
            return
        self._state = state
        if self.bands:
            self.bands[-1] = replace(self.bands[-1], to_ms=at_ms)
        self.bands.append(Band(state, self.seq, at_ms))
        if state is TaskState.WORKING:
            self._begin(at_ms)
            return
        self._end_running(state, at_ms)
        if state in SETTLED:
            # What waited does not begin any more; a task that has a question takes a new message.
            for place in self._waiting if state in TERMINAL else ():
                self._end(place, state, at_ms)
            if state in TERMINAL:
                self._waiting.clear()

    def _begin(self, at_ms: int | None) -> None:
        if self._running is not None:
            return
        if not self._waiting:
            # Its message was pruned from the journal.
            self._queue("", None)
        place = self._running = self._waiting.pop(0)
        self.turns[place] = replace(self.turns[place], started_ms=at_ms)

    def _end_running(self, state: TaskState, at_ms: int | None) -> None:
        place, self._running = self._running, None
        if place is not None:
            self._end(place, state, at_ms)

    def _end(self, place: int, state: TaskState, at_ms: int | None) -> None:
        self.turns[place] = replace(
            self.turns[place], ended_ms=at_ms, outcome=state, last_seq=self.seq
        )
