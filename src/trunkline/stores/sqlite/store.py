"""The store itself: what to write next, and who is told."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.store import (
    Append,
    Exchange,
    IdempotencyRecord,
    KeptNote,
    Scope,
    Settled,
    StoredTask,
    TaskPage,
    TaskQuery,
)
from trunkline.stores.health import Health
from trunkline.stores.large_appends import LargeAppends
from trunkline.stores.settling import settle
from trunkline.stores.sqlite import upkeep
from trunkline.stores.sqlite.connections import (
    Synchronous,
    cannot_open,
    create_file,
)
from trunkline.stores.sqlite.filelock import FileLock
from trunkline.stores.sqlite.inspection import OPEN, closed_mark, inspect, sync_folder
from trunkline.stores.sqlite.lists import needs_count
from trunkline.stores.sqlite.opened import Opened
from trunkline.stores.sqlite.problems import BAD_ROW, read_problem, unwritable, write_problem
from trunkline.stores.sqlite.reads import TakesLong
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.values import Values
from trunkline.stores.sqlite.writer import Item

T = TypeVar("T")
_Batch = list[tuple[Item, Settled]]

# How much may be acknowledged after the file was deleted or replaced: what commits within this
# time. A look at every commit made a send with nothing beside it 13 % more expensive.
LOOK_EVERY_S = 0.01
# The loop writes a batch in one go, at about 10 µs per append; this bounds the pause.
_MAX_BATCH = 256
# How long a batch may wait for more, in passes of the event loop: in all, and without
# any coming. With one, an agent that was just told to start is too late for the batch.
_MAX_PASSES = 64
_QUIET_PASSES = 2
# What reading raises when rows are not what they were when they were written.
_UNREADABLE = (sqlite3.Error, msgspec.DecodeError, LookupError, ValueError)


class _Job:
    """A change that is no append: runs alone, in its turn among the batches."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        self.work = work
        self.future = future


