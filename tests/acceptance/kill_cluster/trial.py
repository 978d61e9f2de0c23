"""`Trial`: clients at work while nodes and their database are killed, and the checks after it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from msgspec import Struct, field
from tests.acceptance.kill_clients import ENDED, GONE, PAUSED
from tests.acceptance.kill_cluster.clients import ClusterClient, Refused
from tests.acceptance.kill_cluster.history import History
from tests.acceptance.kill_cluster.nodes import Nodes
from tests.acceptance.kill_gateway import GatewayProcess, Row
from tests.remote.http.peer import client as http_client

CLIENTS = 12
# The others have taken over the work of a node that was killed.
TAKEOVER_S = 10.0
# Facts that clients learn between two disturbances.
_BETWEEN = (50, 250)
# Nothing waits this long when all is well.
_PATIENCE_S = 60.0


class Trial(Struct, kw_only=True):
    nodes: Nodes
    # Every task in the store.
    read: Callable[[], dict[str, Row]]
    chance: random.Random
    # Kills the database and starts it again.
    restart_database: Callable[[], Awaitable[None]] | None = None
    pause_s: float = 0.0
    # Seconds until the work of nodes was taken over that were killed or stopped.
    takeovers: list[float] = []
    # The same for those that were asked to stop, from their end on.
    hand_overs: list[float] = []
    _reviving: set["asyncio.Task[None]"] = field(default_factory=set)

    async def run(self, disturbances: list[str]) -> History:
        """What to do to the nodes, one after the other: `kill`, `stop`, `pause` or `database`."""
        nodes = self.nodes
        await nodes.start()
        async with http_client() as http, asyncio.TaskGroup() as group:
            clients = [
                group.create_task(nodes.client(http, f"client{number}").work())
                for number in range(CLIENTS)
            ]
            checker = nodes.client(http, "checker")
            for what in disturbances:
                async with asyncio.timeout(_PATIENCE_S):
                    await nodes.told.reach(nodes.told.count + self.chance.randrange(*_BETWEEN))
                await self._disturb(what, checker, group)
            for task in list(self._reviving):
                await task
            nodes.told.is_over = True
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.wait(clients)
            await self._wait_for_the_end()
            await self._check_replays(checker)
        rows = await asyncio.to_thread(self.read)
        told = nodes.told
        return History(
            rows,
            events=told.events,
            ended=told.ended,
            acknowledged=told.acknowledged,
            turns=nodes.turns(),
            stops=nodes.stops,
        )

    async def _disturb(self, what: str, checker: ClusterClient, group: asyncio.TaskGroup) -> None:
        if what == "database":
            assert self.restart_database is not None
            await self.restart_database()
            return
        # One node stays up; a single one is started again at once.
        spare = 1 if len(self.nodes.all) > 1 else 0
        while len(self.nodes.up) <= spare:
            await asyncio.wait(self._reviving, return_when=asyncio.FIRST_COMPLETED)
        node = self.chance.choice(self.nodes.up)
        self.nodes.up.remove(node)
        do = {"kill": self._kill, "stop": self._stop, "pause": self._pause}[what]
        reviving = group.create_task(do(node, checker))
        self._reviving.add(reviving)
        reviving.add_done_callback(self._reviving.discard)

    async def _kill(self, node: GatewayProcess, checker: ClusterClient) -> None:
        await self.nodes.kill(node)
        if self.nodes.up:
            await self._await_takeover(node, checker)
        await node.start()
        self.nodes.up.append(node)

    async def _pause(self, node: GatewayProcess, checker: ClusterClient) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.pause(node, self.pause_s))
            await self._await_takeover(node, checker)
        self.nodes.up.append(node)

    async def _await_takeover(self, node: GatewayProcess, checker: ClusterClient) -> None:
        """The turns with effects that ran there end, because another node fails them."""
        left = self.nodes.running(node, kind="effects")
        if left:
            self.takeovers.append(await self._await_ends(left, checker, within_s=TAKEOVER_S))

    async def _await_ends(
        self, tasks: Collection[str], checker: ClusterClient, *, within_s: float
    ) -> float:
        """Wait until these tasks have ended. Returns after how many seconds."""
        began = time.monotonic()
        while True:
            tasks = [task_id for task_id in tasks if not await self._has_ended(checker, task_id)]
            took_s = time.monotonic() - began
            if not tasks:
                return took_s
            assert took_s < within_s, f"{tasks} have not ended after {took_s:.1f} s"
            await asyncio.sleep(0.02)

    async def _stop(self, node: GatewayProcess, checker: ClusterClient) -> None:
        """Ask it to stop while a context has a queue there."""
        tasks = await checker.fill_queue("effects", node.url("effects"))
        code = await node.stop()
        ended_ns = time.monotonic_ns()
        assert code == 0, node.log()
        await self._await_ends(tasks, checker, within_s=_PATIENCE_S)
        began = min(
            turn.began_ns
            for turn in self.nodes.turns()
            if turn.task_id in tasks and turn.pid != node.pid
        )
        self.hand_overs.append((began - ended_ns) / 1e9)
        await node.start()
        self.nodes.up.append(node)

    async def _has_ended(self, checker: ClusterClient, task_id: str) -> bool:
        state = None
        with suppress(*GONE, Refused):
            # A task that nobody was told about may have any of these agents.
            task = await checker.find(task_id)
            state = task["status"]["state"]
        return state in ENDED or state == PAUSED

    async def _wait_for_the_end(self) -> None:
        """Queues run empty, and what nodes left behind is taken over."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                rows = await asyncio.to_thread(self.read)
                if all(row.state in ENDED or row.state == PAUSED for row in rows.values()):
                    return
                await asyncio.sleep(0.1)

    async def _check_replays(self, checker: ClusterClient) -> None:
        """Any node replays every journal, as clients were told it."""
        for task_id, agent in self.nodes.told.agents.items():
            known = dict(self.nodes.told.events.get(task_id, {}))
            replay = await checker.follow(agent, task_id, after=0)
            assert sorted(replay) == list(range(1, len(replay) + 1)), task_id
            # The client compares each with what was told before.
            assert known.keys() <= replay.keys(), task_id
