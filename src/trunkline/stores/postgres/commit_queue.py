"""`CommitQueue`: appends and changes on their way into PostgreSQL, and how they fare meanwhile."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import LeaseLost, StoreError, StoreUnusable
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change
from trunkline.stores.commits import Batch, BatchingStore, Item, refuse, settle
from trunkline.stores.health import Problem
from trunkline.stores.postgres.batches import StagedBatch
from trunkline.stores.postgres.connection import LATE_S, ConnectionLost, DatabaseError
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.large_values import LargeValues
from trunkline.stores.postgres.maintenance import Maintenance
from trunkline.stores.postgres.problems import (
    SILENT,
    SLOW,
    UNREACHABLE,
    is_of_one_item,
    problem_of,
    unstorable,
)
from trunkline.stores.postgres.reader import Reader
from trunkline.stores.postgres.records import Records
from trunkline.stores.postgres.writer import Writer

# A batch that takes longer than this is a problem of the database.
_SLOW_S = 2.0
# How often it looks whether a problem is over.
_LOOK_S = 0.5
# A store that is being closed waits this long for the next answer of its database, and this long
# for a database that is away.
_CLOSE_S = 12.0
_CLOSE_AWAY_S = 1.0


class Opened(Struct, eq=False):
    loop: asyncio.AbstractEventLoop
    database: Database
    writer: Writer
    values: LargeValues
    reader: Reader
    records: Records
    maintenance: Maintenance

    async def close(self) -> None:
        await self.maintenance.close()
        await self.values.close()
        self.writer.close()
        await self.database.close()


class CommitQueue(BatchingStore[Opened]):
    """One call of the database commits a batch, and one batch is under way at a time. Appends that
    arrive meanwhile are the next batch.

    While the database is away, the store refuses new tasks and changes of records at once, because
    their callers can try again. The progress of tasks that exist waits until it is back.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name)
        self._clock = clock
        self._node = 0
        self._tasks = BackgroundTasks("store")
        # The batch under way, and when it began.
        self._commit_task: asyncio.Task[None] | None = None
        self._under_way: Batch = []
        self._began_at = 0.0
        self._is_looking = False
        # Appends that wait for their large values, by identity, of a node that was given up.
        self._given_up: set[int] = set()
        # Set when nothing is under way and nothing waits.
        self._idle = asyncio.Event()
        # For `/metrics`: the items of all batches, and how long their commits took.
        self.committed_items = 0
        self.commit_s = 0.0

    @property
    def waiting_items(self) -> int:
        """Items that wait for their batch, or for its commit."""
        return len(self._under_way) + sum([len(items) for items in self._queue])

    @property
    def node(self) -> int:
        """The node that this process is; 0 while it is none."""
        return self._node

    @node.setter
    def node(self, node: int) -> None:
        if self._node and self._node != node:
            # They were meant for lanes of the node that this process was.
            self._refuse_waiting(_has_lane, _given_up())
            if self._opened is not None:
                for waiting in self._opened.values.waiting.values():
                    self._given_up.update([id(append) for append, _ in waiting if append.lane])
        self._node = node

    async def close(self) -> None:
        opened = self._opened
        if opened is None:
            return
        if self._closed is None:
            self._closed = self._tasks.start(self._finish(opened), name="close")
        await asyncio.shield(self._closed)

    async def _finish(self, opened: Opened) -> None:
        """Commit all that was submitted, unless the database is away."""
        while self._has_work(opened):
            done = self._progress(opened)
            self._idle.clear()
            if opened.values.waiting:
                opened.values.when_idle(self._continue)
            idle = self._tasks.start(self._idle.wait(), name="idle")
            is_away = self._health.problem is not None
            await asyncio.wait({idle}, timeout=_CLOSE_AWAY_S if is_away else _CLOSE_S)
            idle.cancel()
            if not self._idle.is_set() and done == self._progress(opened):
                break
        self._opened = None
        if self._commit_task is not None:
            self._commit_task.cancel()
        left = self._under_way
        left += [item for waiting in opened.values.waiting.values() for item in waiting]
        refuse(left, UNREACHABLE.at(self._name))
        self._refuse_waiting(lambda _: True, UNREACHABLE.at(self._name))
        await opened.close()

    def _progress(self, opened: Opened) -> int:
        return opened.writer.committed + opened.values.slices

    def _has_work(self, opened: Opened) -> bool:
        return self._is_busy or bool(self._queue or opened.values.waiting)

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
        opened = self._opened
        if opened is None or self._closed is not None:
            refuse(appends, self._not_open())
            return
        if self._health.problem is not None:
            refused = [item for item in appends if _can_be_repeated(item[0])]
            if refused:
                refuse(refused, self._health.refusal())
                appends = [item for item in appends if not _can_be_repeated(item[0])]
        large = opened.values
        for append, _ in appends:
            # `size_bytes` only when the size is not known yet: this runs for every append.
            size = append.counted_bytes or append.size_bytes
            if size > SLICE_BYTES or append.values or large.waiting:
                appends = large.sort_out(appends)
                break
        if appends:
            self._submit(appends)

    def _submit_large(self, appends: Sequence[tuple[port.Append, port.Settled]]) -> None:
        """Queue an append whose large values are written."""
        ((append, _),) = appends
        if id(append) in self._given_up:
            self._given_up.discard(id(append))
            refuse(appends, _given_up())
        else:
            self._submit(appends)

    async def change(self, *changes: Change) -> None:
        if self._health.problem is not None:
            raise self._health.refusal()
        await super().change(*changes)

    def _start_next(self) -> None:
        opened = self._opened
        if opened is None or self._is_busy or not self._queue:
            return
        items = self._queue.popleft()
        assert isinstance(items, list)
        batch = StagedBatch(items, opened.values.written)
        if batch.count < len(items):
            self._queue.appendleft(items[batch.count :])
            del items[batch.count :]
        self._is_busy = True
        self._under_way = items
        self._began_at = self._clock.monotonic()
        commit = self._commit_batch(opened, items, batch)
        self._commit_task = self._tasks.start(commit, name="commit")

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
            results = [self._explain(error)] * len(items)
        else:
            self._health.wrote()
            self.committed_items += len(items)
            self.commit_s += self._clock.monotonic() - self._began_at
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

    def suspect(self) -> None:
        """Find out whether the database answers, because it was late for someone else."""
        if self._opened is not None:
            self._opened.database.suspect()

    def _late(self) -> None:
        """The writer waits for an answer."""
        self.suspect()
        if self._is_busy:
            self._tasks.spawn(self._watch_slow(self._began_at), name="slow commit")

    async def _watch_slow(self, began_at: float) -> None:
        await self._clock.sleep(_SLOW_S - LATE_S)
        if self._is_busy and self._began_at == began_at:
            self._failed(SLOW)

    def _fell_silent(self) -> None:
        self._failed(SILENT)

    def _broke(self) -> None:
        """The connection of the writer has ended, which a commit under way finds out by itself."""
        if not self._is_busy and self._closed is None:
            self._look_soon(0.0)

    def _look_soon(self, in_s: float = _LOOK_S) -> None:
        """Bring `problem` up to date, and again until there is none."""
        if not self._is_looking:
            self._is_looking = True
            self._tasks.spawn(self._look(in_s), name="look")

    async def _look(self, in_s: float) -> None:
        try:
            await self._clock.sleep(in_s)
            while self._opened is not None and self._closed is None:
                await self.check()
                if self._health.problem is None:
                    return
                await self._clock.sleep(_LOOK_S)
        finally:
            self._is_looking = False

    def _lost(self, error: ConnectionLost) -> None:
        self._failed(UNREACHABLE, str(error))

    def _failed(self, problem: Problem, detail: str = "") -> StoreUnusable:
        if self._health.problem is None:
            self._refuse_waiting(_can_be_repeated, problem.at(self._name))
            self._look_soon()
        return self._health.failed(problem, detail=detail)

    def _explain(self, error: BaseException) -> StoreError:
        if isinstance(error, StoreError):
            return error
        if not isinstance(error, DatabaseError):
            return StoreUnusable(f"The store {self._name} failed: {error!r}")
        if is_of_one_item(error):
            return unstorable(self._name, error)
        return self._failed(problem_of(error), f"{error.sqlstate}: {error}")


def _can_be_repeated(item: Item) -> bool:
    """Whether its caller waits for it, and can try again."""
    return not isinstance(item, port.Append) or not item.expected_seq


def _has_lane(item: Item) -> bool:
    return isinstance(item, port.Append) and bool(item.lane)


def _given_up() -> LeaseLost:
    return LeaseLost("The other nodes have given up the node that this process was")
