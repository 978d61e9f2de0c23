"""Which tasks are in memory, and how the others get there."""

from trunkline.engine.fold import TaskFold
from trunkline.model.errors import TaskNotFound
from trunkline.ports.clock import Clock
from trunkline.ports.store import Scope, Snapshot, Store, StoredTask
from trunkline.runtime.live import LiveTask


class Registry:
    """Every look-up names the caller's scope; what is not in it does not exist."""

    def __init__(self, store: Store, *, node: str, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.node = node
        self._live: dict[str, LiveTask] = {}

    def __len__(self) -> int:
        return len(self._live)

    def add(self, live: LiveTask) -> None:
        self._live[live.task_id] = live

    def all(self) -> tuple[LiveTask, ...]:
        return tuple(self._live.values())

    def forget_if_idle(self, live: LiveTask) -> None:
        if live.is_idle and self._live.get(live.task_id) is live:
            del self._live[live.task_id]

    def drop(self, live: LiveTask) -> None:
        """Whoever needs the task again reads it anew."""
        live.is_dropped = True
        if self._live.get(live.task_id) is live:
            del self._live[live.task_id]

    def live(self, scope: Scope, task_id: str) -> LiveTask | None:
        live = self._live.get(task_id)
        # A task whose creation is not committed is not there yet.
        if live is None or live.scope != scope or not live.exists:
            return None
        return live

    async def view(self, scope: Scope, task_id: str) -> Snapshot:
        live = self.live(scope, task_id)
        if live is not None:
            return live.view()
        return snapshot_of(await self._stored(scope, task_id))

    async def load(self, scope: Scope, task_id: str) -> LiveTask:
        """The task in memory, to write to it or to follow it."""
        live = self.live(scope, task_id)
        if live is not None:
            return live
        stored = await self._stored(scope, task_id)
        if stored.node != self.node:
            claimed = await self._store.claim(
                self.node, now_ms=self._clock.now_ms(), limit=1, task_id=task_id
            )
            # None: another call was faster, and what was read before is out of date.
            stored = claimed[0] if claimed else await self._stored(scope, task_id)
        # Another call may have loaded it while this one waited.
        live = self.live(scope, task_id)
        if live is None:
            live = LiveTask.of(stored)
            self.add(live)
        return live

    async def _stored(self, scope: Scope, task_id: str) -> StoredTask:
        stored = await self._store.get(scope, task_id)
        if stored is None:
            raise TaskNotFound(task_id)
        return stored


def snapshot_of(stored: StoredTask) -> Snapshot:
    snapshot = stored.snapshot
    if snapshot is not None and not stored.tail:
        return snapshot
    return TaskFold.of(snapshot, stored.tail).snapshot()
