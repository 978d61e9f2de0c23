"""`TaskHead` and `Contents`: a task of the folder in memory, without and with its contents."""

import copy

from msgspec import Raw, Struct, field

from trunkline.model.events import ARTIFACT, SHOWN, STATUS, Entry
from trunkline.ports.store import Snapshot
from trunkline.stores.indexes import Head, entries_after
from trunkline.stores.jsonfile.changes import Appended, Cut, TaskChange
from trunkline.stores.jsonfile.files import record_name

# The entries that A2A 0.3 has as events. It has none for a message of the caller.
_PUBLIC_KINDS = frozenset({STATUS, ARTIFACT, SHOWN})


class TaskHead(Head, eq=False):
    """A task whose record may lag behind the log by the changes in `pending`."""

    pending: list[TaskChange] = field(default_factory=list)
    has_record: bool = False
    file_bytes: int = 0
    # The last change.
    n: int = 0

    @property
    def file_name(self) -> str:
        return record_name(self.id)

    @property
    def size_bytes(self) -> int:
        """About as large as its record will be."""
        appends = [each.append for each in self.pending if isinstance(each, Appended)]
        return self.file_bytes + sum([append.size_bytes for append in appends])

    def capture(self) -> "TaskHead":
        """The task as it is now, for a thread that reads or writes its record."""
        captured = copy.copy(self)
        captured.pending = self.pending.copy()
        return captured

    def written(self, n: int, size: int) -> None:
        self.has_record, self.file_bytes = True, size
        self.pending = [change for change in self.pending if change.n > n]


class Contents(Struct, eq=False):
    """The contents of a task, read from its record and brought up to date by changes."""

    # The last change that is in here.
    n: int = 0
    entries: list[Entry] = []
    snapshot: Snapshot | None = None
    # The public part of the record: written once, then kept as it is.
    binding: Raw | None = None
    current_sequence: int = 0
    journal: list[Raw] = []
    # Entries that the public journal lacks.
    unpublished: list[Entry] = []
    is_cut: bool = False

    def copy(self) -> "Contents":
        other = copy.copy(self)
        other.entries = self.entries.copy()
        other.journal = self.journal.copy()
        other.unpublished = self.unpublished.copy()
        return other

    def apply(self, change: TaskChange) -> None:
        if change.n <= self.n:
            return
        self.n = change.n
        if isinstance(change, Appended):
            append = change.append
            if append.begins_pruned:
                self.is_cut = True
            self.entries.extend(append.entries)
            self.unpublished += [each for each in append.entries if each.kind in _PUBLIC_KINDS]
            if append.snapshot is not None:
                self.snapshot = append.snapshot
        elif isinstance(change, Cut) and self.snapshot is not None:
            self.entries = [*entries_after(self.entries, min(change.up_to, self.snapshot.seq))]
            self.is_cut = True

    def tail(self) -> tuple[Entry, ...]:
        return tuple(entries_after(self.entries, self.snapshot.seq if self.snapshot else 0))

    def count_public(self) -> int:
        """How many of the entries are events in A2A 0.3."""
        return sum(entry.kind in _PUBLIC_KINDS for entry in self.entries)
