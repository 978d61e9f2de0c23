"""`Followers`: brings tasks that other nodes write to up to date in this node's memory."""

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError, TaskNotFound
from trunkline.ports.store import Store
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.registry import Registry, snapshot_of

# The maximum number of entries to read at a time.
_CHUNK = 500


class Followers(Struct, kw_only=True, eq=False):
    store: Store
    registry: Registry
    journal: Journal
    # Tasks that are being read, and whether there is news about them since.
    _reading: dict[str, bool] = {}
    # Tasks whose entries may have been pruned, because this node was away from the store.
    _in_doubt: set[str] = set()
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("followers"))

    async def close(self) -> None:
        await self._tasks.close()

    def hear(self, task_id: str, seq: int) -> None:
        """Another node has committed the journal of the task up to `seq`."""
        live = self.registry.in_memory(task_id)
        if live is not None and live.lease is None and seq > live.committed_seq:
            self._read_soon(live)

    def sweep(self) -> None:
        """Look after every task that is followed, because a notice may have been lost. Forget those
        that no reader follows any more."""
        for live in self.registry.all():
            if live.lease is None:
                self.registry.forget_if_idle(live)
                if self.registry.in_memory(live.task_id) is live:
                    self._read_soon(live)

    def doubt(self) -> None:
        """Make sure that no task was pruned while this node was away from the store."""
        self._in_doubt = {live.task_id for live in self.registry.all() if live.lease is None}
        self.sweep()

    def _read_soon(self, live: LiveTask) -> None:
        if live.task_id in self._reading:
            self._reading[live.task_id] = True
        else:
            self._reading[live.task_id] = False
            self._tasks.spawn(self._read(live), name=f"follow {live.task_id}")

    async def _read(self, live: LiveTask) -> None:
        try:
            while True:
                self._reading[live.task_id] = False
                await self._catch_up_or_let_go(live)
                if not self._reading[live.task_id]:
                    return
        except StoreError:
            """The next sweep tries again. The store itself says what is wrong with it."""
        finally:
            del self._reading[live.task_id]

    async def _catch_up_or_let_go(self, live: LiveTask) -> None:
        if live.task_id not in self._in_doubt:
            await self.catch_up(live)
            return
        stored = await self.store.get(live.scope, live.task_id)
        await self.catch_up(live)
        self._in_doubt.discard(live.task_id)
        is_followed = live.lease is None and not live.is_dropped
        if is_followed and (stored is None or snapshot_of(stored).seq > live.committed_seq):
            self._let_go(live)

    async def catch_up(self, live: LiveTask) -> None:
        """Take over all entries of a followed task that the store has. Raises StoreError."""
        while True:
            after = live.committed_seq
            entries = await self.store.entries(live.task_id, after=after, limit=_CHUNK)
            # This node may have become the writer meanwhile, or another reading was faster.
            if live.lease is not None or live.is_dropped:
                return
            new = tuple([entry for entry in entries if entry.seq > live.committed_seq])
            if not new:
                return
            if new[0].seq != live.committed_seq + 1:
                self._let_go(live)
                return
            self.journal.follow(live, new)

    def _let_go(self, live: LiveTask) -> None:
        """Drop a task whose entries were pruned before this node had read them."""
        self.registry.drop(live)
        self.journal.answer_waiters(live, TaskNotFound(live.task_id))
        for reader in list(live.subscriptions):
            reader.stop("the journal was pruned", live.committed_seq)
