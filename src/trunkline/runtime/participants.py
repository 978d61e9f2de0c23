"""Participants: features that change records in the same commit as the entries of a task.

A participant is attached to a task. When the journal commits entries of the task, it first asks
each participant for the changes that belong to them, and then tells it that they are committed. A
task without participants costs one test. No participant can stop a task from ending: its groups
should be optional, and an error of it is logged.

Participants do not outlive the process. Their records do, and go with the task (`goes_with_task`).
A feature registers the kind of its records, and its participant is attached again from them when
the task comes into memory, or when this node begins to write to it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.ports.records import Group, Record
from trunkline.ports.store import Store

if TYPE_CHECKING:
    from trunkline.runtime.live_task import LiveTask


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


# Makes the participant of a task again from the records of its kind.
Rejoin: TypeAlias = Callable[["LiveTask", Sequence[Record]], Participant]


class Participants(Struct, frozen=True, kw_only=True, eq=False):
    """The participants that come back with their tasks, by the kind of their records."""

    store: Store
    kinds: Mapping[str, Rejoin]

    async def rejoin(self, live: "LiveTask") -> None:
        """Attach the participants of a task that has just come into memory. Raises StoreError."""
        if not self.kinds:
            return
        found: dict[str, list[Record]] = {}
        for record in await self.store.task_records(live.task_id):
            if record.key.kind in self.kinds:
                found.setdefault(record.key.kind, []).append(record)
        if not live.participants:
            live.participants = tuple(
                [self.kinds[kind](live, records) for kind, records in found.items()]
            )
