"""`State`: everything in the folder, in memory, and the files to write next.

Touched by one thread at a time, and without I/O: a change that it stages counts once the log
has it and `apply` is called.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.ports.clock import Clock
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Group
from trunkline.ports.store import Append, Result, Settled
from trunkline.stores.commits import RUNNABLE, Item, why_refused
from trunkline.stores.indexes import TaskIndex
from trunkline.stores.jsonfile.changes import (
    Appended,
    Change,
    Cut,
    Deleted,
    EarlierChange,
    LoggedChange,
    Recorded,
    TaskChange,
)
from trunkline.stores.jsonfile.earlier_versions import EarlierData
from trunkline.stores.jsonfile.files import fits_a_name
from trunkline.stores.jsonfile.record_table import LoggedRecords, RecordsFile, stored_copy
from trunkline.stores.jsonfile.tasks import TaskHead

# Bounds one round of writing: a record takes memory several times its size meanwhile.
BYTES_AT_ONCE = 8 * 1024 * 1024

# Everything that has a file of its own.
Document: TypeAlias = TaskHead | RecordsFile


class Captured(NamedTuple):
    """A document, and a copy for the thread that writes its file."""

    document: Document
    copy: Document


class State:
    def __init__(self, clock: Clock) -> None:
        self.tasks: TaskIndex[TaskHead] = TaskIndex()
        self._clock = clock
        # The last change that is committed.
        self.n = 0
        self.records = LoggedRecords(clock)
        self.records_file = RecordsFile(self.records)
        self.earlier = EarlierData(self.records_file)
        # Documents whose files lag behind the log, and of these the ones to write now.
        self._lagging: dict[Document, None] = {}
        self._due: dict[Document, None] = {}
        # How much writing all lagging files would write again.
        self.lagging_bytes = 0
        # The log up to `retires_up_to` is needed until the files of these documents hold the
        # change that was their last when the log was retired.
        self._retiring: dict[Document, int] = {}
        self.retires_up_to = 0

    def add_task(self, head: TaskHead) -> None:
        self.tasks.add(head)
        self.n = max(self.n, head.n)

    def load_records(self, folder: Path) -> None:
        """Raises StoreUnusable."""
        self.records_file.read(folder)
        self.n = max(self.n, self.records_file.n)

    def replay(self, changes: Iterable[LoggedChange]) -> list[str]:
        """Apply the changes that the files lack, and end the claims of the process that made them.

        Returns the tasks that are gone, but whose records may not be.
        """
        gone: dict[str, None] = {}
        for change in changes:
            self.n = max(self.n, change.n)
            if isinstance(change, EarlierChange):
                self.earlier.apply(change)
            elif self._is_new(change):
                self.apply(change)
                if isinstance(change, Deleted):
                    gone[change.task_id] = None
                    self.earlier.forget_task(change)
                elif isinstance(change, Appended):
                    self.earlier.add_key(change, self.tasks.get(change.task_id))
        self.records.release_claims()
        return [task_id for task_id in gone if self.tasks.get(task_id) is None]

    def _is_new(self, change: Change) -> bool:
        """Whether its file may lack the change."""
        if isinstance(change, Recorded):
            return change.n > self.records_file.n
        head = self.tasks.get(change.task_id)
        if head is not None:
            return change.n > head.n
        # Any other change without a head is about a task that was deleted later on.
        return isinstance(change, Appended) and change.append.creation is not None

    def stage(self, items: Sequence[tuple[Item, Settled]]) -> tuple[list[Result], list[Change]]:
        """One result per item, and the changes to commit."""
        results: list[Result] = []
        changes: list[Change] = []
        heads: dict[str, int] = {}
        now_ms = self._clock.now_ms()
        with self.records.trial() as changed:
            for item, _ in items:
                if isinstance(item, Group):
                    results.append(self.records.apply(item.changes))
                    continue
                result = self._stage_append(item, heads)
                if not isinstance(result, StoreError):
                    if not item.keeps_times:
                        for entry in item.entries:
                            entry.committed_ms = now_ms
                    changes.append(Appended(self.n + len(changes) + 1, item))
                results.append(result)
            if rows := changed():
                changes.append(Recorded(self.n + len(changes) + 1, rows))
        return results, changes

    def _stage_append(self, append: Append, heads: dict[str, int]) -> Result:
        """The result of the append, given the last sequences of the batch so far."""
        task_id = append.task_id
        head = self.tasks.get(task_id)
        last_seq = heads.get(task_id, 0 if head is None else head.last_seq)
        refused = why_refused(append, last_seq)
        if refused is None and not last_seq and not fits_a_name(task_id):
            refused = StoreUnusable("The id of the task cannot be the name of a file")
        refused = refused or self.records.apply_required(append.also, task_id)
        if refused is not None:
            return refused
        heads[task_id] = append.expected_seq + len(append.entries)
        return self.records.apply_optional(append.also, task_id)

    def prune(self, agent: str, *, limit: int, before_ms: int | None) -> list[Deleted | Recorded]:
        """Delete tasks, and the records that go with them."""
        ended = self.tasks.ended(agent, before_ms=before_ms, limit=limit)
        changes: list[Deleted | Recorded] = [
            Deleted(n, head.id) for n, head in enumerate(ended, self.n + 1)
        ]
        with self.records.trial() as changed:
            self.records.forget_tasks([head.id for head in ended])
            if rows := changed():
                changes.append(Recorded(self.n + len(changes) + 1, rows))
        return changes

    def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> list[Recorded]:
        with self.records.trial() as changed:
            self.records.delete_due(kind, scope, before_ms=before_ms, limit=limit)
            rows = changed()
        return [Recorded(self.n + 1, rows)] if rows else []

    def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> list[Recorded]:
        with self.records.trial() as changed:
            self.records.claim_due(shares, lease_ms=lease_ms)
            rows = changed()
        return [Recorded(self.n + 1, rows)] if rows else []

    def put_copies(self, copies: Sequence[RecordCopy]) -> list[Recorded]:
        return [Recorded(self.n + 1, tuple(map(stored_copy, copies)))] if copies else []

    def cut(self, task_id: str, *, up_to: int) -> list[Cut]:
        return [] if self.tasks.get(task_id) is None else [Cut(self.n + 1, task_id, up_to)]

    def apply(self, change: Change) -> None:
        """The change is in the log."""
        self.n = max(self.n, change.n)
        if not isinstance(change, Recorded):
            self._apply_to_task(change)
            return
        for row in change.rows:
            self.records.put_row(row)
        self.records_file.n = change.n
        self._lag(self.records_file)

    def _apply_to_task(self, change: TaskChange) -> None:
        head = self.tasks.get(change.task_id)
        if head is None:
            assert isinstance(change, Appended)
            head = TaskHead.of(change.n, change.append)
            self.tasks.add(head)
        if isinstance(change, Deleted):
            self.tasks.remove(head)
            self._caught_up(head)
            return
        head.n = change.n
        if isinstance(change, Appended):
            append = change.append
            self.tasks.move(head, append.state, append.status_ms)
            head.last_seq += len(append.entries)
        head.pending.append(change)
        self._lag(head)
        if head.state not in RUNNABLE:
            # At rest: the next change may be a long time away.
            self._due[head] = None
        elif head not in self._retiring:
            self._due.pop(head, None)

    def _lag(self, document: Document) -> None:
        if document not in self._lagging:
            self._lagging[document] = None
            self.lagging_bytes += document.file_bytes

    def _caught_up(self, document: Document) -> None:
        if document in self._lagging:
            del self._lagging[document]
            self.lagging_bytes -= document.file_bytes
        self._due.pop(document, None)
        self._retiring.pop(document, None)

    def retire(self) -> None:
        """Have every file written, so that the log up to here can go."""
        self.retires_up_to = self.n
        self._retiring = {document: document.n for document in self._lagging}
        self._due = dict.fromkeys(self._lagging)

    @property
    def is_retired(self) -> bool:
        """Whether the files hold the whole log up to `retires_up_to`."""
        return not self._retiring

    @property
    def due(self) -> int:
        """How many files are to be written now."""
        return len(self._due)

    def take_due(self, limit: int, *, max_bytes: int = BYTES_AT_ONCE) -> list[Captured]:
        """Documents to write now: up to `limit`, and the first one whatever its size."""
        chosen: list[Captured] = []
        size = 0
        for document in islice(self._due, limit):
            size += document.size_bytes
            if chosen and size > max_bytes:
                break
            chosen.append(Captured(document, document.capture()))
        for captured in chosen:
            del self._due[captured.document]
        return chosen

    def give_back(self, captured: Iterable[Captured]) -> None:
        """Their files could not be written."""
        for document, _ in captured:
            if document in self._lagging:
                self._due[document] = None

    def written(self, captured: Captured, size: int) -> None:
        """The file holds the copy now, in `size` bytes."""
        document, copy = captured
        if document not in self._lagging:  # deleted meanwhile
            return
        is_due, retiring_n = document in self._due, self._retiring.get(document, 0)
        self._caught_up(document)
        document.written(copy.n, size)
        if document.n > copy.n:
            self._lag(document)
            if is_due:
                self._due[document] = None
            # Captured before the log was retired, the copy may lack some of the log.
            if retiring_n > copy.n:
                self._retiring[document] = retiring_n
