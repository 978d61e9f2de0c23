"""`Housekeeping`: periodic work, each kind in its own supervised loop."""

import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.runtime.heartbeats import Heartbeats
from trunkline.runtime.journal import Journal
from trunkline.runtime.retention import Retention
from trunkline.runtime.runs import Runs

_log = logging.getLogger("trunkline.housekeeping")

LOOK_EVERY_S = 5.0
# A healthy disk commits in milliseconds and a very slow one in a second or two. After this long,
# another node serves callers better.
COMMITS_STUCK_S = 10


class Housekeeping(Struct, kw_only=True, eq=False):
    store: Store
    journal: Journal
    subscriptions: Heartbeats
    runs: Runs
    clock: Clock
    retention: Retention
    # The seconds for which the oldest append has waited for its commit.
    commits_wait_s: int = 0
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("housekeeping"))

    async def start(self) -> None:
        try:
            await self.retention.look_at_clock()
        except StoreError as error:  # the gateway starts also when the disk is full
            _log.error("retention is not scheduled yet", extra={"reason": error.message})
        self._every(LOOK_EVERY_S, self.look_after_store, "store")
        self._every(1.0, self.each_second, "commits and deadlines")
        self._every(self.subscriptions.slot_s, self.beat, "heartbeat")

    async def close(self) -> None:
        await self._tasks.close()

    async def look_after_store(self) -> None:
        """Let an idle gateway notice that its store is gone, or works again."""
        await self.store.check()
        await self.retention.look_at_clock()

    async def each_second(self) -> None:
        self.watch_commits()
        self.runs.expire()

    @property
    def stuck_commits(self) -> str:
        """A sentence for operators while the store does not answer; empty while it does."""
        if self.commits_wait_s < COMMITS_STUCK_S:
            return ""
        return f"the store has not answered for {self.commits_wait_s} s; check its disk or database"

    def watch_commits(self) -> None:
        """Notice a store that neither commits nor refuses."""
        waited_before_s, self.commits_wait_s = self.commits_wait_s, self.journal.commit_waits.tick()
        if waited_before_s < COMMITS_STUCK_S <= self.commits_wait_s:
            _log.error(
                "commits are stuck: the store neither commits nor refuses",
                extra={
                    "waited_s": self.commits_wait_s,
                    "appends": self.journal.commit_waits.unsettled,
                },
            )
        elif self.commits_wait_s < COMMITS_STUCK_S <= waited_before_s:
            _log.warning("commits continue", extra={"waited_s": waited_before_s})

    async def beat(self) -> None:
        self.subscriptions.tick()

    def _every(self, seconds: float, action: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.spawn(self._loop(seconds, action, name), name=name)

    async def _loop(self, seconds: float, action: Callable[[], Awaitable[None]], name: str) -> None:
        while True:
            await self.clock.sleep(seconds)
            try:
                await action()
            except StoreError as error:
                _log.error("housekeeping failed", extra={"what": name, "reason": error.message})
            except Exception:  # noqa: BLE001 - logged, and the next round tries again
                _log.exception("housekeeping failed", extra={"what": name})
