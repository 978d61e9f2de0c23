"""`Folder`: the files of the store. Each task has a record, and all other records have one file."""

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Scope
from trunkline.stores.indexes import HeadFields
from trunkline.stores.jsonfile import changes, files, public_record
from trunkline.stores.jsonfile.earlier_versions import ANSWER_FILES, NOTES_FILE
from trunkline.stores.jsonfile.foreign_records import adopt, broken, check_record
from trunkline.stores.jsonfile.record_table import RecordsFile
from trunkline.stores.jsonfile.state import Document, State
from trunkline.stores.jsonfile.tasks import Contents, TaskHead


class _Own(HeadFields, kw_only=True, rename="camel"):
    """The gateway's own part of a record, beside the public one."""

    n: int
    entries: tuple[changes.StoredEntry, ...]
    snapshot: changes.StoredSnapshot | None
    is_cut: bool
    # From an earlier version.
    idempotency: tuple[changes.StoredKey, ...] = ()


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


# Files that earlier versions had in place of records.
_EARLIER = (ANSWER_FILES, NOTES_FILE)


def _raise(error: StoreUnusable) -> None:
    raise error


def _load(load: Callable[[], None], on_broken: Callable[[StoreUnusable], None]) -> None:
    try:
        load()
    except StoreUnusable as error:
        on_broken(error)


class Folder:
    """Used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        *,
        adopts: Scope,
        route: public_record.Route = public_record.by_handle,
    ) -> None:
        self._path = path
        self._adopts = adopts
        self._route = route
        # The record that was read last: callers read a long journal page by page.
        self._last: tuple[str, Contents] | None = None

    def remove_temporaries(self) -> None:
        """Remove files that a crash left half-written."""
        for pattern in (f"*{files.RECORD}", RecordsFile.file_name, *_EARLIER):
            for path in self._path.glob(pattern + files.TEMPORARY):
                path.unlink()

    def load(self, state: State, on_broken: Callable[[StoreUnusable], None] = _raise) -> None:
        """Load all files into an empty state. `on_broken` is told of each damaged file."""
        # First: they say which data of an earlier version they hold already.
        _load(partial(state.load_records, self._path), on_broken)
        self._load_tasks(state, on_broken)
        _load(partial(state.earlier.read_files, self._path), on_broken)

    def _load_tasks(self, state: State, on_broken: Callable[[StoreUnusable], None]) -> None:
        adopted: list[TaskHead] = []
        taken: set[int] = set()
        for path in sorted(self._path.glob(f"*{files.RECORD}")):
            try:
                file, head = self._load_task(path)
            except StoreUnusable as error:
                on_broken(error)
                continue
            if not isinstance(file.trunkline, _Own):
                adopted.append(head)
                continue
            taken.add(head.key)
            state.add_task(head)
            keys = file.trunkline.idempotency
            state.earlier.add_keys(head.scope, head.id, head.n, *keys)
        for head in adopted:
            head.key = _key_by_time(head)
            while head.key in taken:
                head.key += 1
            taken.add(head.key)
            state.add_task(head)

    def _load_task(self, path: Path) -> tuple[_File, TaskHead]:
        data = path.read_bytes()
        check_record(path, data)
        file = _parsed(path, data)
        head = self._head(path, file)
        if head.file_name != path.name:
            raise broken(path, f"holds a task whose file is {head.file_name}")
        head.has_record, head.file_bytes = True, len(data)
        return file, head

    def _head(self, path: Path, file: _File) -> TaskHead:
        own = file.trunkline
        if not isinstance(own, _Own):
            return self._adopt(path, file)[0]
        fields = changes.fields_of(own, HeadFields.__struct_fields__)
        return TaskHead(id=_decode_task(file.task).id, n=own.n, **fields)

    def _adopt(self, path: Path, file: _File) -> tuple[TaskHead, Contents]:
        return adopt(path, self._adopts, file.task, file.journal, file.current_sequence)

    def read(self, head: TaskHead) -> Contents:
        """The contents as of `head`, as a copy of the caller's own."""
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
        path = self._path / files.record_name(task_id)
        file = _parsed(path, path.read_bytes())
        own = file.trunkline
        if isinstance(own, _Own):
            contents = Contents(
                n=own.n,
                entries=list(changes.entries_of(own.entries)),
                snapshot=changes.snapshot_of(own.snapshot),
                current_sequence=file.current_sequence,
                journal=file.journal,
                is_cut=own.is_cut,
            )
        else:
            _, contents = self._adopt(path, file)
        if isinstance(file.binding, Raw):
            contents.binding = file.binding
        return contents

    def write_all(self, documents: Sequence[Document], pool: Executor) -> list[int]:
        """Bring the files of these documents up to date. Returns the sizes of new files."""
        rendered = {document.file_name: self._rendered(document) for document in documents}
        self._last = None
        if replaced := [(name, data) for name, data in rendered.items() if data]:
            files.replace_all(self._path, replaced, pool)
        if emptied := [name for name, data in rendered.items() if not data]:
            files.remove_all(self._path, emptied)
        return [len(data) for data in rendered.values()]

    def replace_earlier_files(self, state: State, pool: Executor) -> None:
        """Remove the files of earlier versions, once the file of the records holds their data."""
        if state.earlier.is_new:
            state.records_file.n = state.n
            (state.records_file.file_bytes,) = self.write_all([state.records_file], pool)
        names = [path.name for pattern in _EARLIER for path in self._path.glob(pattern)]
        if names:
            files.remove_all(self._path, names)

    def _rendered(self, document: Document) -> bytes:
        """The complete file; empty when it has to go."""
        if isinstance(document, RecordsFile):
            return document.rendered()
        contents = self.read(document)
        face = public_record.encode(
            document, contents, route=self._route, store_path=str(self._path)
        )
        own = _Own(
            n=contents.n,
            entries=changes.stored_entries(contents.entries),
            snapshot=changes.stored_snapshot(contents.snapshot),
            is_cut=contents.is_cut,
            **changes.fields_of(document, HeadFields.__struct_fields__),
        )
        # On one line and not formatted: the store returns these bytes as they are.
        return b"".join((face[: -len(_END)], b',\n  "trunkline": ', _encode(own), _END, b"\n"))

    def remove_all(self, task_ids: Sequence[str]) -> None:
        self._last = None
        files.remove_all(self._path, [files.record_name(task_id) for task_id in task_ids])


def _key_by_time(head: TaskHead) -> int:
    """The same at every start, until the record holds the key: in the order of the times, and
    below the keys of all tasks that the gateway itself has begun."""
    ms = min(max(head.status_ms, 0), (1 << 45) - 1)
    return (ms << 16 | zlib.crc32(head.id.encode()) & 0xFFFF) - (1 << 62)


def _parsed(path: Path, data: bytes) -> _File:
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise broken(path, "contains an invalid trunkline member", str(error)) from None
