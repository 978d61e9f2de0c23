"""`Trial`: clients at work while nodes and their database are killed, and the checks after it."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Protocol

from msgspec import Struct, field
from tests.acceptance.cluster.clients import ClusterClient, Refused
from tests.acceptance.cluster.history import History
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import http_client
from tests.acceptance.kill_clients import ENDED, GONE, PAUSED
from tests.acceptance.kill_gateway import GatewayProcess, Row
from tests.postgres.proxy import DatabaseProxy
from tests.remote.http.peer import client as remote_client

from trunkline.remote.http import HttpClient

CLIENTS = 12
# The others have taken over the work of a node that was killed.
TAKEOVER_S = 10.0
# Facts that clients learn between two disturbances.
_BETWEEN = (50, 250)
# A node that is cut off has noticed, and refuses requests.
_SAYS_SO_S = 20.0
# Nothing waits this long when all is well.
_PATIENCE_S = 60.0


async def is_ready(node: GatewayProcess) -> bool:
    async with http_client() as http:
        return (await http.get(f"http://127.0.0.1:{node.port}/readyz")).status_code == 200


class Link(Protocol):
    """The way of a node to the database."""

    def freeze(self) -> None:
        """Let nothing pass, and close nothing."""

    def thaw(self) -> None: ...


class Disk(Protocol):
    """What the database keeps its files on."""

    def fill(self) -> None: ...

    def empty(self) -> None:
        """Have space again. The database runs afterwards."""


class Trial(Struct, kw_only=True):
    nodes: Nodes
    # Every task in the store.
    read: Callable[[], dict[str, Row]]
    chance: random.Random
    # Kills the database and starts it again.
    restart_database: Callable[[], Awaitable[None]] | None = None
    # What stands between each node and the database.
    proxies: Sequence[DatabaseProxy] = ()
    # For each node.
    links: Sequence[Link] = ()
    disk: Disk | None = None
    # How long a node stands still, or is cut off.
    pause_s: float = 0.0
    # Seconds until the work of nodes was taken over that were killed or stopped.
    takeovers: list[float] = []
    # The same for those that were asked to stop, from their end on, where nothing else was done
    # to the nodes or the database meanwhile.
    hand_overs: list[float] = []
    disturbed_hand_overs: list[float] = []
    # When something was last done to the nodes or the database, and each time that it was.
    _disturbed_at: float = 0.0
    _disturbances: list[float] = []
    _reviving: set["asyncio.Task[None]"] = field(default_factory=set)
    _http: HttpClient | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    async def run(self, disturbances: list[str]) -> History:
        """What to do, one after the other.

        `kill`, `stop` (SIGTERM), `pause` (SIGSTOP) and `cut off` (from the database) are for a
        node; `database` restarts the database, `full disk` leaves it no space for a while, and
        `lose` loses an answer or a connection.
        """
        nodes = self.nodes
        await nodes.start()
        async with remote_client() as http, asyncio.TaskGroup() as group:
            self._http = http
            clients = [
                group.create_task(nodes.client(http, f"client{number}").work())
                for number in range(CLIENTS)
            ]
            checker = nodes.client(http, "checker", nodes.url_of_one_up)
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
            messages=told.messages,
            turns=nodes.turns(),
            stops=nodes.stops,
        )

    def summary(self, history: History) -> str:
        states = Counter(str(row.state) for row in history.rows.values())
        return (
            f"{len(history.rows)} tasks {dict(states)}, {len(history.turns)} turns, "
            f"refused {self.nodes.told.refusals}, "
            f"takeovers {[round(s, 2) for s in sorted(self.takeovers)]}, "
            f"hand-overs {[round(s, 2) for s in sorted(self.hand_overs)]}, "
            f"disturbed {[round(s, 2) for s in sorted(self.disturbed_hand_overs)]}"
        )

    async def _disturb(self, what: str, checker: ClusterClient, group: asyncio.TaskGroup) -> None:
        self._disturbances.append(time.monotonic())
        if what == "database":
            assert self.restart_database is not None
            await self.restart_database()
            self._disturbed_at = time.monotonic()
            return
        if what == "full disk":
            await self._fill_disk()
            return
        if what == "lose":
            # Not of a node that is about to start: it ends when it cannot open its store.
            if self.nodes.up:
                node = self.chance.choice(self.nodes.up)
                self._lose(self.proxies[self.nodes.all.index(node)])
            return
        # One node stays up; a single one is started again at once.
        spare = 1 if len(self.nodes.all) > 1 else 0
        while len(self.nodes.up) <= spare:
            await asyncio.wait(self._reviving, return_when=asyncio.FIRST_COMPLETED)
        node = self.chance.choice(self.nodes.up)
        self.nodes.up.remove(node)
        self._disturbed_at = time.monotonic()
        do = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "cut off": self._cut_off,
        }[what]
        reviving = group.create_task(do(node, checker))
        self._reviving.add(reviving)
        reviving.add_done_callback(self._reviving.discard)

    async def _fill_disk(self) -> None:
        """Until every node refuses requests for it."""
        assert self.disk is not None
        # A node does not start without its store.
        for task in list(self._reviving):
            await task
        await asyncio.to_thread(self.disk.fill)
        try:
            await asyncio.gather(*map(self._refuses, self.nodes.all))
        finally:
            await asyncio.to_thread(self.disk.empty)
        for node in self.nodes.all:
            await eventually(partial(is_ready, node))
        self._disturbed_at = time.monotonic()

    async def _kill(self, node: GatewayProcess, checker: ClusterClient) -> None:
        await self.nodes.kill(node)
        if self.nodes.up:
            await self._await_takeover(node, checker)
        await self.nodes.revive(node)
        self.nodes.up.append(node)

    async def _pause(self, node: GatewayProcess, checker: ClusterClient) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.pause(node, self.pause_s))
            await self._await_takeover(node, checker)
        self.nodes.up.append(node)

    async def _cut_off(self, node: GatewayProcess, checker: ClusterClient) -> None:
        """Nothing passes between the node and the database, and no connection is closed."""
        link = self.links[self.nodes.all.index(node)]
        link.freeze()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(self.pause_s))
                if self.pause_s > _SAYS_SO_S:
                    group.create_task(self._refuses(node))
                await self._await_takeover(node, checker)
        finally:
            link.thaw()
        await eventually(partial(is_ready, node))
        self.nodes.up.append(node)

    async def _refuses(self, node: GatewayProcess) -> None:
        """It says that it is cut off, and lets no caller wait."""

        async def is_unready() -> bool:
            return not await is_ready(node)

        await eventually(is_unready)
        assert self._http is not None
        client = self.nodes.client(self._http, f"refused-{next(self._numbers)}", node.url)

        async def is_refused() -> bool:
            try:
                await client.submit("effects", "1 0")
            except GONE:
                # It was not sure yet.
                return False
            except Refused as refused:
                return (refused.status, refused.retry_after is not None) == (503, True)
            raise AssertionError("accepted without a database")

        await eventually(is_refused)

    def _lose(self, proxy: DatabaseProxy) -> None:
        """A connection breaks while nothing happens, or after a statement was carried out."""
        role = self.chance.choice(sorted(proxy.roles()) or [""])
        if self.chance.random() < 0.5:
            proxy.cut(role)
        else:
            proxy.lose_answer(role)

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
            # The node that takes over may be killed as well, and the database may be away.
            took_s = time.monotonic() - max(began, self._disturbed_at)
            if not tasks:
                return took_s
            assert took_s < within_s, f"{tasks} have not ended after {took_s:.1f} s"
            await asyncio.sleep(0.02)

    async def _stop(self, node: GatewayProcess, checker: ClusterClient) -> None:
        """Ask it to stop while a context has a queue there."""
        tasks = await checker.fill_queue("effects", node.url("effects"))
        stopped_at = time.monotonic()
        code = await node.stop()
        ended_ns = time.monotonic_ns()
        assert code == 0, node.log()
        await self._await_ends(tasks, checker, within_s=_PATIENCE_S)
        began = [
            turn.began_ns
            for turn in self.nodes.turns()
            if turn.task_id in tasks and turn.pid != node.pid
        ]
        # Clients may have canceled them all, and on a busy machine they may have run before.
        if began:
            is_disturbed = any(stopped_at < at < min(began) / 1e9 for at in self._disturbances)
            found = self.disturbed_hand_overs if is_disturbed else self.hand_overs
            found.append((min(began) - ended_ns) / 1e9)
        await self.nodes.revive(node)
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
