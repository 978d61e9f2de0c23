"""One file per task: reading all of them at the start, and single ones ever after."""

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.model.errors import StoreUnusable
from trunkline.model.values import TaskState
from trunkline.ports.store import Append, Creation, IdempotencyRecord, Scope
from trunkline.stores.index import Head
from trunkline.stores.jsonfile import public
from trunkline.stores.jsonfile.adopted import adopt
from trunkline.stores.jsonfile.changes import (
    Appended,
    StoredEntry,
    StoredKey,
    StoredSnapshot,
    TaskChange,
    entry_of,
    snapshot_of,
    stored_entry,
    stored_snapshot,
)
from trunkline.stores.jsonfile.checks import broken, check_record
from trunkline.stores.jsonfile.contents import Contents
from trunkline.stores.jsonfile.files import RECORD, TEMPORARY, record_name, remove_all, replace_all


class TaskHead(Head):
    """A task whose record may lag behind: `pending` is what the log has in addition."""

    __slots__ = ("has_record", "n", "pending", "record_bytes")

    def __init__(self, key: int, append: Append, creation: Creation) -> None:
        super().__init__(key, append, creation)
        self.pending: list[TaskChange] = []
        self.has_record = False
        self.record_bytes = 0
        # The last change of the task.
        self.n = 0

    @property
    def size_bytes(self) -> int:
        """About as large as its record will be."""
        appends = [each.append for each in self.pending if isinstance(each, Appended)]
        return self.record_bytes + sum([append.size_bytes for append in appends])


