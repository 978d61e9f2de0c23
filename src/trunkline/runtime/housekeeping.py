"""What has to happen now and then, each in its own supervised loop."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.retention import forgets, prune
from trunkline.runtime.service import Service
from trunkline.runtime.tasks import Tasks
from trunkline.runtime.turns import Turns

_log = logging.getLogger("trunkline.housekeeping")

NODE_TTL_S = 15.0
DEADLINE_CHECK_S = 1.0
PRUNE_EVERY_S = 60.0


class Housekeeping:
    def __init__(
        self,
        *,
        store: Store,
        service: Service,
        turns: Turns,
        clock: Clock,
        node: str,
        agents: Iterable[PublishedAgent],
        heartbeat_s: float,
    ) -> None:
        self._store = store
        self._service = service
        self._turns = turns
        self._clock = clock
        self._node = node
        self._heartbeat_s = heartbeat_s
        self._forgetful = [agent for agent in agents if forgets(agent.profile)]
        self._tasks = Tasks("housekeeping")

    async def start(self) -> None:
        await self.renew_lease()
        self._every(NODE_TTL_S / 3, self.renew_lease, "lease")
        self._every(DEADLINE_CHECK_S, self.check_deadlines, "deadlines")
        self._every(self._heartbeat_s, self.beat, "heartbeat")
        if self._forgetful:
            self._every(PRUNE_EVERY_S, self.prune, "prune")

    async def close(self) -> None:
        await self._tasks.close()

    async def renew_lease(self) -> None:
        await self._store.heartbeat(
            self._node, now_ms=self._clock.now_ms(), ttl_ms=int(NODE_TTL_S * 1000)
        )

    async def check_deadlines(self) -> None:
        self._turns.expire()

    async def beat(self) -> None:
        """A sign of life to every reader; proxies cut a connection that is silent."""
        for subscription in tuple(self._service.subscriptions):
            subscription.beat()

    async def prune(self) -> None:
        """Forget the ended tasks and the exchanges that are past what each agent keeps."""
        now_ms = self._clock.now_ms()
        for agent in self._forgetful:
            profile = agent.profile
            gone = await prune(
                self._store,
                agent.handle,
                before_ms=now_ms - int(profile.retention_s * 1000) if profile.retention_s else None,
                keep=profile.retention_max_tasks or None,
            )
            if gone.tasks:
                _log.info("pruned ended tasks", extra={"agent": agent.handle, "count": gone.tasks})

    def _every(self, seconds: float, action: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.spawn(self._loop(seconds, action, name), name=name)

    async def _loop(self, seconds: float, action: Callable[[], Awaitable[None]], name: str) -> None:
        while True:
            await self._clock.sleep(seconds)
            try:
                await action()
            except Exception:  # noqa: BLE001 - logged, and the next round tries again
                _log.exception("housekeeping failed", extra={"what": name})
