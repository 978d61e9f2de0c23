"""`PostgresStore`: durable tasks in PostgreSQL, for one process or for several nodes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import psycopg
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.clock import SystemClock
from trunkline.model.errors import LeaseLost, StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Record
from trunkline.stores.commits import Batch, BatchingStore, Item, refuse, settle
from trunkline.stores.health import Problem
from trunkline.stores.postgres.batches import StagedBatch
from trunkline.stores.postgres.connection import ConnectionLost, DatabaseError
from trunkline.stores.postgres.database import Database, display_name
from trunkline.stores.postgres.packing import int4, text
from trunkline.stores.postgres.problems import (
    SLOW,
    UNREACHABLE,
    is_of_one_item,
    problem_of,
    unsafe,
    unstorable,
)
from trunkline.stores.postgres.records import Records
from trunkline.stores.postgres.rows import entries_after, plain
from trunkline.stores.postgres.schema import migrate
from trunkline.stores.postgres.writer import SQL, Writer
from trunkline.stores.sqlite.rows import STATES

# A batch that takes longer than this is a problem of the database.
_SLOW_S = 3.0
# A store that is being closed waits this long for the next answer of the database.
_CLOSE_S = 12.0


class Opened(Struct, eq=False):
    loop: asyncio.AbstractEventLoop
    database: Database
    writer: Writer
    records: Records


class PostgresStore(BatchingStore[Opened]):
    """One call of the database commits a batch, and one batch is under way at a time. Appends that
    arrive meanwhile are the next batch.

    While the database is away, the store refuses new tasks at once, and keeps the progress of those
    that exist until the database is back.
    """

    keeps_large_values = False

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        prepares: bool = True,
        allow_unsafe: bool = False,
    ) -> None:
        """`prepares`: whether statements may be prepared, as they may not behind some poolers.
        `allow_unsafe` is for tests: the server may lose what it acknowledged."""
        super().__init__(display_name(url))
        self._url = url
        self._clock = clock or SystemClock()
        self._prepares = prepares
        self._allow_unsafe = allow_unsafe
        self._node = 0
        self._tasks = BackgroundTasks("store")
        # The batch under way, and when it began.
        self._under_way: Batch = []
        self._began_at = 0.0
        # Set when nothing is under way and nothing waits.
        self._idle = asyncio.Event()

    @property
    def node(self) -> int:
        """The node that this process is; 0 while it is none."""
        return self._node

    @node.setter
    def node(self, node: int) -> None:
        if self._node and self._node != node:
            # They were meant for lanes of the node that this process was.
            self._refuse_waiting(_has_lane, _given_up())
        self._node = node

    async def open(self) -> None:
        database = Database(self._url, prepares=self._prepares)
        writer = Writer(database, self._clock, self._lost)
        try:
            await migrate(self._url)
            off = [name for (name,) in await database.read(SQL["get_unsafe"])]
            if off and not self._allow_unsafe:
                raise unsafe(self._name, off)
            await writer.open()
        except (psycopg.Error, ConnectionLost, DatabaseError) as error:
            await database.close()
            reason = " ".join(str(error).split())
            raise StoreUnusable(f"The store {self._name} cannot be opened: {reason}") from error
        except BaseException:
            await database.close()
            raise
        self._opened = Opened(asyncio.get_running_loop(), database, writer, Records(database))

    async def close(self) -> None:
        opened = self._opened
        if opened is None:
            return
        if self._closed is None:
            self._closed = self._tasks.start(self._finish(opened), name="close")
        await asyncio.shield(self._closed)

    async def _finish(self, opened: Opened) -> None:
        committed = -1
        while (self._queue or self._is_busy) and committed != opened.writer.committed:
            committed = opened.writer.committed
            self._idle.clear()
            idle = self._tasks.start(self._idle.wait(), name="idle")
            await asyncio.wait({idle}, timeout=_CLOSE_S)
            idle.cancel()
        self._opened = None
        opened.writer.close()
        if self._under_way:
            refuse(self._under_way, UNREACHABLE.at(self._name))
            self._under_way = []
        self._refuse_waiting(lambda _: True, UNREACHABLE.at(self._name))
        await opened.database.close()

    async def check(self) -> None:
        opened = self._require_open()
        if self._is_busy:
            if self._clock.monotonic() - self._began_at > _SLOW_S:
                self._failed(SLOW)
            return
        self._is_busy = True
        self._began_at = self._clock.monotonic()
        try:
            await opened.writer.look(tries_write=self._health.problem is not None)
        except ConnectionLost as error:
            self._lost(error)
        except DatabaseError as error:
            self._explain(error)
        else:
            self._health.wrote()
        finally:
            self._is_busy = False
            self._continue()

    def submit(self, appends: Sequence[tuple[port.Append, port.Settled]]) -> None:
        if self._opened is None or self._closed is not None:
            refuse(appends, self._not_open())
            return
        if self._health.problem is not None:
            new = [item for item in appends if _is_new(item[0])]
            if new:
                refuse(new, self._health.refusal())
                appends = [item for item in appends if not _is_new(item[0])]
        if appends:
            self._submit(appends)

    def _start_next(self) -> None:
        opened = self._opened
        if opened is None or self._is_busy or not self._queue:
            return
        items = self._queue.popleft()
        assert isinstance(items, list)
        batch = StagedBatch(items, {})
        if batch.count < len(items):
            self._queue.appendleft(items[batch.count :])
            del items[batch.count :]
        self._is_busy = True
        self._under_way = items
        self._began_at = self._clock.monotonic()
        self._tasks.spawn(self._commit_batch(opened, items, batch), name="commit")

    async def _commit_batch(self, opened: Opened, items: Batch, batch: StagedBatch) -> None:
        node = self._node
        again: list[int] = []
        try:
            results, again = await opened.writer.commit(batch, node)
        except DatabaseError as error:
            if is_of_one_item(error) and len(items) > 1:
                # Each in a batch of its own, so that one does not harm the others.
                self._take_back([[item] for item in items], node)
                items, results = [], []
            else:
                results = [self._explain(error)] * len(items)
        except Exception as error:  # noqa: BLE001 - goes to the submitters of the batch
            failed = StoreUnusable(f"The store {self._name} failed: {error!r}")
            results = [failed] * len(items)
        else:
            self._health.wrote()
        if self._opened is None:
            # Closed meanwhile, and all are told.
            return
        if again:
            self._take_back([[items[place] for place in again]], node)
            items = [item for place, item in enumerate(items) if place not in again]
            results = [result for place, result in enumerate(results) if place not in again]
        self._under_way = []
        self._is_busy = False
        try:
            # Many submitters add to the next batch as soon as they are told.
            settle(opened.loop, items, results)
        finally:
            self._continue()

    def _continue(self) -> None:
        if self._queue:
            self._start_soon()
        else:
            self._idle.set()

    def _take_back(self, batches: Sequence[Batch], node: int) -> None:
        """Let these items be the next ones."""
        self._queue.extendleft(reversed(batches))
        if node != self._node:
            self._refuse_waiting(_has_lane, _given_up())

    def _refuse_waiting(self, is_refused: Callable[[Item], bool], error: StoreError) -> None:
        """Refuse some of the items that wait for a commit."""
        batches: list[Batch] = []
        refused: Batch = []
        for items in self._queue:
            assert isinstance(items, list)
            refused += [item for item in items if is_refused(item[0])]
            if left := [item for item in items if not is_refused(item[0])]:
                batches.append(left)
        self._queue.clear()
        self._queue.extend(batches)
        if refused:
            refuse(refused, error)

    def _lost(self, error: ConnectionLost) -> None:
        self._failed(UNREACHABLE, str(error))

    def _failed(self, problem: Problem, detail: str = "") -> StoreUnusable:
        if self._health.problem is None:
            # Their callers wait for an answer, and can try again.
            self._refuse_waiting(_is_new, problem.at(self._name))
        return self._health.failed(problem, detail=detail)

    def _explain(self, error: DatabaseError) -> StoreError:
        if is_of_one_item(error):
            return unstorable(self._name, error)
        return self._failed(problem_of(error), f"{error.sqlstate}: {error}")

    async def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        database = self._require_open().database
        params = [text(each) for each in (task_id, scope.agent, scope.tenant, scope.principal)]
        rows = await database.read(SQL["get_task"], params)
        if not rows:
            return None
        context, state, status_ms, created_ms, last_seq, seq, body, artifacts = rows[0]
        snapshot = None
        if seq is not None:
            snapshot = port.Snapshot(seq, plain(body), plain(artifacts))
        return port.StoredTask(
            task_id=task_id,
            scope=scope,
            context_id=context,
            state=STATES[state],
            status_ms=status_ms,
            created_ms=created_ms,
            last_seq=last_seq,
            snapshot=snapshot,
            tail=await self.entries(task_id, after=seq or 0, limit=last_seq),
        )

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        database = self._require_open().database
        params = [text(task_id), int4(after), int4(limit)]
        return entries_after(await database.read(SQL["get_entries"], params), after, limit)

    async def record(self, key: Key) -> Record | None:
        return await self._require_open().records.get(key)

    async def task_records(self, task_id: str) -> tuple[Record, ...]:
        return await self._require_open().records.of_task(task_id)

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
        return await self._require_open().records.page(
            kind, scope=scope, tag=tag, after=after, newest_first=newest_first, limit=limit
        )

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        return await self._require_open().records.claim_due(shares, lease_ms=lease_ms)

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        return await self._require_open().records.count_due(kind, scope, before_ms=before_ms)

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        return await self._require_open().records.delete_due(
            kind, scope, before_ms=before_ms, limit=limit
        )


def _is_new(item: Item) -> bool:
    return isinstance(item, port.Append) and not item.expected_seq


def _has_lane(item: Item) -> bool:
    return isinstance(item, port.Append) and bool(item.lane)


def _given_up() -> LeaseLost:
    return LeaseLost("The other nodes have given up the node that this process was")
