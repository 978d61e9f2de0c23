"""`SqliteStore`: durable tasks in one SQLite file, committed in batches."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trunkline.clock import SystemClock
from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Key, Record
from trunkline.stores.commits import Batch, DiskStore, Job, answer, refuse, settle, sync_folder
from trunkline.stores.locks import FileLock
from trunkline.stores.sqlite import retention
from trunkline.stores.sqlite.connections import Opened, Synchronous, cannot_open, create_file
from trunkline.stores.sqlite.large_values import LargeValues
from trunkline.stores.sqlite.problems import BAD_ROW, read_problem, unwritable, write_problem
from trunkline.stores.sqlite.reader import Reader, TakesLong
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.startup_check import OPEN, closed_mark, inspect
from trunkline.stores.sqlite.statements import needs_count
from trunkline.stores.sqlite.writer import Writer

T = TypeVar("T")

# The least time between two looks whether the file is still there. The store may acknowledge
# appends for this long after the file was deleted or replaced. A look at every commit made a
# single send 13 % more expensive.
LOOK_EVERY_S = 0.01
# The loop writes a batch in one go, at about 10 µs per append; this bounds the pause.
_MAX_BATCH = 256
# Errors of reading a row that has changed since it was written.
_UNREADABLE = (sqlite3.Error, msgspec.DecodeError, LookupError, ValueError)


class SqliteStore(DiskStore[Opened]):
    """Durable tasks in one file, for one process.

    The event loop writes a batch into the open transaction, and a thread commits it:
    only waiting for the disk needs a thread. Appends that arrive meanwhile are the next
    batch. To write in the thread too took about 8 % more CPU: the two threads hand the
    interpreter lock to each other at every statement.
    """

    keeps_large_values = True

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "full",
        look_every_s: float = LOOK_EVERY_S,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(path)
        self._clock = clock or SystemClock()
        self._look_every_s = look_every_s
        self._synchronous = synchronous
        self._lock = FileLock(self._path)
        self._values: LargeValues | None = None

    async def open(self) -> None:
        try:
            existed = self._path.exists()
            create_file(self._path)
            self._lock.acquire()
        except OSError as error:
            raise cannot_open(self._path, error) from error
        schema = shipped_schema()
        try:
            inspect(self._path, schema, self._lock.mark, existed=existed)
            self._opened = Opened(
                self._path,
                schema,
                self._synchronous,
                look_every_s=self._look_every_s,
                clock=self._clock,
            )
            self._values = LargeValues(self._opened, self._enqueue, self._submit, self._explain)
            # The name of the log must survive a power cut, too.
            sync_folder(self._path.parent)
            self._lock.write_mark(OPEN)
        except (sqlite3.Error, OSError) as error:
            self._lock.release()
            raise cannot_open(self._path, error) from error
        except BaseException:
            self._lock.release()
            raise
        self._values.sweep_soon()

    async def close(self) -> None:
        opened = self._opened
        if opened is None:
            return
        if self._closed is None:
            self._closed = opened.loop.create_future()
            assert self._values is not None
            self._values.stop_sweeping()
            finish = partial(opened.finish, self._health)
            self._values.when_idle(partial(self._enqueue, finish, self._closed))
        try:
            await asyncio.shield(self._closed)
        finally:
            if self._opened is not None and self._closed.done():
                self._opened = None
                opened.thread.stop()
                opened.readers.shutdown()
                if not self._health.is_lost:
                    self._lock.write_mark(closed_mark(self._path))
                self._lock.release()

    async def check(self) -> None:
        opened = self._require_open()
        if self._health.is_lost:
            return
        if not self._is_busy:
            # The commit under way looks at the files otherwise.
            problem = opened.watch.thorough_problem()
            if problem is not None:
                self._health.failed(problem)
                return
        if self._health.problem is not None:
            try:
                await self._enqueue(opened.try_write)
            except StoreUnusable:
                return
            self._health.wrote()

    def submit(self, appends: Sequence[tuple[port.Append, port.Settled]]) -> None:
        large = self._values
        if self._opened is None or large is None or self._closed is not None:
            refuse(appends, self._not_open())
            return
        for append, _ in appends:
            # `size_bytes` only when the size is not known yet: this runs for every append.
            size = append.counted_bytes or append.size_bytes
            if size > SLICE_BYTES or append.values or large.waiting:
                appends = large.sort_out(appends)
                break
        if appends:
            self._submit(appends)

    def _start_next(self) -> None:
        opened = self._opened
        if opened is None or self._is_busy:
            return
        while self._queue:
            item = self._queue.popleft()
            lost = None
            if self._health.is_lost or opened.loop.time() >= opened.watch.next_look:
                lost = self._lost(opened)
            if isinstance(item, Job):
                if lost is not None and item.future is not self._closed:
                    answer(item.future, None, lost)
                    continue
                self._is_busy = True
                opened.thread.run(item.work, partial(self._job_done, item))
                return
            if lost is not None:
                refuse(item, lost)
                continue
            if len(item) > _MAX_BATCH:
                self._queue.appendleft(item[_MAX_BATCH:])
                del item[_MAX_BATCH:]
            try:
                results = opened.writer.apply(item)
            except Exception as error:  # noqa: BLE001 - goes to the submitters of the batch
                # In a later pass: the submitters of the previous batch are told first.
                refuse(item, self._explain(error))
            else:
                self._is_busy = True
                done = partial(self._batch_done, opened.loop, item, results)
                opened.thread.run(opened.writer.commit, done)
                return

    def _lost(self, opened: Opened) -> StoreError | None:
        """Why the store must not write any more; None while it may."""
        if self._health.is_lost:
            return self._health.refusal()
        problem = opened.watch.problem_before_commit(opened.loop.time())
        return None if problem is None else self._health.failed(problem)

    def _batch_done(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: Batch,
        results: list[port.Result],
        _: None,
        error: BaseException | None,
    ) -> None:
        self._is_busy = False
        if error is not None:
            results = [self._explain(error)] * len(batch)
        elif self._health.problem is not None and None in results:
            self._health.wrote()
        try:
            # Many submitters add to the next batch as soon as they are told.
            settle(loop, batch, results)
        finally:
            # The next batch starts whatever a submitter does.
            if self._queue:
                self._start_soon()

    def _job_done(self, job: Job, result: Any, error: BaseException | None) -> None:
        self._is_busy = False
        answer(job.future, result, None if error is None else self._explain(error))
        self._start_soon()

    def _explain(self, error: BaseException) -> StoreError:
        if isinstance(error, sqlite3.Error):
            problem = write_problem(error)
            if problem is None:
                return unwritable(error).at(self._path)
            return self._health.failed(problem)
        if isinstance(error, StoreError):
            return error
        return StoreUnusable(f"The store {self._path} failed: {error!r}")

    async def _read(self, read: Callable[..., T], *args: Any) -> T:
        """Call a method of `Reader` here: a point read takes less than handing it to a thread."""
        opened = self._require_open()
        try:
            return read(opened.reader, *args)
        except TakesLong:
            return await self._read_in_thread(read, *args)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    async def _read_in_thread(self, read: Callable[..., T], *args: Any) -> T:
        opened = self._require_open()
        try:
            return await opened.loop.run_in_executor(
                opened.readers, read, opened.slow_reader, *args
            )
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreError:
        if not isinstance(error, sqlite3.Error):
            return self._health.failed(BAD_ROW, detail=repr(error))
        problem = read_problem(error)
        if problem is None:
            return StoreUnusable(f"The store {self._path} cannot be read: {error}. Try again.")
        return self._health.failed(problem)

    async def _change(self, change: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a function of `Writer` in a transaction, in its turn among the batches."""
        opened = self._require_open()
        work = partial(change, opened.writer, *args, **options)
        return await self._enqueue(partial(opened.in_transaction, work))

    async def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        return await self._read(Reader.get, scope, task_id)

    async def owner(self, task_id: str) -> port.Scope | None:
        return await self._read(Reader.owner, task_id)

    async def record(self, key: Key) -> Record | None:
        return await self._read(lambda reader: reader.records.record(key))

    async def task_records(self, task_id: str) -> tuple[Record, ...]:
        return await self._read(Reader.task_records, task_id)

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
        return await self._read_in_thread(
            lambda reader: reader.records.page(
                kind, scope=scope, tag=tag, after=after, newest_first=newest_first, limit=limit
            )
        )

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        # A look costs far less than a transaction of the writer, and mostly nothing is due.
        now_ms = self._clock.now_ms()
        if not await self._read(lambda reader: reader.records.has_due(shares, now_ms)):
            return ()
        return await self._change(
            lambda writer: writer.records.claim_due(shares, lease_ms=lease_ms)
        )

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        return await self._read_in_thread(
            lambda reader: reader.records.count_due(kind, scope, before_ms=before_ms)
        )

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        # As for a claim: mostly nothing is old enough.
        if not await self._read(
            lambda reader: reader.records.has_older(kind, scope, before_ms=before_ms)
        ):
            return 0
        return await self._change(
            lambda writer: writer.records.delete_due(kind, scope, before_ms=before_ms, limit=limit)
        )

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        return await self._read(Reader.entries, task_id, after, limit)

    async def value_sizes(self, scope: port.Scope, ids: Sequence[str]) -> dict[str, int]:
        return await self._read_in_thread(Reader.value_sizes, scope, ids)

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        return await self._read_in_thread(Reader.value_slices, value_id, first, limit)

    async def list(self, query: port.TaskQuery) -> port.TaskPage:
        is_long = query.with_artifacts or needs_count(query)
        return await (self._read_in_thread if is_long else self._read)(Reader.list, query)

    async def list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        return await self._read_in_thread(Reader.list_all, query)

    async def unfinished(self) -> tuple[tuple[port.Scope, str], ...]:
        return await self._read_in_thread(Reader.unfinished)

    async def scopes(self) -> tuple[port.Scope, ...]:
        return await self._read(Reader.scopes)

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        return await self._read_in_thread(Reader.count_ended, agent, before_ms)

    async def tasks_after(
        self, number: int | None, *, limit: int
    ) -> Sequence[tuple[int, port.Scope, str]]:
        return await self._read_in_thread(Reader.tasks_after, number, limit)

    async def records_after(self, key: Key | None, *, limit: int) -> Sequence[RecordCopy]:
        return await self._read_in_thread(Reader.records_after, key, limit)

    async def put_copies(self, copies: Sequence[RecordCopy]) -> None:
        await self._change(Writer.put_copies, copies)

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        found = await self._read_in_thread(Reader.ended, agent, before_ms, limit)
        gone = await self._change(retention.prune, found) if found else 0
        if gone and self._values is not None:
            self._values.sweep_soon()
        return gone

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        await self._change(retention.prune_journal, task_id, up_to=up_to)
