"""`Housekeeping`: periodic work, each kind in its own supervised loop."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.engine.retention import ClockTrust
from trunkline.model.errors import StoreError
from trunkline.model.profile import Profile
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.heartbeats import Heartbeats
from trunkline.runtime.journal import Journal
from trunkline.runtime.retention import PacedSteps, forgets, prune
from trunkline.runtime.runs import Runs

_log = logging.getLogger("trunkline.housekeeping")

NODE_TTL_S = 15.0
# A healthy disk commits in milliseconds and a very slow one in a second or two. After this long,
# another node serves callers better.
COMMITS_STUCK_S = 10
PRUNE_EVERY_S = 60.0
# How long the clock must have been steady before tasks are deleted by age: a time server corrects a
# wrong clock within minutes of a start. An agent that keeps its tasks for less than this waits only
# as long as it keeps them.
STEADY_CLOCK_S = 3600.0


class Housekeeping(Struct, kw_only=True, eq=False):
    store: Store
    journal: Journal
    subscriptions: Heartbeats
    runs: Runs
    clock: Clock
    trust: ClockTrust
    node: str
    agents: Mapping[str, PublishedAgent]
    # The seconds for which the oldest append has waited for its commit.
    commits_wait_s: int = 0
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("housekeeping"))

    async def start(self) -> None:
        await self.renew_lease()
        self._every(NODE_TTL_S / 3, self.look_after_store, "store")
        self._every(1.0, self.each_second, "commits and deadlines")
        self._every(self.subscriptions.slot_s, self.beat, "heartbeat")
        self._every(PRUNE_EVERY_S, self.prune, "prune")

    async def close(self) -> None:
        await self._tasks.close()

    async def renew_lease(self) -> None:
        await self.store.heartbeat(
            self.node, now_ms=self.clock.now_ms(), ttl_ms=int(NODE_TTL_S * 1000)
        )

    async def look_after_store(self) -> None:
        """Let an idle gateway notice that its store is gone, or works again."""
        await self.renew_lease()
        await self.store.check()

    async def each_second(self) -> None:
        self.watch_commits()
        self.runs.expire()

    @property
    def stuck_commits(self) -> str:
        """A sentence for operators while the store does not answer; empty while it does."""
        if self.commits_wait_s < COMMITS_STUCK_S:
            return ""
        return f"the store has not answered for {self.commits_wait_s} s; check its disk"

    def watch_commits(self) -> None:
        """Notice a store that neither commits nor refuses."""
        waited_before_s, self.commits_wait_s = self.commits_wait_s, self.journal.tick()
        if waited_before_s < COMMITS_STUCK_S <= self.commits_wait_s:
            _log.error(
                "commits are stuck: the store neither commits nor refuses",
                extra={"waited_s": self.commits_wait_s, "appends": self.journal.unsettled},
            )
        elif self.commits_wait_s < COMMITS_STUCK_S <= waited_before_s:
            _log.warning("commits continue", extra={"waited_s": waited_before_s})

    async def beat(self) -> None:
        self.subscriptions.tick()

    async def prune(self) -> None:
        """Delete the ended tasks and the exchanges that are older than each agent keeps them."""
        now_ms = self.clock.now_ms()
        jump_s = self.trust.observe(now_ms=now_ms, monotonic_s=self.clock.monotonic())
        if jump_s:
            _log.warning(
                "the system clock jumped; nothing is pruned by age until it has been steady",
                extra={"jump_s": round(jump_s), "steady_s": STEADY_CLOCK_S},
            )
        steps = PacedSteps(self.clock, lambda: self.journal.committed_entries)
        for agent in [each for each in self.agents.values() if forgets(each.profile)]:
            gone = await prune(
                self.store,
                agent.handle,
                before_ms=self._forgets_before(agent.profile, now_ms),
                keep=agent.profile.retention_max_tasks or None,
                steps=steps,
            )
            if gone.tasks:
                _log.info("pruned ended tasks", extra={"agent": agent.handle, "count": gone.tasks})

    def _forgets_before(self, profile: Profile, now_ms: int) -> int | None:
        keeps_s = profile.retention_s
        if not keeps_s or self.trust.steady_s < min(keeps_s, STEADY_CLOCK_S):
            return None
        return now_ms - int(keeps_s * 1000)

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
