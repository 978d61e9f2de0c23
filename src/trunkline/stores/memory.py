"""`MemoryStore`: a store that forgets at exit, for trials and for tests that need no disk."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import field

from trunkline.background import next_pass
from trunkline.clock import SystemClock
from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Record
from trunkline.stores.commits import refuse, settle, why_refused
from trunkline.stores.indexes import Head, IndexedStore, TaskIndex, entries_after
from trunkline.stores.large_appends import LargeAppends, Submit
from trunkline.stores.records.table import RecordTable


class _Task(Head, eq=False):
    journal: list[Entry] = field(default_factory=list)
    snapshot: port.Snapshot | None = None
    # The ids of its large values.
    values: list[str] = field(default_factory=list)


class LargeValues(LargeAppends):
    """Large values in slices, by the id of the value."""

    def __init__(self, submit: Submit) -> None:
        super().__init__(submit, lambda error: StoreUnusable(f"The store failed: {error!r}"))
        self.slices: dict[str, tuple[bytes, ...]] = {}

    async def _write(self, append: port.Append) -> None:
        for value in append.values:
            slices: list[bytes] = []
            for piece in value.slices():
                slices.append(piece)
                await next_pass()
            self.slices[value.id] = tuple(slices)

    def _settled(self, append: port.Append, is_committed: bool) -> None:
        if not is_committed:
            for value in append.values:
                self.slices.pop(value.id, None)


class MemoryStore(IndexedStore[_Task]):
    keeps_large_values = True

    def __init__(self, clock: Clock | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[tuple[port.Append, port.Settled]] = []
        self._index: TaskIndex[_Task] = TaskIndex()
        self._next_key = 1
        self._clock = clock or SystemClock()
        self._records = RecordTable(self._clock)
        # The task of each committed value, by the id of the value.
        self._value_tasks: dict[str, _Task] = {}
        self._large = LargeValues(self._submit)

    @property
    def problem(self) -> str | None:
        return None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def check(self) -> None:
        """Memory has nothing to check."""

    def _tasks(self) -> TaskIndex[_Task]:
        return self._index

    async def close(self) -> None:
        if self._large.waiting:
            written = asyncio.Event()
            self._large.when_idle(written.set)
            await written.wait()
        self._flush()
        self._loop = None

    def submit(self, appends: Sequence[tuple[port.Append, port.Settled]]) -> None:
        if self._loop is None:
            refuse(appends, StoreUnusable("The store is not open"))
            return
        for append, _ in appends:
            if append.values or self._large.waiting:
                appends = self._large.sort_out(appends)
                break
        if appends:
            self._submit(appends)

    def _submit(self, appends: Sequence[tuple[port.Append, port.Settled]]) -> None:
        if self._loop is not None and not self._queue:
            self._loop.call_soon(self._commit, self._loop)
        self._queue.extend(appends)

    def _flush(self) -> None:
        """Commit all submitted appends now, before the change that follows."""
        if self._loop is not None and self._queue:
            self._commit(self._loop)

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue, []
        settle(loop, batch, [self._apply(append) for append, _ in batch])

    def _apply(self, append: port.Append) -> port.Result:
        tasks = self._index
        task = tasks.get(append.task_id)
        last_seq = task.last_seq if task else 0
        refused = why_refused(append, last_seq) or self._records.apply_required(
            append.also, append.task_id
        )
        if refused is not None:
            return refused
        if task is None:
            task = _Task.of(self._next_key, append)
            self._next_key += 1
            tasks.add(task)
        else:
            tasks.move(task, append.state, append.status_ms)
        if append.entries:
            if not append.keeps_times:
                now_ms = self._clock.now_ms()
                for entry in append.entries:
                    entry.committed_ms = now_ms
            task.journal.extend(append.entries)
            task.last_seq = append.entries[-1].seq
        if append.snapshot is not None:
            task.snapshot = append.snapshot
        for value in append.values:
            task.values.append(value.id)
            self._value_tasks[value.id] = task
        return self._records.apply_optional(append.also, append.task_id)

    async def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        task = self._index.of_scope(scope, task_id)
        return None if task is None else task.stored(task.snapshot, task.journal)

    async def change(self, *changes: Change) -> None:
        self._require_open()
        self._flush()
        refused = self._records.apply(changes)
        if refused is not None:
            raise refused

    async def record(self, key: Key) -> Record | None:
        return self._records.record(key)

    async def task_records(self, task_id: str) -> tuple[Record, ...]:
        return self._records.of_task(task_id)

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
        return self._records.page(
            kind, scope=scope, tag=tag, after=after, newest_first=newest_first, limit=limit
        )

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        self._flush()
        return self._records.claim_due(shares, lease_ms=lease_ms)

    def _require_open(self) -> None:
        if self._loop is None:
            raise StoreUnusable("The store is not open")

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        return self._records.count_due(kind, scope, before_ms=before_ms)

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        self._flush()
        return self._records.delete_due(kind, scope, before_ms=before_ms, limit=limit)

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        task = self._index.get(task_id)
        return () if task is None else tuple(entries_after(task.journal, after)[:limit])

    async def value_sizes(self, scope: port.Scope, ids: Sequence[str]) -> dict[str, int]:
        known = [(value_id, self._value_tasks.get(value_id)) for value_id in ids]
        return {
            value_id: sum(map(len, self._large.slices[value_id]))
            for value_id, task in known
            if task is not None and task.scope == scope
        }

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        return self._large.slices.get(value_id, ())[first : first + limit]

    async def list(self, query: port.TaskQuery) -> port.TaskPage:
        tasks, total, position = self._index.page(query)
        stored = [
            task.stored(task.snapshot, task.journal, with_artifacts=query.with_artifacts)
            for task in tasks
        ]
        return port.TaskPage(tasks=tuple(stored), total=total, next=position)

    async def list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        tasks, total, position = self._index.page_of_all(query)
        stored = [
            task.stored(
                task.snapshot,
                task.journal,
                with_artifacts=False,
                with_tail=not query.without_tails,
            )
            for task in tasks
        ]
        places = tuple([(task.status_ms, task.key) for task in tasks])
        return port.TaskPage(tasks=tuple(stored), total=total, next=position, places=places)

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        self._flush()
        ended = self._index.ended(agent, before_ms=before_ms, limit=limit)
        self._index.remove(*ended)
        self._records.forget_tasks([task.id for task in ended])
        for task in ended:
            for value_id in task.values:
                del self._large.slices[value_id], self._value_tasks[value_id]
        return len(ended)

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        self._flush()
        task = self._index.get(task_id)
        if task is not None and task.snapshot is not None:
            task.journal = [*entries_after(task.journal, min(up_to, task.snapshot.seq))]
