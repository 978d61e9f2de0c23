"""Participants: features that change records in the same commit as the entries of a task.

A participant is attached to a task. When the journal commits entries of the task, it first asks
each participant for the changes that belong to them, and then tells it that they are committed. A
task without participants costs one test. No participant can stop a task from ending: its groups
should be optional, and an error of it is logged.

Participants do not outlive the process. Their records do, and go with the task (`goes_with_task`).
A feature registers the kind of its records, and its participant is attached again from them when
the task comes into memory, or when this node begins to write to it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from trunkline.model.events import Entry
from trunkline.model.routed_calls import TaskRecord
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.records import Committed, Group, Key, Put, Record
from trunkline.ports.store import Append, Result, Store

if TYPE_CHECKING:
    from trunkline.runtime.live_task import LiveTask

_log = logging.getLogger("trunkline.journal")

# Learns of every commit on the event loop, and must not wait or raise.
Tap: TypeAlias = Callable[["LiveTask", tuple[Entry, ...]], None]


class Participant(Protocol):
    def enlist(
        self, live: "LiveTask", entries: tuple[Entry, ...], state: TaskState
    ) -> Sequence[Group]:
        """The changes to commit with the entries, which leave the task in this state."""
        ...

    def committed(
        self,
        live: "LiveTask",
        entries: tuple[Entry, ...],
        state: TaskState,
        skipped: Sequence[Group],
    ) -> None:
        """The entries are committed, without the groups that the store skipped."""
        ...


# The version of a record that is not stored yet.
NEW: Final = 0
# Makes the participants of a task from the records of a kind: of one that is new, or of all that
# the store has.
Rejoin: TypeAlias = Callable[["LiveTask", Sequence[Record]], Sequence[Participant]]


# Makes the participants that a task has without a record, for as long as it has not ended.
Watch: TypeAlias = Callable[["LiveTask"], tuple[Participant, ...]]


class Watchers(Struct, eq=False):
    # None while no task has any, so that a task costs no call.
    of: Watch | None = None


class Participants(Struct, frozen=True, kw_only=True, eq=False):
    """The participants that come back with their tasks, by the kind of their records."""

    store: Store
    kinds: Mapping[str, Rejoin]
    watchers: Watchers

    async def rejoin(self, live: "LiveTask") -> None:
        """Attach the participants of a task that has just come into memory. Raises StoreError."""
        if live.state in TERMINAL:
            return
        found: dict[str, list[Record]] = {}
        if self.kinds:
            for record in await self.store.task_records(live.task_id):
                if record.key.kind in self.kinds:
                    found.setdefault(record.key.kind, []).append(record)
        if not live.participants:
            live.participants = tuple(
                [
                    each
                    for kind, records in found.items()
                    for each in self.kinds[kind](live, records)
                ]
            )
            if self.watchers.of is not None:
                live.participants += self.watchers.of(live)

    def join(self, live: "LiveTask", record: TaskRecord) -> Group:
        """Attach the participants of a record that is new. Returns what keeps the record with the
        task, for its next append."""
        key = Key(record.kind, live.scope.agent, record.id)
        new = Record(key=key, version=NEW, body=record.body)
        live.participants += tuple(self.kinds[record.kind](live, [new]))
        return Group((Put(key=key, body=record.body, goes_with_task=True, expected=0),))


def enlisted(live: "LiveTask", entries: tuple[Entry, ...]) -> tuple[Group, ...]:
    """The groups to commit with the entries: those attached, and those of participants."""
    groups = [*live.also]
    for participant in live.participants:
        try:
            groups += participant.enlist(live, entries, live.state)
        except Exception:  # noqa: BLE001 - logged, and the task goes on
            _log.exception("a participant failed", extra={"task_id": live.task_id})
    return tuple(groups)


def tell_committed(live: "LiveTask", taps: Sequence[Tap], append: Append, result: Result) -> None:
    """Tell participants and taps. One that raises is logged, and the others are still told."""
    skipped: list[Group] = []
    if isinstance(result, Committed):
        skipped = [append.also[number] for number in result.skipped]
    calls: list[Callable[[], None]] = [
        partial(each.committed, live, append.entries, append.state, skipped)
        for each in live.participants
    ]
    calls += [partial(tap, live, append.entries) for tap in taps]
    for call in calls:
        try:
            call()
        except Exception:  # noqa: BLE001 - logged, and the others are told
            _log.exception("a participant failed", extra={"task_id": live.task_id})
