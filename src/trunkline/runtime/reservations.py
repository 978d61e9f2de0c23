"""`Reservations`: gives back what the gate took for a task that ends before its first turn begins.

The changes come from the gate (`Admission.returns`). Where a turn does not begin with the commit
that accepts its message, they are stored with the task, so that they outlive the process and move
with the task to another node. The commit that ends such a task carries them; the commit in which
its first turn begins only deletes them. So they are made once, or never.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from trunkline.engine.run_states import RunState
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.records import Add, Delete, Group, Key, Put, Record
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.run import Run

KIND = "reservation.1"


class _Body(Struct, frozen=True, array_like=True):
    # Kind, scope, id and amount of each count.
    counts: tuple[tuple[str, str, str, int], ...]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode

# Constants, because Python 3.11 looks up enum members through the metaclass, which is slow.
_QUEUED = RunState.QUEUED
_HELD = RunState.HELD

# No count exceeds it by what it gets back.
_ANY = 1 << 60


class Reservation:
    """The participant of a task whose first turn has not begun."""

    def __init__(self, key: Key, changes: tuple[Add, ...]) -> None:
        self._key = key
        self.changes = changes

    def enlist(
        self, live: LiveTask, entries: tuple[Entry, ...], state: TaskState
    ) -> Sequence[Group]:
        if live.turns:
            return (Group((Delete(key=self._key),), is_required=False),)
        if state in TERMINAL:
            return (Group((*self.changes, Delete(key=self._key)), is_required=False),)
        return ()

    def committed(
        self,
        live: LiveTask,
        entries: tuple[Entry, ...],
        state: TaskState,
        skipped: Sequence[Group],
    ) -> None:
        if live.turns or state in TERMINAL:
            live.participants = tuple([each for each in live.participants if each is not self])

    def put(self) -> Put:
        counts = tuple(
            [(each.key.kind, each.key.scope, each.key.id, each.amount) for each in self.changes]
        )
        return Put(key=self._key, body=_encode(_Body(counts)), goes_with_task=True)


class Reservations(Struct, frozen=True, eq=False):
    journal: Journal

    def hold(self, run: Run) -> None:
        """Give back what the message of the run took with the end of its task, unless a turn of the
        task begins before. The next append of the task stores that."""
        live, admission = run.live, run.admission
        waits = run.state is _QUEUED or run.state is _HELD
        if live is None or admission is None or not waits or live.turns or not admission.returns:
            return
        counts = admission.returns
        for each in live.participants:
            if isinstance(each, Reservation):
                each.changes += counts
                self.journal.attach(live, Group((each.put(),)))
                return
        reservation = Reservation(Key(KIND, live.scope.agent, live.task_id), counts)
        live.participants += (reservation,)
        self.journal.attach(live, Group((reservation.put(),)))


def rejoin(_: LiveTask, records: Sequence[Record]) -> tuple[Reservation]:
    """The participant of a task that has come into memory."""
    record = records[0]
    changes = [
        Add(key=Key(kind, scope, id), amount=amount, at_most=_ANY)
        for kind, scope, id, amount in _decode(record.body).counts
    ]
    return (Reservation(record.key, tuple(changes)),)
