"""A store that forgets at exit: for trials, and for tests that need no disk."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice

from trunkline.model.errors import KeyTaken, StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.store import (
    Append,
    Creation,
    Exchange,
    IdempotencyRecord,
    Scope,
    Settled,
    Snapshot,
    StoredTask,
    TaskPage,
    TaskQuery,
)
from trunkline.stores.heads import RUNNABLE, refusal
from trunkline.stores.settling import settle


class _Task:
    __slots__ = (
        "creation",
        "epoch",
        "id",
        "idempotency_keys",
        "journal",
        "key",
        "last_seq",
        "node",
        "snapshot",
        "state",
        "status_ms",
    )

    def __init__(self, key: int, append: Append, creation: Creation) -> None:
        self.key = key
        self.id = append.task_id
        self.creation = creation
        self.node = creation.node
        self.epoch = append.epoch
        self.state = append.state
        self.status_ms = append.status_ms
        self.last_seq = 0
        self.journal: list[Entry] = []
        self.snapshot: Snapshot | None = None
        self.idempotency_keys: list[tuple[Scope, str]] = []

    def after(self, seq: int) -> Sequence[Entry]:
        """The entries above `seq`; the journal has no holes but may miss its beginning."""
        if not self.journal:
            return ()
        return self.journal[max(0, seq - self.journal[0].seq + 1) :]


# Tasks in the order of a list, oldest first: (status_ms, key). Nearly every change is
# at the end, so that a plain sorted list is as good as a tree.
_Order = list[tuple[int, int]]


class MemoryStore:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[tuple[Append, Settled]] = []
        self._tasks: dict[str, _Task] = {}
        self._by_key: dict[int, _Task] = {}
        self._next_key = 1
        self._orders: dict[tuple[Scope, str, TaskState | None], _Order] = {}
        self._to_do: dict[int, _Task] = {}
        self._ended: _Order = []
        self._records: dict[tuple[Scope, str], IdempotencyRecord] = {}
        self._exchanges: dict[Scope, list[Exchange]] = {}
        self._leases: dict[str, int] = {}

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        self._flush()
        self._loop = None

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self._loop is None:
            closed = StoreUnusable("The store is not open")
            loop = asyncio.get_running_loop()
            loop.call_soon(settle, loop, iter([(settled, closed) for _, settled in appends]))
            return
        if not self._queue:
            self._loop.call_soon(self._commit, self._loop)
        self._queue.extend(appends)

    def _flush(self) -> None:
        """What was submitted takes effect before whatever comes now."""
        if self._loop is not None and self._queue:
            self._commit(self._loop)

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue, []
        settle(loop, iter([(settled, self._apply(append)) for append, settled in batch]))

    def _apply(self, append: Append) -> StoreError | None:
        task = self._tasks.get(append.task_id)
        last_seq, epoch = (task.last_seq, task.epoch) if task else (0, 0)
        refused = refusal(append, last_seq, epoch)
        if refused is not None:
            return refused
        record = append.idempotency
        if record is not None and (record.scope, record.key) in self._records:
            return KeyTaken(f"The idempotency key {record.key!r} was used before")
        if task is None:
            task = self._create(append)
        else:
            self._unlist(task)
        task.state, task.status_ms = append.state, append.status_ms
        self._enlist(task)
        if append.entries:
            task.journal.extend(append.entries)
            task.last_seq = append.entries[-1].seq
        if append.snapshot is not None:
            task.snapshot = append.snapshot
        if record is not None:
            self._records[record.scope, record.key] = record
            task.idempotency_keys.append((record.scope, record.key))
        return None

    def _create(self, append: Append) -> _Task:
        assert append.creation is not None, "refusal() lets no creation pass without one"
        task = _Task(self._next_key, append, append.creation)
        self._next_key += 1
        self._tasks[task.id] = self._by_key[task.key] = task
        return task

    def _places(self, task: _Task) -> Iterator[tuple[Scope, str, TaskState | None]]:
        scope, context = task.creation.scope, task.creation.context_id
        for context_id in {"", context}:
            yield scope, context_id, None
            yield scope, context_id, task.state

    def _enlist(self, task: _Task) -> None:
        for place in self._places(task):
            insort(self._orders.setdefault(place, []), (task.status_ms, task.key))
        if task.state in RUNNABLE:
            self._to_do[task.key] = task
        elif task.state in TERMINAL:
            insort(self._ended, (task.status_ms, task.key))

    def _unlist(self, task: _Task) -> None:
        self._to_do.pop(task.key, None)
        if task.state in TERMINAL:
            del self._ended[bisect_left(self._ended, (task.status_ms, task.key))]
        for place in self._places(task):
            order = self._orders[place]
            del order[bisect_left(order, (task.status_ms, task.key))]
            if not order:
                del self._orders[place]

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        task = self._tasks.get(task_id)
        if task is None or task.creation.scope != scope:
            return None
        return _stored(task)

    async def owner(self, task_id: str) -> Scope | None:
        task = self._tasks.get(task_id)
        return None if task is None else task.creation.scope

    async def remember(self, exchange: Exchange) -> None:
        if self._loop is None:
            raise StoreUnusable("The store is not open")
        self._exchanges.setdefault(exchange.scope, []).append(exchange)

    async def exchanges(
        self, scope: Scope, *, context_id: str = "", limit: int
    ) -> tuple[Exchange, ...]:
        latest = reversed(self._exchanges.get(scope, []))
        found = (each for each in latest if not context_id or each.context_id == context_id)
        return tuple(islice(found, limit))

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        task = self._tasks.get(task_id)
        return () if task is None else tuple(task.after(after)[:limit])

    async def list(self, query: TaskQuery) -> TaskPage:
        order = self._orders.get((query.scope, query.context_id, query.state), [])
        first = 0
        if query.status_from_ms is not None:
            first = bisect_left(order, (query.status_from_ms, 0))
        end = len(order) if query.after is None else bisect_left(order, query.after)
        start = max(first, end - query.limit)
        page = order[start:end][::-1]
        return TaskPage(
            tasks=tuple(
                _stored(self._by_key[key], with_artifacts=query.with_artifacts) for _, key in page
            ),
            total=len(order) - first,
            next=page[-1] if page and start > first else None,
        )

    async def recall(self, scope: Scope, key: str) -> IdempotencyRecord | None:
        return self._records.get((scope, key))

    async def heartbeat(self, node: str, *, now_ms: int, ttl_ms: int) -> None:
        self._leases[node] = now_ms + ttl_ms

    async def claim(
        self, node: str, *, now_ms: int, limit: int, task_id: str | None = None
    ) -> tuple[StoredTask, ...]:
        self._flush()
        claimed: list[StoredTask] = []
        if task_id is not None:
            named = self._tasks.get(task_id)
            candidates = [] if named is None else [named]
        else:
            candidates = [self._to_do[key] for key in sorted(self._to_do)]
        for task in candidates:
            if len(claimed) == limit:
                break
            if task.node != node and self._leases.get(task.node, -1) < now_ms:
                task.node = node
                task.epoch += 1
                claimed.append(_stored(task))
        return tuple(claimed)

    async def prune(self, *, ended_before_ms: int, limit: int) -> int:
        self._flush()
        end = min(limit, bisect_left(self._ended, (ended_before_ms, 0)))
        ended = [self._by_key[key] for _, key in self._ended[:end]]
        for task in ended:
            self._unlist(task)
            del self._tasks[task.id], self._by_key[task.key]
            for key in task.idempotency_keys:
                del self._records[key]
        return len(ended)

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        self._flush()
        task = self._tasks.get(task_id)
        if task is not None and task.snapshot is not None:
            task.journal = list(task.after(min(up_to, task.snapshot.seq)))


def _stored(task: _Task, *, with_artifacts: bool = True) -> StoredTask:
    snapshot = task.snapshot
    tail = tuple(task.after(0 if snapshot is None else snapshot.seq))
    if snapshot is not None and not with_artifacts:
        snapshot = Snapshot(snapshot.seq, snapshot.task)
    return StoredTask(
        task_id=task.id,
        scope=task.creation.scope,
        context_id=task.creation.context_id,
        state=task.state,
        status_ms=task.status_ms,
        created_ms=task.creation.created_ms,
        last_seq=task.last_seq,
        epoch=task.epoch,
        node=task.node,
        snapshot=snapshot,
        tail=tail,
    )
