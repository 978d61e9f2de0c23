"""Durable tasks: the one port that every store implements.

A store keeps, per task, a *head* (owner, context, state, time of the status), the
*journal* and the latest *snapshot*. It never interprets an event: readers get back the
bytes that the runtime handed in.

The contract, proved for every store by `trunkline.testing.check_store`:

- `submit` is atomic per append: all of its entries, the head, the snapshot and the required
  groups of records, or nothing. Appends of one task take effect in the order in which they
  were submitted.
- An append whose `expected_seq` is not the last sequence of the task is refused with
  `StaleSeq`; one whose required groups cannot be applied is refused with `RecordConflict`,
  `LimitReached` or `Unstorable`. A refused append leaves no trace and does not disturb
  others in the same commit. When the commit itself fails, every append of it is refused with
  `StoreUnusable`, and later ones are tried anew.
- An acknowledged append survives a crash. A read returns committed data only.
- Entries that leave a task in a terminal state come with a snapshot, which then holds all of
  its journal; a store may rely on that.
- `entries` says of each entry when it was committed (`Entry.committed_ms`), by the clock of the
  store; `StoredTask.tail` may say it. Entries of one commit have the same time.
- A reader that pages through a journal by sequence misses nothing and sees nothing twice.
- A read raises StoreUnusable when the store cannot read its data. Once a store finds data
  missing or damaged, it refuses every append until it is opened again.
- A store that `keeps_large_values` writes those of an append in slices, in commits of their
  own, before it commits the append; appends of other tasks do not wait for that. No reader
  sees the values before the append is committed, and a crash before it leaves none of them
  behind. The store deletes them with the task.
- Every read for a caller names its `Scope`; the store hides tasks of other scopes.

A store groups appends that arrive together into one commit. A store belongs to one process, or
several nodes share it (`ports.cluster`): then an append of a node that does not own the lane of
its task is refused with `LeaseLost`.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.errors import StoreError
from trunkline.model.events import Entry
from trunkline.model.large_values import LargeValue
from trunkline.model.values import TaskState
from trunkline.ports.records import Change, Committed, Group, Key, Record


class Scope(Struct, frozen=True, cache_hash=True, gc=False):
    """The caller that owns tasks of an agent. No caller sees anything of another scope."""

    agent: str
    tenant: str
    principal: str


class Snapshot(Struct, frozen=True, gc=False):
    """A task folded up to `seq`. Two pieces, because lists leave the artifacts out."""

    seq: int
    # JSON of the Task without its `artifacts`.
    task: bytes
    # JSON array, or empty when the task has no artifact.
    artifacts: bytes = b""


class Creation(Struct, frozen=True, gc=False):
    """The facts of a new task, beside the entries of its first append."""

    scope: Scope
    context_id: str
    created_ms: int


class Append(Struct, frozen=True, kw_only=True, gc=False):
    """One atomic change of one task."""

    task_id: str
    # Entries continue right after this sequence; 0 creates the task, and so does a sequence that
    # the snapshot covers, for a copy of a task whose journal was pruned up to there.
    expected_seq: int
    # In a store that several nodes share, the lane of the task and the epoch of the node's lease.
    # An append with epoch 0 takes a lane that no other node owns.
    lane: str = ""
    epoch: int = 0
    # May be empty only when a snapshot is given.
    entries: tuple[Entry, ...]
    state: TaskState
    status_ms: int
    creation: Creation | None = None
    snapshot: Snapshot | None = None
    # Texts that entries and snapshot refer to from here on; only for a store that
    # `keeps_large_values`.
    values: tuple[LargeValue, ...] = ()
    # Changes of records in the same commit. The required ones decide whether there is one.
    also: tuple[Group, ...] = ()
    # Whether the store keeps the times that the entries have, with None for those that are not
    # known, because this is a copy. Otherwise it sets the time of the commit.
    keeps_times: bool = False
    # The size of entries and snapshot together; 0 when the runtime did not count it.
    counted_bytes: int = 0

    @property
    def begins_pruned(self) -> bool:
        """Whether it creates a task with a pruned journal."""
        return (
            self.creation is not None
            and self.snapshot is not None
            and 0 < self.expected_seq <= self.snapshot.seq
        )

    @property
    def size_bytes(self) -> int:
        """How many bytes a commit writes for it, without the large values."""
        if self.counted_bytes:
            return self.counted_bytes
        size = sum([len(entry.body) for entry in self.entries])
        snapshot = self.snapshot
        return size if snapshot is None else size + len(snapshot.task) + len(snapshot.artifacts)


# The result of a commit: refused, committed without some optional groups, or committed (None).
Result: TypeAlias = StoreError | Committed | None
# Called once on the event loop with the result.
Settled: TypeAlias = Callable[[Result], None]


class StoredTask(Struct, frozen=True, kw_only=True, gc=False):
    task_id: str
    scope: Scope
    context_id: str
    state: TaskState
    status_ms: int
    created_ms: int
    last_seq: int
    snapshot: Snapshot | None
    # The journal after the snapshot (all of it when there is none), so that
    # snapshot and tail together are the task as committed.
    tail: tuple[Entry, ...]
    # The session that the record names, in stores whose records other programs write as well.
    session_key: str = ""


class TaskQuery(Struct, frozen=True, kw_only=True):
    scope: Scope
    context_id: str = ""
    state: TaskState | None = None
    # Only tasks whose status is at least this recent.
    status_from_ms: int | None = None
    limit: int = 50
    # Continue after the task with this (status_ms, key); from TaskPage.next.
    after: tuple[int, int] | None = None
    with_artifacts: bool = False


class OperatorQuery(Struct, frozen=True, kw_only=True):
    """Tasks of all callers. For operators and the gateway's own work, never to answer a caller."""

    # Each of these narrows the list, unless it is empty.
    agent: str = ""
    principal: str = ""
    # None for all tenants; tasks without a tenant have an empty one.
    tenant: str | None = None
    states: tuple[TaskState, ...] = ()
    # Only tasks of these agents; None for all agents.
    agents: tuple[str, ...] | None = None
    context_id: str = ""
    # Only tasks whose status is at least this recent.
    status_from_ms: int | None = None
    limit: int = 50
    # Continue after the task with this (status_ms, key); from TaskPage.next.
    after: tuple[int, int] | None = None
    # Whether the tasks come without their tails, which may be long.
    without_tails: bool = False

    def covers(self, scope: Scope) -> bool:
        return (
            self.agent in ("", scope.agent)
            and (self.agents is None or scope.agent in self.agents)
            and self.principal in ("", scope.principal)
            and self.tenant in (None, scope.tenant)
        )


