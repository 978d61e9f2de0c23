"""All tasks of the folder as far as they are in memory, and what is to be written next.

Touched by one thread at a time, and without I/O: what it stages becomes true when the
log has it and `apply` is called.
"""

import copy
from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import structs

from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.ports.store import Append, Exchange, IdempotencyRecord, KeptNote, Scope
from trunkline.stores.exchanges import Spot
from trunkline.stores.heads import RUNNABLE, refusal
from trunkline.stores.index import Index, key_taken
from trunkline.stores.jsonfile.blobs import to_json
from trunkline.stores.jsonfile.changes import (
    Appended,
    Change,
    Claimed,
    Cut,
    Deleted,
    Forgot,
    Noted,
    Said,
    TaskChange,
)
from trunkline.stores.jsonfile.conversations import Conversations, Place
from trunkline.stores.jsonfile.files import fits_a_name
from trunkline.stores.jsonfile.notes import KeptNotes, NotesFile, change_of
from trunkline.stores.jsonfile.records import TaskHead

# How much is written at once: a record takes memory several times its size meanwhile.
BYTES_AT_ONCE = 8 * 1024 * 1024


class State:
    def __init__(self) -> None:
        self.index: Index[TaskHead] = Index()
        self.conversations = Conversations()
        self.notes = KeptNotes()
        # The last change that is committed.
        self.n = 0
        # Tasks whose record lags behind the log, and of these the ones to write now.
        self._dirty: dict[str, TaskHead] = {}
        self._due: dict[str, None] = {}
        # What writing all of them would write again.
        self._dirty_bytes = 0
        # Until these are written, the log up to `retires_up_to` is needed.
        self._retiring: set[str] = set()
        self.retires_up_to = 0

    def load(
        self,
        heads: Iterable[TaskHead],
        keys: Iterable[IdempotencyRecord],
        exchanges: Sequence[Spot[Place]],
        notes: NotesFile,
    ) -> None:
        self.conversations.load(exchanges)
        self.notes.load(notes)
        self.n = max([spot.n for spot in exchanges], default=0)
        self.n = max(self.n, notes.n)
        for head in heads:
            self.index.add(head)
            self.n = max(self.n, head.n)
        for record in keys:
            head_of = self.index.get(record.task_id)
            assert head_of is not None
            self.index.remember(head_of, record)

    def replay(self, changes: Iterable[Change]) -> list[str]:
        """Returns the tasks that are gone, but whose records may not be."""
        gone: dict[str, None] = {}
        for change in changes:
            self.n = max(self.n, change.n)
            if isinstance(change, Said | Forgot):
                self.conversations.replay(change)
                continue
            if isinstance(change, Noted):
                self.notes.replay(change)
                continue
            head = self.index.get(change.task_id)
            is_creation = isinstance(change, Appended) and change.append.creation is not None
            # Without a head, it is about a task that was deleted later on.
            if change.n > head.n if head is not None else is_creation:
                self.apply(change)
                if isinstance(change, Deleted):
                    gone[change.task_id] = None
        return [task_id for task_id in gone if self.index.get(task_id) is None]

    def stage(self, appends: Sequence[Append]) -> tuple[list[StoreError | None], list[Change]]:
        """One answer per append, and the changes to commit."""
        results: list[StoreError | None] = []
        changes: list[Change] = []
        heads: dict[str, tuple[int, int]] = {}
        keys: set[tuple[object, str]] = set()
        for append in appends:
            last_seq, epoch = heads.get(append.task_id) or self._position(append.task_id)
            record = append.idempotency
            refused = refusal(append, last_seq, epoch) or self.index.key_refusal(record)
            if refused is None and record is not None:
                place = (record.scope, record.key)
                refused = key_taken(record) if place in keys else None
                keys.add(place)
            if refused is None and not last_seq and not fits_a_name(append.task_id):
                refused = StoreUnusable("The id of the task cannot be the name of a file")
            if refused is None:
                heads[append.task_id] = (last_seq + len(append.entries), append.epoch)
                changes.append(Appended(self.n + len(changes) + 1, append))
            results.append(refused)
        return results, changes

    def stage_exchanges(self, exchanges: Sequence[Exchange], *, after: int) -> list[Change]:
        """The changes to commit, behind so many others."""
        return [
            Said(n, each.scope, each.context_id, each.at_ms, to_json(each.messages))
            for n, each in enumerate(exchanges, self.n + after + 1)
        ]

    def stage_notes(self, notes: Sequence[KeptNote], *, after: int) -> list[Change]:
        return [change_of(note, n) for n, note in enumerate(notes, self.n + after + 1)]

    def _position(self, task_id: str) -> tuple[int, int]:
        head = self.index.get(task_id)
        return (0, 0) if head is None else (head.last_seq, head.epoch)

    def scopes(self) -> tuple[Scope, ...]:
        others = [*self.conversations.scopes(), *self.notes.scopes()]
        return tuple(dict.fromkeys([*self.index.scopes(), *others]))

    def claim(self, node: str, *, now_ms: int, limit: int, task_id: str | None) -> list[Change]:
        free = self.index.free(node, now_ms=now_ms, limit=limit, task_id=task_id)
        return [
            Claimed(n, head.id, head.epoch + 1, node) for n, head in enumerate(free, self.n + 1)
        ]

    def prune(self, agent: str, *, limit: int, before_ms: int | None) -> list[Change]:
        ended = self.index.ended(agent, before_ms=before_ms, limit=limit)
        return [Deleted(n, head.id) for n, head in enumerate(ended, self.n + 1)]

    def forget_exchanges(self, agent: str, *, before_ms: int, limit: int) -> list[Change]:
        old = self.conversations.oldest(agent, before_ms=before_ms, limit=limit)
        return [
            Forgot(n, place.scope, place.context_id, tuple(gone))
            for n, (place, gone) in enumerate(old.items(), self.n + 1)
        ]

    def forget_notes(self, agent: str, *, before_ms: int, limit: int) -> list[Change]:
        old = self.notes.old(agent, before_ms=before_ms, limit=limit)
        return [structs.replace(note, n=n, text="") for n, note in enumerate(old, self.n + 1)]

    def cut(self, task_id: str, *, up_to: int) -> list[Change]:
        return [] if self.index.get(task_id) is None else [Cut(self.n + 1, task_id, up_to)]

    def apply(self, change: Change) -> None:
        """The change is in the log."""
        self.n = max(self.n, change.n)
        if isinstance(change, Said | Forgot):
            self.conversations.apply(change)
            return
        if isinstance(change, Noted):
            self.notes.apply(change)
            return
        head = self.index.get(change.task_id)
        if head is None:
            head = self._create(change)
        if isinstance(change, Deleted):
            self.index.remove(head)
            self._clean(head)
            return
        head.n = change.n
        if isinstance(change, Appended):
            append = change.append
            self.index.move(head, append.state, append.status_ms)
            head.last_seq += len(append.entries)
            if append.idempotency is not None:
                self.index.remember(head, append.idempotency)
        elif isinstance(change, Claimed):
            head.node, head.epoch = change.node, change.epoch
        self._pend(head, change)

    def _create(self, change: TaskChange) -> TaskHead:
        assert isinstance(change, Appended)
        assert change.append.creation is not None, "refusal() lets no creation pass without one"
        head = TaskHead(change.n, change.append, change.append.creation)
        self.index.add(head)
        return head

    def _pend(self, head: TaskHead, change: TaskChange) -> None:
        head.pending.append(change)
        if head.id not in self._dirty:
            self._dirty[head.id] = head
            self._dirty_bytes += head.record_bytes
        if head.state not in RUNNABLE:
            # At rest: nothing more may come for a long time.
            self._due[head.id] = None
        elif head.id not in self._retiring:
            self._due.pop(head.id, None)

    def _clean(self, head: TaskHead) -> None:
        if self._dirty.pop(head.id, None) is not None:
            self._dirty_bytes -= head.record_bytes
        self._due.pop(head.id, None)
        self._retiring.discard(head.id)

    def retire(self) -> None:
        """Have everything written, so that the log up to here can go."""
        self.retires_up_to = self.n
        self._retiring = set(self._dirty)
        self._due = dict.fromkeys(self._dirty)
        self.conversations.retire()
        self.notes.retire()

    @property
    def dirty_bytes(self) -> int:
        return self._dirty_bytes + self.notes.dirty_bytes

    @property
    def is_retired(self) -> bool:
        """Whether the log up to `retires_up_to` holds nothing that the files lack."""
        others_are = self.conversations.is_retired and self.notes.is_retired
        return not self._retiring and others_are

    @property
    def due(self) -> int:
        """How many tasks are to be written now."""
        return len(self._due)

    def take_due(self, limit: int, *, max_bytes: int = BYTES_AT_ONCE) -> list[TaskHead]:
        """Tasks to write now, as they are now: up to `limit`, and the first one whatever its
        size."""
        chosen: list[TaskHead] = []
        size = 0
        for task_id in islice(self._due, limit):
            head = self._dirty[task_id]
            size += head.size_bytes
            if chosen and size > max_bytes:
                break
            chosen.append(capture(head))
        for head in chosen:
            del self._due[head.id]
        return chosen

    def give_back(self, heads: Iterable[TaskHead]) -> None:
        """They could not be written."""
        for head in heads:
            if head.id in self._dirty:
                self._due[head.id] = None

    def written(self, captured: TaskHead, size: int) -> None:
        head = self.index.get(captured.id)
        if head is None or head.key != captured.key:  # deleted meanwhile
            return
        left = [change for change in head.pending if change.n > captured.n]
        is_due, is_retiring = captured.id in self._due, captured.id in self._retiring
        self._clean(head)
        head.has_record, head.record_bytes = True, size
        head.pending = left
        if left:
            self._dirty[head.id] = head
            self._dirty_bytes += size
            if is_due:
                self._due[head.id] = None
            # Captured before the log was to go, it may lack some of what the log has.
            if is_retiring and left[0].n <= self.retires_up_to:
                self._retiring.add(head.id)


def capture(head: TaskHead) -> TaskHead:
    """The task as it is now, for a thread that reads or writes its record."""
    captured = copy.copy(head)
    captured.pending = head.pending.copy()
    return captured
