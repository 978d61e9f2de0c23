"""A store that forgets at exit: for trials, and for tests that need no disk."""

import asyncio
from collections.abc import Sequence

from msgspec import structs

from trunkline.background import next_pass
from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports.store import (
    Append,
    Creation,
    Exchange,
    IdempotencyRecord,
    KeptNote,
    Scope,
    Settled,
    Snapshot,
    StoredTask,
    TaskPage,
    TaskQuery,
)
from trunkline.stores.exchanges import ExchangeIndex, Spot
from trunkline.stores.heads import refusal
from trunkline.stores.index import Head, Index
from trunkline.stores.large_appends import LargeAppends
from trunkline.stores.notes import Key, NoteIndex
from trunkline.stores.settling import settle


class _Task(Head):
    __slots__ = ("journal", "snapshot", "values")

    def __init__(self, key: int, append: Append, creation: Creation) -> None:
        super().__init__(key, append, creation)
        self.journal: list[Entry] = []
        self.snapshot: Snapshot | None = None
        # The ids of its large values.
        self.values: list[str] = []

    def after(self, seq: int) -> Sequence[Entry]:
        """The entries above `seq`; the journal has no holes but may miss its beginning."""
        if not self.journal:
            return ()
        return self.journal[max(0, seq - self.journal[0].seq + 1) :]


