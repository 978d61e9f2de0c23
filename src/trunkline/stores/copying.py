"""`StoreCopy`: copies all tasks and records of a store to another one of any kind.

The target has a record of how far the copy is, so that one that was killed is continued. At the
end both stores are read again and compared, task by task. The comparison does not depend on the
kinds of the stores: large texts count where they are referred to, wherever a store keeps them.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.model.errors import StaleSeq, StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK, LargeValue, referred_ids, split, text_of_slices
from trunkline.ports.copying import UNFINISHED_COPY, CopyableStore, RecordCopy
from trunkline.ports.records import Delete, Key, Put
from trunkline.ports.store import (
    Append,
    Creation,
    OperatorQuery,
    Result,
    Scope,
    Settled,
    Snapshot,
    StoredTask,
)

# Tasks between two notes of the place, and those of them that are read at the same time.
_TASKS_AT_ONCE: Final = 64
_READS_AT_ONCE: Final = 8
# What is in memory at a time, beside the tasks that are being read.
_MAX_BYTES: Final = 8 * 1024 * 1024
_ENTRIES_AT_ONCE: Final = 1000
_RECORDS_AT_ONCE: Final = 500

_encode = msgspec.json.Encoder().encode


class Progress(Struct, frozen=True):
    step: str
    done: int
    # None when it is not known before the end.
    total: int | None = None


class Copied(Struct, frozen=True):
    """What both stores have after a copy."""

    tasks: int
    records: int
    # Equal for stores with equal tasks and records, whatever their kinds.
    hash: str


class _Place(Struct, frozen=True):
    """How far a copy is: the body of its record."""

    source: str
    # The number of the last task in the source, and how many there are so far.
    task: int | None = None
    tasks: int = 0
    # Kind, scope and id of the last record.
    record: tuple[str, str, str] | None = None
    records: int = 0


class _Task(Struct, frozen=True):
    stored: StoredTask
    entries: tuple[Entry, ...]


class StoreCopy:
    def __init__(
        self,
        source: CopyableStore,
        target: CopyableStore,
        *,
        name: str,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Both stores are open, and no gateway uses them. `name` is that of the source, without a
        password: a copy is continued from the store of the same name."""
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._place = _Place(name)

    async def run(self) -> Copied:
        """Raises StoreError."""
        await self._begin()
        await self._copy_tasks()
        await self._copy_records()
        copied = await self._compare()
        await self._target.change(Delete(key=UNFINISHED_COPY))
        return copied

    async def _begin(self) -> None:
        record = await self._target.record(UNFINISHED_COPY)
        if record is not None:
            place = msgspec.json.decode(record.body, type=_Place)
            if place.source != self._place.source:
                raise StoreUnusable(
                    f"The target holds a part of {place.source}, whose copy has not ended. "
                    "Continue that one, or give an empty target."
                )
            self._place = place
        elif await self._target.tasks_after(None, limit=1) or await self._target.records_after(
            None, limit=1
        ):
            raise StoreUnusable(
                "The target has tasks or records of its own already. Give an empty one, such as a "
                "new file or a new database."
            )
        else:
            await self._remember(self._place)

    async def _remember(self, place: _Place) -> None:
        await self._target.change(Put(key=UNFINISHED_COPY, body=_encode(place)))
        self._place = place

    async def _copy_tasks(self) -> None:
        total = await _count_tasks(self._source)
        while True:
            place = self._place
            found = await self._source.tasks_after(place.task, limit=_TASKS_AT_ONCE)
            if not found:
                return
            appends: list[Append] = []
            size = 0
            async for task in _read_tasks(self._source, found):
                append = await self._append(task)
                appends.append(append)
                size += append.size_bytes + sum([len(value.text) for value in append.values])
                if size > _MAX_BYTES:
                    await self._write(appends)
                    appends, size = [], 0
            await self._write(appends)
            number, done = found[-1][0], place.tasks + len(found)
            await self._remember(msgspec.structs.replace(place, task=number, tasks=done))
            self._on_progress(Progress("copied tasks", done, total))

    async def _append(self, task: _Task) -> Append:
        """The whole task in one append, which begins behind the entries that were pruned."""
        stored, entries = task.stored, task.entries
        values: tuple[LargeValue, ...] = ()
        if self._target.keeps_large_values:
            values = await self._values(task)
        else:
            stored, entries = await _with_texts(self._source, task)
        return Append(
            task_id=stored.task_id,
            expected_seq=stored.last_seq - len(entries),
            entries=entries,
            state=stored.state,
            status_ms=stored.status_ms,
            creation=Creation(stored.scope, stored.context_id, stored.created_ms),
            snapshot=stored.snapshot,
            values=values,
            keeps_times=True,
        )

    async def _values(self, task: _Task) -> tuple[LargeValue, ...]:
        """The large texts of the task that the target does not have."""
        scope = task.stored.scope
        ids = dict.fromkeys(
            each for body in _bodies(task) if MARK in body for each in referred_ids(body)
        )
        if not ids or not self._source.keeps_large_values:
            return ()
        sizes = await self._source.value_sizes(scope, [*ids])
        known = await self._target.value_sizes(scope, [*sizes])
        return tuple(
            [
                LargeValue(each, text_of_slices(await _slices(self._source, each, size)))
                for each, size in sizes.items()
                if each not in known
            ]
        )

    async def _write(self, appends: Sequence[Append]) -> None:
        loop = asyncio.get_running_loop()
        results: list[asyncio.Future[Result]] = [loop.create_future() for _ in appends]
        settled: list[Settled] = [future.set_result for future in results]
        self._target.submit([*zip(appends, settled, strict=True)])
        for append, future in zip(appends, results, strict=True):
            result = await future
            # One that is there was written right before the copy was killed.
            if isinstance(result, StoreError) and not isinstance(result, StaleSeq):
                raise StoreUnusable(f"Task {append.task_id} cannot be copied: {result.message}")

    async def _copy_records(self) -> None:
        while True:
            place = self._place
            after = None if place.record is None else Key(*place.record)
            found = await self._source.records_after(after, limit=_RECORDS_AT_ONCE)
            if not found:
                return
            await self._target.put_copies([each for each in found if not _is_mark(each)])
            last = found[-1].record.key
            done = place.records + len(found)
            where = (last.kind, last.scope, last.id)
            await self._remember(msgspec.structs.replace(place, record=where, records=done))
            self._on_progress(Progress("copied records", done))

    async def _compare(self) -> Copied:
        """Read both stores again. Raises StoreUnusable that names the first difference."""
        total = await _count_tasks(self._source)
        sums = hashlib.blake2b(digest_size=32)
        tasks = records = 0
        pairs = _pairs(_task_digests(self._source), _task_digests(self._target))
        async for one, other in pairs:
            _require_equal("task", one, other)
            sums.update(one.digest)
            tasks += 1
            if tasks % 1000 == 0:
                self._on_progress(Progress("compared tasks", tasks, total))
        pairs = _pairs(_record_digests(self._source), _record_digests(self._target))
        async for one, other in pairs:
            _require_equal("record", one, other)
            sums.update(one.digest)
            records += 1
        return Copied(tasks, records, sums.hexdigest())