class _Own(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the gateway keeps beside the public side of a record."""

    key: int
    n: int
    scope: Scope
    context_id: str
    created_ms: int
    node: str
    epoch: int
    state: TaskState
    status_ms: int
    last_seq: int
    entries: tuple[StoredEntry, ...]
    snapshot: StoredSnapshot | None
    idempotency: tuple[StoredKey, ...]
    is_cut: bool


class _Task(Struct, frozen=True):
    id: str


class _File(Struct, frozen=True, rename="camel"):
    task: Raw
    binding: Raw | UnsetType = UNSET
    current_sequence: int = 0
    journal: list[Raw] = []
    trunkline: _Own | UnsetType = UNSET


_decode = msgspec.json.Decoder(_File).decode
_decode_task = msgspec.json.Decoder(_Task).decode
_encode = msgspec.json.Encoder().encode
_END = b"\n}"


class Records:
    """Used by one thread at a time."""

    def __init__(
        self, folder: Path, *, adopts: Scope, route: public.Route = public.by_handle
    ) -> None:
        self._folder = folder
        self._adopts = adopts
        self._route = route
        # What was read last: a long journal is read page by page.
        self._last: tuple[str, Contents] | None = None

    def load_all(
        self, on_broken: Callable[[StoreUnusable], None] | None = None
    ) -> tuple[list[TaskHead], list[IdempotencyRecord]]:
        """Every task there is; what a crash left half-written goes.

        Raises StoreUnusable for a record that is not what it must be. With `on_broken` that
        is told instead, and the folder is left as it is.
        """
        for left_over in self._folder.glob(f"*{RECORD}{TEMPORARY}") if on_broken is None else ():
            left_over.unlink()
        heads: list[TaskHead] = []
        adopted: list[TaskHead] = []
        keys: list[IdempotencyRecord] = []
        for path in sorted(self._folder.glob(f"*{RECORD}")):
            try:
                file, head = self._load(path)
            except StoreUnusable as error:
                if on_broken is None:
                    raise
                on_broken(error)
                continue
            if isinstance(file.trunkline, _Own):
                heads.append(head)
                keys += [
                    IdempotencyRecord(head.scope, stored.key, stored.digest, head.id)
                    for stored in file.trunkline.idempotency
                ]
            else:
                adopted.append(head)
        taken = {head.key for head in heads}
        for head in adopted:
            head.key = _key_by_time(head)
            while head.key in taken:
                head.key += 1
            taken.add(head.key)
        return heads + adopted, keys

    def _load(self, path: Path) -> tuple[_File, TaskHead]:
        data = path.read_bytes()
        check_record(path, data)
        file = _parsed(path, data)
        head = self._head(path, file)
        if record_name(head.id) != path.name:
            raise broken(path, f"holds a task whose file is {record_name(head.id)}")
        head.has_record, head.record_bytes = True, len(data)
        return file, head

    def _head(self, path: Path, file: _File) -> TaskHead:
        own = file.trunkline
        if not isinstance(own, _Own):
            append, contents = self._adopt(path, file)
            assert append.creation is not None
            head = TaskHead(0, append, append.creation)
            assert contents.snapshot is not None
            head.last_seq = contents.snapshot.seq
            return head
        append = Append(
            task_id=_decode_task(file.task).id,
            expected_seq=0,
            epoch=own.epoch,
            entries=(),
            state=own.state,
            status_ms=own.status_ms,
        )
        head = TaskHead(
            own.key, append, Creation(own.scope, own.context_id, own.created_ms, own.node)
        )
        head.last_seq, head.n = own.last_seq, own.n
        return head

    def _adopt(self, path: Path, file: _File) -> tuple[Append, Contents]:
        return adopt(
            path,
            self._adopts,
            task=file.task,
            journal=file.journal,
            current_sequence=file.current_sequence,
        )

    def read(self, head: TaskHead) -> Contents:
        """The contents as of `head`, a copy that nobody else changes."""
        contents = self._read(head.id) if head.has_record else Contents()
        for change in head.pending:
            contents.apply(change)
        return contents

    def read_all(self, heads: Sequence[TaskHead]) -> list[Contents]:
        return [self.read(head) for head in heads]

    def _read(self, task_id: str) -> Contents:
        if self._last is None or self._last[0] != task_id:
            self._last = (task_id, self._read_file(task_id))
        return self._last[1].copy()

    def _read_file(self, task_id: str) -> Contents:
        path = self._folder / record_name(task_id)
        file = _parsed(path, path.read_bytes())
        own = file.trunkline
        if isinstance(own, _Own):
            contents = Contents()
            contents.n = own.n
            contents.entries = [entry_of(entry) for entry in own.entries]
            contents.snapshot = None if own.snapshot is None else snapshot_of(own.snapshot)
            contents.keys = list(own.idempotency)
            contents.current_sequence, contents.journal = file.current_sequence, file.journal
            contents.is_cut = own.is_cut
        else:
            _, contents = self._adopt(path, file)
        if isinstance(file.binding, Raw):
            contents.binding = file.binding
        return contents

    def write_all(self, heads: Sequence[TaskHead], pool: Executor) -> list[int]:
        """Bring the records of these tasks up to date. Returns their sizes in bytes."""
        files = []
        for head in heads:
            contents = self.read(head)
            public.bring_up_to_date(head, contents, route=self._route, store_path=str(self._folder))
            files.append((record_name(head.id), _encoded(head, contents)))
        self._last = None
        replace_all(self._folder, files, pool)
        return [len(data) for _, data in files]

    def remove_all(self, task_ids: Sequence[str]) -> None:
        self._last = None
        remove_all(self._folder, [record_name(task_id) for task_id in task_ids])


def _key_by_time(head: TaskHead) -> int:
    """The same at every start, until the record says it: in the order of their times, and
    below the keys of all tasks that the gateway itself has begun."""
    ms = min(max(head.status_ms, 0), (1 << 45) - 1)
    return (ms << 16 | zlib.crc32(head.id.encode()) & 0xFFFF) - (1 << 62)


def _parsed(path: Path, data: bytes) -> _File:
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise broken(path, "contains an invalid trunkline member", str(error)) from None


def _encoded(head: TaskHead, contents: Contents) -> bytes:
    own = _Own(
        key=head.key,
        n=contents.n,
        scope=head.scope,
        context_id=head.context_id,
        created_ms=head.created_ms,
        node=head.node,
        epoch=head.epoch,
        state=head.state,
        status_ms=head.status_ms,
        last_seq=head.last_seq,
        entries=tuple([stored_entry(entry) for entry in contents.entries]),
        snapshot=None if contents.snapshot is None else stored_snapshot(contents.snapshot),
        idempotency=tuple(contents.keys),
        is_cut=contents.is_cut,
    )
    face = public.encode(head, contents)
    # On one line and in no other form: the bytes in there are to come back as they are.
    return b"".join((face[: -len(_END)], b',\n  "trunkline": ', _encode(own), _END, b"\n"))
