"""`Registry`: the tasks in memory, and how others are loaded."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from trunkline.model.errors import TaskNotFound, TrunklineError
from trunkline.model.routed_calls import TaskRecord
from trunkline.ports.store import Scope, Snapshot, Store, StoredTask
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask, fold_of
from trunkline.runtime.participants import Participants

if TYPE_CHECKING:
    from trunkline.runtime.ownership import Ownership


class Registry(Struct, kw_only=True, eq=False):
    """Every look-up names the caller's scope; tasks of other scopes do not exist for the caller."""

    store: Store
    journal: Journal
    # Features that come back with the tasks.
    participants: Participants | None = None
    # Whether the agent of a task keeps it no longer, though it is not deleted yet.
    is_expired: Callable[[StoredTask], bool] = lambda _: False
    # Who writes to which lane, where several nodes share the store.
    ownership: "Ownership | None" = None
    # Tasks that have to fail as soon as the store accepts writes again.
    stuck: set[LiveTask] = set()
    _live: dict[str, LiveTask] = {}
    # Tasks that are being loaded. Loading one twice would make two objects, one of them out of
    # date.
    _loading: dict[tuple[Scope, str], asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def add(self, live: LiveTask) -> None:
        self._live[live.task_id] = live

    def all(self) -> tuple[LiveTask, ...]:
        return tuple(self._live.values())

    def forget_if_idle(self, live: LiveTask) -> None:
        """Forget a task that is completely stored, and that no run, reader or request needs."""
        if (
            live.run
            or live.waiting
            or live.subscriptions
            or live.unflushed
            or live.in_flight
            or live.waiters
            or live.once_durable
            or live.is_stuck
            or live.pins
        ):
            return
        if (lease := live.lease) is not None and lease.lane:
            if live.is_orphan:
                # It keeps its lane at this node: the others would take the lane over at once.
                return
            lease.tasks.discard(live)
        if self._live.get(live.task_id) is live:
            del self._live[live.task_id]

    def join(self, live: LiveTask, record: TaskRecord) -> None:
        """Keep the record with the task, by its next append, and attach the participant of its
        kind."""
        assert self.participants is not None, f"no feature has records of the kind {record.kind}"
        self.journal.attach(live, self.participants.join(live, record))

    @contextmanager
    def pinned(self, live: LiveTask) -> Iterator[None]:
        """Keep the task in memory, because another request would load a second one."""
        live.pins += 1
        try:
            yield
        except BaseException:
            live.pins -= 1
            self.forget_if_idle(live)
            raise
        live.pins -= 1

    def mark_stuck(self, live: LiveTask) -> None:
        """Keep the task in memory until the store accepts its end."""
        live.is_stuck = True
        self.stuck.add(live)

    def unmark_stuck(self, live: LiveTask) -> None:
        live.is_stuck = False
        self.stuck.discard(live)
        self.forget_if_idle(live)

    def drop(self, live: LiveTask) -> None:
        """Forget the task in memory; the next reader loads it from the store."""
        live.is_dropped = True
        if self._live.get(live.task_id) is live:
            del self._live[live.task_id]
        if live.lease is not None:
            live.lease.tasks.discard(live)

    def live(self, scope: Scope, task_id: str) -> LiveTask | None:
        live = self._live.get(task_id)
        # A task does not exist for clients before its creation is committed.
        if live is None or live.scope != scope or not live.exists:
            return None
        return live

    async def stored_view(self, scope: Scope, task_id: str) -> Snapshot:
        """The task from the store, for a caller that did not find it in memory."""
        return snapshot_of(await self._stored(scope, task_id))

    def in_memory(self, task_id: str) -> LiveTask | None:
        """A task in memory, committed or not. For the gateway's own work, never for a caller."""
        return self._live.get(task_id)

    async def load(self, scope: Scope, task_id: str) -> LiveTask:
        """The task in memory, to write to it. Raises Unavailable when another node works on it."""
        while True:
            live = await self.follow(scope, task_id)
            if live.lease is not None:
                return live
            assert self.ownership is not None
            with self.pinned(live):
                await self.ownership.adopt(live)
            if not live.is_dropped:
                return live

    async def follow(self, scope: Scope, task_id: str) -> LiveTask:
        """The task in memory, to read it as it goes on."""
        while True:
            live = self.live(scope, task_id)
            if live is None:
                arriving = self._arriving(scope, task_id)
                if arriving is None:
                    return await self._load(scope, task_id)
                # Shielded, because other requests may wait for the same future.
                await asyncio.shield(arriving)
                continue
            if live.lease is None and self.ownership is not None:
                # Its reader may have seen more at the node that writes to it.
                with self.pinned(live):
                    await self.ownership.followers.catch_up(live)
            if not live.is_dropped:
                return live

    def _arriving(self, scope: Scope, task_id: str) -> "asyncio.Future[None] | None":
        """A future that is done when the task may have come into memory; None if nothing brings
        it."""
        live = self._live.get(task_id)
        if live is None or live.scope != scope:
            return self._loading.get((scope, task_id))
        # The store may have the task already, but this object is newer.
        created: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(_: TrunklineError | None) -> None:
            created.set_result(None)

        self.journal.once_durable(live, tell, seq=1)
        return created

    async def _load(self, scope: Scope, task_id: str) -> LiveTask:
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loading[scope, task_id] = loaded
        try:
            stored = await self._stored(scope, task_id)
            if self.ownership is not None:
                # This node may have taken over the task meanwhile, with its lane.
                live = self._live.get(task_id) or followed(stored)
            else:
                live = LiveTask.of(stored)
                if self.participants is not None:
                    await self.participants.rejoin(live)
            self.add(live)
            return live
        finally:
            del self._loading[scope, task_id]
            loaded.set_result(None)

    async def _stored(self, scope: Scope, task_id: str) -> StoredTask:
        stored = await self.store.get(scope, task_id)
        if stored is None or self.is_expired(stored):
            raise TaskNotFound(task_id)
        return stored


def followed(stored: StoredTask) -> LiveTask:
    """A task that another node may write to."""
    live = LiveTask.of(stored)
    live.lease = None
    return live


def snapshot_of(stored: StoredTask) -> Snapshot:
    snapshot = stored.snapshot
    if snapshot is not None and not stored.tail:
        return snapshot
    return fold_of(stored).snapshot()