class _Digest(Struct, frozen=True):
    name: str
    digest: bytes


_NONE = _Digest("none", b"")


async def _pairs(
    one: AsyncIterator[_Digest], other: AsyncIterator[_Digest]
) -> AsyncIterator[tuple[_Digest, _Digest]]:
    while True:
        pair = await anext(one, _NONE), await anext(other, _NONE)
        if pair == (_NONE, _NONE):
            return
        yield pair


def _require_equal(what: str, source: _Digest, target: _Digest) -> None:
    if source == target:
        return
    names = " and ".join(dict.fromkeys((source.name, target.name)))
    raise StoreUnusable(
        f"The copy is not equal to its source: {what} {names} differs. The source was changed "
        "meanwhile, or one of the two stores is damaged. See that no gateway uses them, check them "
        "with `trunkline db check`, and copy again to an empty target."
    )


async def _task_digests(store: CopyableStore) -> AsyncIterator[_Digest]:
    number: int | None = None
    while found := await store.tasks_after(number, limit=_TASKS_AT_ONCE):
        number = found[-1][0]
        async for task in _read_tasks(store, found):
            yield _Digest(task.stored.task_id, _task_digest(*await _with_texts(store, task)))


async def _record_digests(store: CopyableStore) -> AsyncIterator[_Digest]:
    key: Key | None = None
    while found := await store.records_after(key, limit=_RECORDS_AT_ONCE):
        key = found[-1].record.key
        for each in found:
            if not _is_mark(each):
                key = each.record.key
                yield _Digest(f"{key.kind} {key.id!r}", _record_digest(each))


