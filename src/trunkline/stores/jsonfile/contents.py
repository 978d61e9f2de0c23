"""What a task holds beside its head, read from a record and brought up to date by changes."""

import copy

from msgspec import Raw

from trunkline.model.events import ARTIFACT, SHOWN, STATUS, Entry
from trunkline.ports.store import Snapshot
from trunkline.stores.jsonfile.changes import Appended, Cut, StoredKey, TaskChange

# What A2A 0.3 knows as journal events. A message that came in is none.
_TOLD = frozenset({STATUS, ARTIFACT, SHOWN})


class Contents:
    __slots__ = (
        "binding",
        "current_sequence",
        "entries",
        "is_cut",
        "journal",
        "keys",
        "n",
        "snapshot",
        "untold",
    )

    def __init__(self) -> None:
        # The last change that is in here.
        self.n = 0
        self.entries: list[Entry] = []
        self.snapshot: Snapshot | None = None
        self.keys: list[StoredKey] = []
        # The public side of the record: written once, then kept as it is.
        self.binding: Raw | None = None
        self.current_sequence = 0
        self.journal: list[Raw] = []
        # Entries that the public journal lacks.
        self.untold: list[Entry] = []
        self.is_cut = False

    def copy(self) -> "Contents":
        other = copy.copy(self)
        other.entries = self.entries.copy()
        other.keys = self.keys.copy()
        other.journal = self.journal.copy()
        other.untold = self.untold.copy()
        return other

    def apply(self, change: TaskChange) -> None:
        if change.n <= self.n:
            return
        self.n = change.n
        if isinstance(change, Appended):
            append = change.append
            self.entries.extend(append.entries)
            self.untold.extend([entry for entry in append.entries if entry.kind in _TOLD])
            if append.snapshot is not None:
                self.snapshot = append.snapshot
            if append.idempotency is not None:
                self.keys.append(StoredKey(append.idempotency.key, append.idempotency.digest))
        elif isinstance(change, Cut) and self.snapshot is not None:
            self.entries = self.after(min(change.up_to, self.snapshot.seq))
            self.is_cut = True

    def after(self, seq: int) -> list[Entry]:
        """The entries above `seq`; there are no holes, but the beginning may be missing."""
        if not self.entries:
            return []
        return self.entries[max(0, seq - self.entries[0].seq + 1) :]

    def tail(self) -> tuple[Entry, ...]:
        return tuple(self.after(0 if self.snapshot is None else self.snapshot.seq))

    def count_told(self) -> int:
        """How many of the entries are journal events in A2A 0.3."""
        return sum(entry.kind in _TOLD for entry in self.entries)