class MemoryStore:
    keeps_large_values = True

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[tuple[Append, Settled]] = []
        self._index: Index[_Task] = Index()
        self._next_key = 1
        self._exchanges: ExchangeIndex[Exchange] = ExchangeIndex()
        self._remembered = 0
        self._notes: NoteIndex[KeptNote] = NoteIndex()
        # Slices by the id of their value, and whose it is once that is committed.
        self._slices: dict[str, tuple[bytes, ...]] = {}
        self._value_tasks: dict[str, _Task] = {}
        self._large = LargeAppends(
            write=self._write_values,
            settled=self._values_settled,
            submit=self._submit,
            explain=lambda error: StoreUnusable(f"The store failed: {error!r}"),
        )

    @property
    def problem(self) -> str | None:
        return None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def check(self) -> None:
        """Nothing can happen to memory."""

    async def close(self) -> None:
        if self._large.waiting:
            written = asyncio.Event()
            self._large.when_idle(written.set)
            await written.wait()
        self._flush()
        self._loop = None

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self._loop is None:
            closed = StoreUnusable("The store is not open")
            loop = asyncio.get_running_loop()
            loop.call_soon(settle, loop, [(settled, closed) for _, settled in appends])
            return
        for append, _ in appends:
            if append.values or self._large.waiting:
                appends = self._large.sort_out(appends)
                break
        if appends:
            self._submit(appends)

    def _submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self._loop is not None and not self._queue:
            self._loop.call_soon(self._commit, self._loop)
        self._queue.extend(appends)

    async def _write_values(self, append: Append) -> None:
        for value in append.values:
            slices: list[bytes] = []
            for piece in value.slices():
                slices.append(piece)
                await next_pass()
            self._slices[value.id] = tuple(slices)

    def _values_settled(self, append: Append, is_committed: bool) -> None:
        if not is_committed:
            for value in append.values:
                self._slices.pop(value.id, None)

    def _flush(self) -> None:
        """What was submitted takes effect before whatever comes now."""
        if self._loop is not None and self._queue:
            self._commit(self._loop)

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue, []
        settle(loop, [(settled, self._apply(append)) for append, settled in batch])

    def _apply(self, append: Append) -> StoreError | None:
        index = self._index
        task = index.get(append.task_id)
        last_seq, epoch = (task.last_seq, task.epoch) if task else (0, 0)
        refused = refusal(append, last_seq, epoch) or index.key_refusal(append.idempotency)
        if refused is not None:
            return refused
        if task is None:
            assert append.creation is not None, "refusal() lets no creation pass without one"
            task = _Task(self._next_key, append, append.creation)
            self._next_key += 1
            index.add(task)
        else:
            index.move(task, append.state, append.status_ms)
        if append.entries:
            task.journal.extend(append.entries)
            task.last_seq = append.entries[-1].seq
        if append.snapshot is not None:
            task.snapshot = append.snapshot
        if append.idempotency is not None:
            index.remember(task, append.idempotency)
        for value in append.values:
            task.values.append(value.id)
            self._value_tasks[value.id] = task
        return None

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        task = self._index.of_scope(scope, task_id)
        return None if task is None else _stored(task)

    async def owner(self, task_id: str) -> Scope | None:
        task = self._index.get(task_id)
        return None if task is None else task.scope

    async def remember(self, exchange: Exchange) -> None:
        if self._loop is None:
            raise StoreUnusable("The store is not open")
        self._remembered += 1
        self._exchanges.add(Spot(exchange.at_ms, self._remembered, exchange))

    async def exchanges(
        self, scope: Scope, *, context_id: str = "", limit: int
    ) -> tuple[Exchange, ...]:
        latest = self._exchanges.latest(scope, context_id, limit)
        return tuple([spot.item for spot in latest])

    async def forget_exchanges(self, agent: str, *, before_ms: int, limit: int) -> int:
        oldest = self._exchanges.oldest(agent, before_ms=before_ms, limit=limit)
        self._exchanges.remove(oldest)
        return len(oldest)

    async def count_exchanges(self, agent: str, *, before_ms: int) -> int:
        return self._exchanges.count(agent, before_ms=before_ms)

    async def keep(self, note: KeptNote) -> None:
        if self._loop is None:
            raise StoreUnusable("The store is not open")
        self._notes.put(note)

    async def kept(self, scope: Scope, context_id: str, name: str) -> str | None:
        note = self._notes.get(Key(scope, context_id, name))
        return None if note is None else note.text

    async def forget_notes(self, agent: str, *, before_ms: int, limit: int) -> int:
        old = self._notes.old(agent, before_ms=before_ms, limit=limit)
        for note in old:
            self._notes.put(structs.replace(note, text=""))
        return len(old)

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        task = self._index.get(task_id)
        return () if task is None else tuple(task.after(after)[:limit])

    async def value_sizes(self, scope: Scope, ids: Sequence[str]) -> dict[str, int]:
        known = [(value_id, self._value_tasks.get(value_id)) for value_id in ids]
        return {
            value_id: sum(map(len, self._slices[value_id]))
            for value_id, task in known
            if task is not None and task.scope == scope
        }

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        return self._slices.get(value_id, ())[first : first + limit]

    async def list(self, query: TaskQuery) -> TaskPage:
        tasks, total, position = self._index.page(query)
        return TaskPage(
            tasks=tuple([_stored(task, with_artifacts=query.with_artifacts) for task in tasks]),
            total=total,
            next=position,
        )

    async def recall(self, scope: Scope, key: str) -> IdempotencyRecord | None:
        return self._index.recall(scope, key)

    async def heartbeat(self, node: str, *, now_ms: int, ttl_ms: int) -> None:
        self._index.heartbeat(node, now_ms + ttl_ms)

    async def claim(
        self, node: str, *, now_ms: int, limit: int, task_id: str | None = None
    ) -> tuple[StoredTask, ...]:
        self._flush()
        free = self._index.free(node, now_ms=now_ms, limit=limit, task_id=task_id)
        for task in free:
            task.node = node
            task.epoch += 1
        return tuple([_stored(task) for task in free])

    async def scopes(self) -> tuple[Scope, ...]:
        found = [*self._index.scopes(), *self._exchanges.scopes(), *self._notes.scopes()]
        return tuple(dict.fromkeys(found))

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        return self._index.count_ended(agent, before_ms)

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        self._flush()
        ended = self._index.ended(agent, before_ms=before_ms, limit=limit)
        self._index.remove(*ended)
        for task in ended:
            for value_id in task.values:
                del self._slices[value_id], self._value_tasks[value_id]
        return len(ended)

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        self._flush()
        task = self._index.get(task_id)
        if task is not None and task.snapshot is not None:
            task.journal = list(task.after(min(up_to, task.snapshot.seq)))


def _stored(task: _Task, *, with_artifacts: bool = True) -> StoredTask:
    snapshot = task.snapshot
    tail = tuple(task.after(0 if snapshot is None else snapshot.seq))
    if snapshot is not None and not with_artifacts:
        snapshot = Snapshot(snapshot.seq, snapshot.task)
    return task.stored(snapshot, tail)
