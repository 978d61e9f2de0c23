"""`JsonFileStore`: durable tasks in a folder of JSON files, committed in batches."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Group, Key, Put, Record
from trunkline.stores.commits import Batch, DiskStore, Item, Job, answer, refuse, settle
from trunkline.stores.indexes import IndexedStore, TaskIndex, entries_after
from trunkline.stores.jsonfile import files
from trunkline.stores.jsonfile.changes import Change, Deleted
from trunkline.stores.jsonfile.folder import Folder
from trunkline.stores.jsonfile.log import Log
from trunkline.stores.jsonfile.opened import Opened
from trunkline.stores.jsonfile.public_record import Route, by_handle, session_key_in
from trunkline.stores.jsonfile.record_table import record_of
from trunkline.stores.jsonfile.state import State
from trunkline.stores.jsonfile.tasks import Contents, TaskHead
from trunkline.stores.locks import WriterLock

T = TypeVar("T")

# With a log of this size, the store writes all files so that the log can go. Never before the
# log is as long as the files to write again, or long tasks would cost more the longer they get.
_LOG_BYTES = 16 * 1024 * 1024
# Bounds the memory for the line of a commit, and the time for which later changes wait. An
# append that is larger has a commit of its own.
_MAX_ITEMS = 256
_MAX_BYTES = 4 * 1024 * 1024


class JsonFileStore(DiskStore[Opened], IndexedStore[TaskHead]):
    """Durable tasks in a folder of JSON files, for one process."""

    # A task is one file, and other programs read it too, so its large texts stay in it.
    keeps_large_values = False

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        adopts: port.Scope,
        route: Route = by_handle,
        lock_wait_s: float = 10.0,
        log_bytes: int = _LOG_BYTES,
    ) -> None:
        """`adopts`: the scope of the tasks that another program has left in the folder. `route`
        says which session a task belongs to; it is called in another thread."""
        super().__init__(path)
        self._clock = clock
        self._lock = WriterLock(self._path, clock, wait_s=lock_wait_s)
        self._folder = Folder(self._path, adopts=adopts, route=route)
        self._log_bytes = log_bytes

    async def open(self) -> None:
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._lock.acquire()
        except OSError as error:
            raise files.cannot_open(self._path, error) from error
        opened = Opened(
            Log(self._path),
            self._folder,
            clock=self._clock,
            log_bytes=self._log_bytes,
            on_written=self._start_soon,
            on_damage=self._found_damage,
        )
        try:
            await opened.load()
        except BaseException as error:
            opened.stop()
            self._lock.release()
            if isinstance(error, OSError):
                raise files.cannot_open(self._path, error) from error
            raise
        self._opened = opened

    async def close(self) -> None:
        opened = self._opened
        if opened is None:
            return
        if self._closed is None:
            self._closed = self._enqueue(lambda: [])
        await asyncio.shield(self._closed)
        if self._opened is None:  # closed by another caller meanwhile
            return
        self._opened = None
        try:
            # Files that were replaced or damaged stay as they are.
            if not self._health.is_lost:
                await opened.finish()
        finally:
            opened.stop()
            self._lock.release()

    async def check(self) -> None:
        opened = self._require_open()
        if self._health.is_lost:
            return
        was_failing = self._health.problem is not None
        try:
            await opened.look(tries_to_write=was_failing)
        except (files.Lost, OSError) as error:
            self._explain(error)
        else:
            if was_failing:
                self._health.wrote()

    def _found_damage(self, error: BaseException) -> None:
        self._health.failed(files.BAD_RECORD, detail=str(error))

    def _state(self) -> State:
        return self._require_open().state

    def _tasks(self) -> TaskIndex[TaskHead]:
        return self._state().tasks

    def submit(self, appends: Sequence[tuple[port.Append, port.Settled]]) -> None:
        if self._opened is None or self._closed is not None:
            refuse(appends, self._not_open())
        else:
            self._submit(appends)

    def _start_next(self) -> None:
        while self._queue and (opened := self._opened) is not None:
            if self._is_busy or opened.is_behind:
                return
            item = self._queue.popleft()
            outcome: Sequence[Any]
            changes: Sequence[Change]
            try:
                if isinstance(item, Job):
                    outcome = changes = item.work()
                else:
                    self._split(item)
                    outcome, changes = opened.state.stage(item)
            except Exception as error:  # noqa: BLE001 - goes to the submitters
                _report(item, (), self._explain(error))
                continue
            if changes and self._health.is_lost:
                _report(item, (), self._health.refusal())
            elif changes:
                self._is_busy = True
                opened.commit(changes, partial(self._committed, item, outcome))
            else:
                _report(item, outcome, None)

    def _split(self, batch: Batch) -> None:
        """Put back the items that are too many for one commit."""
        size = 0
        for count, (item, _) in enumerate(batch):
            size += _size_bytes(item)
            if count and (count == _MAX_ITEMS or size > _MAX_BYTES):
                self._queue.appendleft(batch[count:])
                del batch[count:]
                return

    def _committed(
        self, item: Batch | Job, outcome: Sequence[Any], error: BaseException | None
    ) -> None:
        self._is_busy = False
        if error is None and self._health.problem is not None:
            self._health.wrote()
        try:
            # Many submitters add to the next commit as soon as they are told.
            _report(item, outcome, None if error is None else self._explain(error))
        finally:
            # The next commit starts whatever a submitter does.
            self._start_soon()

    def _explain(self, error: BaseException) -> StoreError:
        if isinstance(error, OSError):
            return self._health.failed(files.write_problem(error), detail=str(error))
        if isinstance(error, files.Lost):
            return self._health.failed(error.problem)
        return StoreUnusable(f"The store {self._path} failed: {error!r}")

    async def _stored(
        self, heads: Sequence[TaskHead], *, with_artifacts: bool = True
    ) -> tuple[port.StoredTask, ...]:
        captured = [head.capture() for head in heads]
        pairs = zip(captured, await self._contents(captured), strict=True)
        return tuple([_stored(*each, with_artifacts=with_artifacts) for each in pairs])

    async def _contents(self, captured: Sequence[TaskHead]) -> Sequence[Contents]:
        read = partial(self._folder.read_all, captured)
        if any(head.has_record for head in captured):
            return await self._from_disk(self._require_open().in_files(read))
        return read()

    async def _from_disk(self, reading: "asyncio.Future[T]") -> T:
        try:
            return await reading
        except OSError as error:
            problem = files.read_problem(error)
            if problem is not None:
                self._health.failed(problem, detail=str(error))
            raise files.cannot_read(self._path, error) from error
        except StoreUnusable as error:
            self._found_damage(error)
            raise

    async def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        head = self._tasks().of_scope(scope, task_id)
        if head is None:
            return None
        (task,) = await self._stored([head])
        return task

    async def record(self, key: Key) -> Record | None:
        return self._state().records.record(key)

    async def task_records(self, task_id: str) -> tuple[Record, ...]:
        return self._state().records.of_task(task_id)

    async def records(
        self,
        kind: str,
        *,
        scope: str | None = None,
        tag: str | None = None,
        after: Key | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> tuple[Record, ...]:
        return self._state().records.page(
            kind, scope=scope, tag=tag, after=after, newest_first=newest_first, limit=limit
        )

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        state = self._state()
        # Mostly nothing is due, and then the claim need not wait for its turn.
        if not state.records.has_due(shares, self._clock.now_ms()):
            return ()
        changes = await self._enqueue(partial(state.claim_due, shares, lease_ms=lease_ms))
        rows = [row for change in changes for row in change.rows]
        return tuple([record_of(row, claimed_ms=row.held_until_ms - lease_ms) for row in rows])

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        return self._state().records.count_due(kind, scope, before_ms=before_ms)

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        delete = partial(self._state().delete_due, kind, scope, before_ms=before_ms, limit=limit)
        return sum(len(change.rows) for change in await self._enqueue(delete))

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        head = self._tasks().get(task_id)
        if head is None or head.last_seq <= after:
            return ()
        (contents,) = await self._contents([head.capture()])
        return tuple(entries_after(contents.entries, after)[:limit])

    async def value_sizes(self, scope: port.Scope, ids: Sequence[str]) -> dict[str, int]:
        return {}

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        return ()

    async def list(self, query: port.TaskQuery) -> port.TaskPage:
        heads, total, position = self._tasks().page(query)
        tasks = await self._stored(heads, with_artifacts=query.with_artifacts)
        return port.TaskPage(tasks=tasks, total=total, next=position)

    async def list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        heads, total, position = self._tasks().page_of_all(query)
        # A head moves when its task goes on.
        places = tuple([(head.status_ms, head.key) for head in heads])
        tasks = await self._stored(heads, with_artifacts=False)
        if query.without_tails:
            tasks = tuple([replace(task, tail=()) for task in tasks])
        return port.TaskPage(tasks=tasks, total=total, next=position, places=places)

    async def tasks_after(
        self, number: int | None, *, limit: int
    ) -> Sequence[tuple[int, port.Scope, str]]:
        return self._tasks().after(number, limit)

    async def records_after(self, key: Key | None, *, limit: int) -> Sequence[RecordCopy]:
        return self._state().records.copies_after(key, limit)

    async def put_copies(self, copies: Sequence[RecordCopy]) -> None:
        await self._enqueue(partial(self._state().put_copies, copies))

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        prune = self._state().prune
        changes = await self._enqueue(partial(prune, agent, limit=limit, before_ms=before_ms))
        return sum(isinstance(change, Deleted) for change in changes)

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        await self._enqueue(partial(self._state().cut, task_id, up_to=up_to))


def _size_bytes(item: Item) -> int:
    if isinstance(item, Group):
        return sum([len(change.body) for change in item.changes if isinstance(change, Put)])
    return item.size_bytes + sum([_size_bytes(group) for group in item.also])


def _report(item: Batch | Job, outcome: Sequence[Any], error: StoreError | None) -> None:
    """`outcome`: the changes of a job, or one result per item of a batch."""
    if isinstance(item, Job):
        answer(item.future, outcome, error)
    else:
        results = outcome if error is None else [error] * len(item)
        settle(asyncio.get_running_loop(), item, results)


def _stored(head: TaskHead, contents: Contents, *, with_artifacts: bool = True) -> port.StoredTask:
    stored = head.stored(contents.snapshot, contents.entries, with_artifacts=with_artifacts)
    # Lists go to callers, who must not learn of sessions.
    key = session_key_in(head, contents) if with_artifacts else ""
    return replace(stored, session_key=key) if key else stored