class SqliteStore:
    """Durable tasks in one file, for one process.

    The event loop writes a batch into the open transaction, and a thread commits it:
    only waiting for the disk needs a thread. What arrives meanwhile is the next batch.
    To write in the thread too took about 8 % more CPU: the two threads hand the
    interpreter lock to each other at every statement.
    """

    keeps_large_values = True

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "full",
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`look_every_s`: the least time between two looks whether the file is still there."""
        self._path = Path(path)
        self._look_every_s = look_every_s
        self._synchronous = synchronous
        self._lock = FileLock(self._path)
        self._health = Health(self._path)
        self._queue: deque[_Batch | _Job] = deque()
        self._is_busy = False
        self._is_gathering = False
        # How many appends ever came, to see whether more do.
        self._submitted = 0
        self._leases: dict[str, int] = {}
        self._opened: Opened | None = None
        self._values: Values | None = None
        self._large: LargeAppends | None = None
        self._closed: asyncio.Future[None] | None = None

    @property
    def problem(self) -> str | None:
        return self._health.problem

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
                self._path, schema, self._synchronous, look_every_s=self._look_every_s
            )
            self._values = Values(self._opened, self._run_in_turn)
            # The log is there by now, and must be found after a power cut as well.
            sync_folder(self._path)
            self._lock.write_mark(OPEN)
        except (sqlite3.Error, OSError) as error:
            self._lock.release()
            raise cannot_open(self._path, error) from error
        except BaseException:
            self._lock.release()
            raise
        self._large = LargeAppends(
            write=self._values.write,
            settled=self._values.settled,
            submit=self._submit,
            explain=self._explain,
        )
        self._values.sweep_soon()

    async def close(self) -> None:
        opened = self._opened
        if opened is None:
            return
        if self._closed is None:
            self._closed = opened.loop.create_future()
            assert self._large is not None
            assert self._values is not None
            self._values.stop_sweeping()
            self._large.when_idle(partial(self._finish_soon, self._closed))
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

    def _finish_soon(self, closed: "asyncio.Future[None]") -> None:
        self._queue.append(_Job(self._finish, closed))
        self._start_soon()

    def _finish(self) -> None:
        assert self._opened is not None
        self._opened.finish(is_lost=self._health.is_lost)

    async def check(self) -> None:
        opened = self._require_open()
        if self._health.is_lost:
            return
        if not self._is_busy:
            # Otherwise the commit under way looks after it.
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

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        large = self._large
        if self._opened is None or large is None or self._closed is not None:
            self._refuse(appends, StoreUnusable(f"The store {self._path} is not open"))
            return
        for append, _ in appends:
            # By `size_bytes` only where it is not known: this runs for every append.
            size = append.counted_bytes or append.size_bytes
            if size > SLICE_BYTES or append.values or large.waiting:
                appends = large.sort_out(appends)
                break
        if appends:
            self._submit(appends)

    def _submit(self, items: Sequence[tuple[Item, Settled]]) -> None:
        queue = self._queue
        self._submitted += len(items)
        if queue and type(queue[-1]) is list:
            queue[-1].extend(items)
            return
        queue.append(list(items))
        self._start_soon()

    def _refuse(self, appends: Sequence[tuple[Item, Settled]], error: StoreError) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(settle, loop, [(settled, error) for _, settled in appends])

    def _enqueue(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        self._require_open()
        return self._run_in_turn(work)

    def _run_in_turn(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Job(work, future))
        self._start_soon()
        return future

    def _start_soon(self) -> None:
        """Begin the next batch as soon as the loop has nothing more to add to it."""
        if self._is_busy or self._is_gathering or not self._queue:
            return
        assert self._opened is not None
        self._is_gathering = True
        self._opened.loop.call_soon(self._gather, self._submitted, 0, _MAX_PASSES)

    def _gather(self, submitted: int, quiet: int, passes: int) -> None:
        # A commit costs as much CPU as several sends, whatever is in it. So it waits while
        # the loop brings more, which is next to no time on a quiet gateway.
        quiet = 0 if self._submitted != submitted else quiet + 1
        if quiet < _QUIET_PASSES and passes and self._opened is not None:
            self._opened.loop.call_soon(self._gather, self._submitted, quiet, passes - 1)
            return
        self._is_gathering = False
        self._start_next()

    def _start_next(self) -> None:
        opened = self._opened
        if opened is None or self._is_busy:
            return
        while self._queue:
            item = self._queue.popleft()
            lost = None
            if self._health.is_lost or opened.loop.time() >= opened.watch.next_look:
                lost = self._lost(opened)
            if isinstance(item, _Job):
                if lost is not None and item.future is not self._closed:
                    if not item.future.cancelled():
                        item.future.set_exception(lost)
                    continue
                self._is_busy = True
                opened.thread.run(item.work, partial(self._job_done, item))
                return
            if lost is not None:
                self._refuse(item, lost)
                continue
            if len(item) > _MAX_BATCH:
                self._queue.appendleft(item[_MAX_BATCH:])
                del item[_MAX_BATCH:]
            try:
                results = opened.writer.apply(item)
            except Exception as error:  # noqa: BLE001 - goes to those who wait for the batch
                # Not at once: the batch before this one has yet to be told.
                refused = [self._explain(error)] * len(item)
                opened.loop.call_soon(self._settle, item, refused)
            else:
                self._is_busy = True
                opened.thread.run(opened.writer.commit, partial(self._batch_done, item, results))
                return

    def _lost(self, opened: Opened) -> StoreError | None:
        """Why nothing is to be written any more; None to go on."""
        if self._health.is_lost:
            return self._health.refusal()
        problem = opened.watch.problem_before_commit(opened.loop.time())
        return None if problem is None else self._health.failed(problem)

    def _batch_done(
        self,
        batch: _Batch,
        results: list[StoreError | None],
        _: None,
        error: BaseException | None,
    ) -> None:
        self._is_busy = False
        if error is not None:
            results = [self._explain(error)] * len(batch)
        elif self._health.problem is not None and None in results:
            self._health.wrote()
        try:
            # Being told, many have something to add to the next batch.
            self._settle(batch, results)
        finally:
            # Whatever a submitter does, the next batch starts.
            self._start_soon()

    def _job_done(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._is_busy = False
        if not job.future.cancelled():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(self._explain(error))
        self._start_soon()

    def _settle(self, batch: _Batch, results: Sequence[StoreError | None]) -> None:
        loop = asyncio.get_running_loop()
        settle(loop, [(item[1], result) for item, result in zip(batch, results, strict=True)])

    def _explain(self, error: BaseException) -> StoreError:
        if isinstance(error, sqlite3.Error):
            problem = write_problem(error)
            if problem is None:
                return unwritable(error).at(self._path)
            return self._health.failed(problem)
        if isinstance(error, StoreError):
            return error
        return StoreUnusable(f"The store {self._path} failed: {error!r}")

    def _require_open(self) -> Opened:
        if self._opened is None or self._closed is not None:
            raise StoreUnusable(f"The store {self._path} is not open")
        return self._opened

    def _read(self, read: Callable[..., T], *args: Any) -> T:
        # A point read takes less than handing it to a thread would.
        try:
            return read(*args)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    async def _read_slowly(self, read: Callable[..., T], *args: Any) -> T:
        opened = self._require_open()
        try:
            return await opened.loop.run_in_executor(opened.readers, read, *args)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreError:
        if not isinstance(error, sqlite3.Error):
            return self._health.failed(BAD_ROW, detail=repr(error))
        problem = read_problem(error)
        if problem is None:
            return StoreUnusable(f"The store {self._path} cannot be read: {error}. Try again.")
        return self._health.failed(problem)

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        opened = self._require_open()
        try:
            return self._read(opened.reader.get, scope, task_id)
        except TakesLong:
            return await self._read_slowly(opened.slow_reader.get, scope, task_id)

    async def owner(self, task_id: str) -> Scope | None:
        return self._read(self._require_open().reader.owner, task_id)

    async def remember(self, exchange: Exchange) -> None:
        await self._stored(exchange)

    async def keep(self, note: KeptNote) -> None:
        await self._stored(note)

    async def _stored(self, item: Item) -> None:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(error: StoreError | None) -> None:
            if stored.done():
                return
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(error)

        self._require_open()
        self._submit([(item, tell)])
        await stored

    async def exchanges(
        self, scope: Scope, *, context_id: str = "", limit: int
    ) -> tuple[Exchange, ...]:
        return self._read(self._require_open().reader.exchanges, scope, context_id, limit)

    async def forget_exchanges(self, agent: str, *, before_ms: int, limit: int) -> int:
        opened = self._require_open()
        # As with tasks, only who has found some asks for the writer.
        old = opened.slow_reader.old_exchanges
        found = await self._read_slowly(old, agent, before_ms, limit)
        if not found:
            return 0
        forget = partial(upkeep.forget_exchanges, opened.writer, found, before_ms=before_ms)
        return await self._enqueue(partial(opened.in_transaction, forget))

    async def count_exchanges(self, agent: str, *, before_ms: int) -> int:
        opened = self._require_open()
        return await self._read_slowly(opened.slow_reader.count_exchanges, agent, before_ms)

    async def kept(self, scope: Scope, context_id: str, name: str) -> str | None:
        return self._read(self._require_open().reader.note, scope, context_id, name)

    async def forget_notes(self, agent: str, *, before_ms: int, limit: int) -> int:
        opened = self._require_open()
        old = opened.slow_reader.old_notes
        found = await self._read_slowly(old, agent, before_ms, limit)
        if not found:
            return 0
        forget = partial(upkeep.forget_notes, opened.writer, found, before_ms=before_ms)
        return await self._enqueue(partial(opened.in_transaction, forget))

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        opened = self._require_open()
        try:
            return self._read(opened.reader.entries, task_id, after, limit)
        except TakesLong:
            return await self._read_slowly(opened.slow_reader.entries, task_id, after, limit)

    async def value_sizes(self, scope: Scope, ids: Sequence[str]) -> dict[str, int]:
        return await self._read_slowly(self._require_open().slow_reader.value_sizes, scope, ids)

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        read = self._require_open().slow_reader.value_slices
        return await self._read_slowly(read, value_id, first, limit)

    async def recall(self, scope: Scope, key: str) -> IdempotencyRecord | None:
        return self._read(self._require_open().reader.recall, scope, key)

    async def list(self, query: TaskQuery) -> TaskPage:
        opened = self._require_open()
        if not query.with_artifacts and not needs_count(query):
            with suppress(TakesLong):
                return self._read(opened.reader.list, query)
        return await self._read_slowly(opened.slow_reader.list, query)

    async def heartbeat(self, node: str, *, now_ms: int, ttl_ms: int) -> None:
        # In memory: the lock on the file proves that no node of an earlier process
        # lives, so there is nothing that a lease would have to outlast.
        self._leases[node] = now_ms + ttl_ms

    async def claim(
        self, node: str, *, now_ms: int, limit: int, task_id: str | None = None
    ) -> tuple[StoredTask, ...]:
        opened = self._require_open()
        take_over = partial(
            upkeep.take_over,
            opened.writer,
            self._leases.copy(),
            node,
            now_ms=now_ms,
            limit=limit,
            task_id=task_id,
        )
        keys = await self._enqueue(partial(opened.in_transaction, take_over))
        claimed = [await self._claimed(key) for key in keys]
        return tuple([task for task in claimed if task is not None])

    async def _claimed(self, key: int) -> StoredTask | None:
        opened = self._require_open()
        try:
            return self._read(opened.reader.claimed, key)
        except TakesLong:
            return await self._read_slowly(opened.slow_reader.claimed, key)

    async def scopes(self) -> tuple[Scope, ...]:
        return self._read(self._require_open().reader.scopes)

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        opened = self._require_open()
        return await self._read_slowly(opened.slow_reader.count_ended, agent, before_ms)

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        opened = self._require_open()
        # To look for them may take long with many scopes, and must not hold up the writer.
        found = await self._read_slowly(opened.slow_reader.ended, agent, before_ms, limit)
        if not found:
            return 0
        prune = partial(upkeep.prune, opened.writer, found)
        gone = await self._enqueue(partial(opened.in_transaction, prune))
        if self._values is not None:
            self._values.sweep_soon()
        return gone

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        opened = self._require_open()
        prune = partial(upkeep.prune_journal, opened.writer, task_id, up_to=up_to)
        await self._enqueue(partial(opened.in_transaction, prune))