def _is_mark(copy: RecordCopy) -> bool:
    return copy.record.key == UNFINISHED_COPY


def _task_digest(stored: StoredTask, entries: Sequence[Entry]) -> bytes:
    snapshot = stored.snapshot
    head = (
        stored.task_id,
        stored.scope,
        stored.context_id,
        stored.state,
        stored.status_ms,
        stored.created_ms,
        stored.last_seq,
        None if snapshot is None else snapshot.seq,
        [(entry.seq, entry.kind, entry.committed_ms) for entry in entries],
    )
    return _digest(head, *_bodies(_Task(stored, tuple(entries))))


def _record_digest(copy: RecordCopy) -> bytes:
    record = copy.record
    head = (
        record.key,
        record.version,
        record.count,
        record.due_ms,
        record.attempts,
        record.tags,
        copy.task_id,
    )
    return _digest(head, record.body)


def _digest(head: object, *bodies: bytes) -> bytes:
    made = hashlib.blake2b(_encode(head), digest_size=16)
    for body in bodies:
        made.update(b"%d:" % len(body))
        made.update(body)
    return made.digest()


def _bodies(task: _Task) -> list[bytes]:
    bodies = [entry.body for entry in task.entries]
    snapshot = task.stored.snapshot
    return bodies if snapshot is None else [*bodies, snapshot.task, snapshot.artifacts]


async def _count_tasks(store: CopyableStore) -> int:
    return (await store.list_all(OperatorQuery(limit=1))).total


async def _read_tasks(
    store: CopyableStore, found: Sequence[tuple[int, Scope, str]]
) -> AsyncIterator[_Task]:
    for start in range(0, len(found), _READS_AT_ONCE):
        step = found[start : start + _READS_AT_ONCE]
        for task in await asyncio.gather(*[_read_task(store, *each[1:]) for each in step]):
            yield task


async def _read_task(store: CopyableStore, scope: Scope, task_id: str) -> _Task:
    stored = await store.get(scope, task_id)
    if stored is None:
        raise StoreUnusable(f"Task {task_id} is gone. Stop what changes the store, and try again.")
    entries: list[Entry] = []
    last = 0
    while found := await store.entries(task_id, after=last, limit=_ENTRIES_AT_ONCE):
        entries += found
        last = found[-1].seq
        if len(found) < _ENTRIES_AT_ONCE:
            break
    return _Task(stored, tuple(entries))


async def _with_texts(store: CopyableStore, task: _Task) -> tuple[StoredTask, tuple[Entry, ...]]:
    """The task with its large texts in place of references."""
    stored, entries = task.stored, task.entries
    if not store.keeps_large_values or not any(MARK in body for body in _bodies(task)):
        return stored, entries
    made = [
        Entry(
            entry.seq,
            entry.kind,
            await _whole(store, stored.scope, entry.body),
            committed_ms=entry.committed_ms,
        )
        for entry in entries
    ]
    snapshot = stored.snapshot
    if snapshot is not None:
        body, artifacts = [
            await _whole(store, stored.scope, each) for each in (snapshot.task, snapshot.artifacts)
        ]
        stored = msgspec.structs.replace(stored, snapshot=Snapshot(snapshot.seq, body, artifacts))
    return stored, tuple(made)


async def _whole(store: CopyableStore, scope: Scope, data: bytes) -> bytes:
    if MARK not in data:
        return data
    sizes = await store.value_sizes(scope, referred_ids(data))
    pieces: list[bytes] = []
    for piece in split(data, sizes):
        if isinstance(piece, str):
            pieces += await _slices(store, piece, sizes[piece])
        else:
            pieces.append(piece)
    return b"".join(pieces)


async def _slices(store: CopyableStore, value: str, size: int) -> list[bytes]:
    slices: list[bytes] = []
    while found := await store.value_slices(value, first=len(slices), limit=16):
        slices += found
    if sum(map(len, slices)) != size:
        raise StoreUnusable(f"The large text {value} is not complete. Run `trunkline db check`.")
    return slices