class TaskPage(Struct, frozen=True, kw_only=True):
    # Most recent status first; ties by the newest task first. Without
    # `with_artifacts` the snapshots' artifacts are empty.
    tasks: tuple[StoredTask, ...]
    # How many tasks match, before paging.
    total: int
    # None on the last page.
    next: tuple[int, int] | None
    # Of `list_all`: the `after` behind each of the tasks.
    places: tuple[tuple[int, int], ...] = ()


class Store(Protocol):
    @property
    def problem(self) -> str | None:
        """Why the store takes no changes now, and the remedy, without naming files; None
        while it takes them."""
        ...

    # Whether the store takes `Append.values`. Without, the runtime keeps large texts inline.
    @property
    def keeps_large_values(self) -> bool: ...

    async def open(self) -> None:
        """Raises StoreInUse or StoreUnusable with a message that says what to do."""
        ...

    async def check(self) -> None:
        """Bring `problem` up to date: look whether the files are still there, and try a
        write if the last one failed. Called every few seconds."""
        ...

    async def close(self) -> None:
        """Commits all submitted appends, then releases the files. Safe to call twice."""
        ...

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        """Queue appends for the next commit. Never blocks; settles every one, in order."""
        ...

    async def change(self, *changes: Change) -> None:
        """Change records, all or none; what this did survives a crash when it returns. Raises
        RecordConflict, LimitReached, Unstorable or StoreUnusable."""
        ...

    async def record(self, key: Key) -> Record | None: ...

    async def task_records(self, task_id: str) -> tuple[Record, ...]:
        """The records that go with the task."""
        ...

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
        """Up to `limit` records of the kind in the order of scope and id, or the reverse, behind
        the key `after`. With a tag only those that have it."""
        ...

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        """Claim due records for the given time: of each kind up to its share, one of a scope.

        Scopes take turns. Within a scope the record that is due the longest comes first.
        """
        ...

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        """How many records of the scope have been due since before then."""
        ...

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        """Delete up to `limit` records of the scope that have been due since before then, the
        longest due first. For kinds that nothing claims. Returns how many it deleted."""
        ...

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None: ...

    async def owner(self, task_id: str) -> Scope | None:
        """The scope of a task. For the gateway's own work, never to answer a caller."""
        ...

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        """Journal entries with a sequence above `after`, in order.

        When entries right after `after` were pruned, the first one returned says so by
        its sequence.
        """
        ...

    async def value_sizes(self, scope: Scope, ids: Sequence[str]) -> dict[str, int]:
        """How many bytes each of these large values has in JSON. Those that do not exist, or
        belong to another scope, are left out."""
        ...

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        """Slices of a large value, counted from 0; empty behind the last one, and when its
        task was deleted meanwhile."""
        ...

    async def list(self, query: TaskQuery) -> TaskPage: ...

    async def list_all(self, query: OperatorQuery) -> TaskPage:
        """A page of the tasks of all callers, without artifacts. It takes longer the more callers
        match, not the more tasks."""
        ...

    async def unfinished(self) -> tuple[tuple[Scope, str], ...]:
        """The scope and the id of every task that has work to do (submitted or working), in the
        order in which they were created. For the start of a gateway."""
        ...

    async def scopes(self) -> tuple[Scope, ...]:
        """All scopes that have tasks. For maintenance, never to answer a caller."""
        ...

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        """How many terminal tasks an agent has: all, or those whose status is older."""
        ...

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        """Delete up to `limit` terminal tasks of an agent with all they have, the longest
        ended first; with `before_ms` only those whose status is older.

        Returns how many it deleted. Callers prune in small steps, so that traffic does not
        wait.
        """
        ...

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        """Forget the entries up to and including this sequence that a snapshot covers."""
        ...


async def all_entries(store: Store, task_id: str) -> list[Entry]:
    """The journal of a task, as far as it was not pruned."""
    found: list[Entry] = []
    while page := await store.entries(task_id, after=found[-1].seq if found else 0, limit=500):
        found += page
    return found


async def all_tasks(store: Store, query: OperatorQuery) -> AsyncIterator[StoredTask]:
    """The tasks of every page, the most recent status first."""
    page = await store.list_all(query)
    while True:
        for task in page.tasks:
            yield task
        if page.next is None:
            return
        page = await store.list_all(replace(query, after=page.next))
