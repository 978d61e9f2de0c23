"""`PostgresCluster`: the nodes that share a PostgreSQL store, and their lanes.

Leases go by the clock of the database, so the clocks of the nodes do not matter. A node is dead
from the moment that another one finds its lease over; it cannot beat after that, and its lanes go
to those who take them.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Protocol

import msgspec

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreUnusable
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Grant, NodeLeft, Notice, SlotRequest, SlotShare, Times
from trunkline.ports.figures import Figure
from trunkline.ports.store import Scope, StoredTask
from trunkline.stores.postgres.database import Database, LastingConnection
from trunkline.stores.postgres.notices import PROOF_S, Notices
from trunkline.stores.postgres.packing import boolean, int4, int8, int8s, text, texts
from trunkline.stores.postgres.slots import Slots
from trunkline.stores.statements import Statements
from trunkline.version import VERSION

_log = logging.getLogger("trunkline.cluster")

SQL = Statements(files(__package__).joinpath("lanes.sql").read_text("utf-8"))

_TIMES = Times()
# Tasks of lanes that were taken over and are read at the same time.
_READS = 32
# Lanes that are left in one statement, which locks them.
_LEAVES = 500
_FORGET_NODES_S = 600.0


class NodeStore(Protocol):
    """The store of the node, whose appends name the node."""

    node: int

    def suspect(self) -> None:
        """Find out whether the database answers."""
        ...

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None: ...


class PostgresCluster:
    def __init__(
        self,
        url: str,
        store: NodeStore,
        *,
        clock: Clock,
        listen_url: str = "",
        prepares: bool = True,
        times: Times = _TIMES,
        proof_s: float = PROOF_S,
    ) -> None:
        """`listen_url` reaches the database itself where `url` leads to a pooler. `prepares`:
        whether statements may be prepared, as they may not behind some poolers."""
        self.times = times
        self._store = store
        self._clock = clock
        database = self._database = Database(url, prepares=prepares, on_late=store.suspect)
        # Apart from all others, because no beat may wait for a lane. A beat that takes long gets a
        # second attempt on a new connection before the lease is over.
        self._beats = LastingConnection(database, "beat", statement_s=times.lease_s / 6)
        self._lanes = LastingConnection(database, "lanes")
        self._slots = Slots(self._lanes, SQL)
        self._notices = Notices(
            database, SQL, clock=clock, listen_url=listen_url or url, proof_s=proof_s
        )
        self._node = 0
        # The timeline of the server. Another one means that a standby has taken over, and that
        # commits may be lost.
        self._timeline = ""
        self._takes_over_from = 0.0
        # The number of the last takeover, and whether its answer is missing.
        self._call = 0
        self._is_unanswered = False
        self._taking_over = asyncio.Lock()
        self._tasks = BackgroundTasks("cluster")

    async def join(self, hear: Callable[[Notice], None]) -> None:
        # First, so that nothing is told between the reading of a row and the listening.
        await self._notices.start(hear)
        node = secrets.randbits(63) or 1
        lease = int8(int(self.times.lease_s * 1000))
        rows = await self._beats.run(SQL["join"], (int8(node), text(_about(self._clock)), lease))
        self._look_at_timeline(rows[0][0])
        self._node = self._store.node = node
        self._call, self._is_unanswered = 0, False
        if not len(self._tasks):
            self._tasks.spawn(self._forget_nodes(), name="nodes")

    async def beat(self) -> bool:
        lease = int8(int(self.times.lease_s * 1000))
        rows = await self._beats.run(SQL["beat"], (int8(self._node), lease))
        return bool(rows) and not self._look_at_timeline(rows[0][0])

    def _look_at_timeline(self, timeline: str) -> bool:
        """Whether the server is another one since the last look. Then its rows may say less than
        the nodes know, so no node takes over before all had the time to notice."""
        before, self._timeline = self._timeline, timeline
        if before in ("", timeline):
            return False
        _log.error(
            "the database failed over, so this node begins anew; without a synchronous standby, "
            "commits of the last moments may be lost",
            extra={"timeline": timeline, "before": before},
        )
        self._takes_over_from = self._clock.monotonic() + self.times.lease_s
        return True

    def figures(self) -> Iterator[Figure]:
        notices = self._notices
        yield "trunkline_notices_sent_total", "Notices told to other nodes.", notices.told
        yield "trunkline_notices_heard_total", "Notices heard from other nodes.", notices.heard
        yield (
            "trunkline_notices_missed_total",
            "Times that notices of other nodes may have been lost.",
            notices.missed,
        )

    async def resign(self) -> None:
        try:
            await self._beats.run(SQL["resign"], (int8(self._node),))
            await self._notices.farewell(self._beats, NodeLeft())
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connections, without a word to the others."""
        await self._tasks.close()
        await self._notices.close()
        self._beats.close()
        self._lanes.close()

    @property
    def _known_timeline(self) -> str:
        """The timeline in which this node takes over; none for a while after a failover."""
        return self._timeline if self._clock.monotonic() >= self._takes_over_from else ""

    async def take(self, lane: str) -> Grant | None:
        params = (int8(self._node), text(lane), text(self._known_timeline))
        [(epoch,)] = await self._lanes.run(SQL["take"], params)
        if epoch is None:
            return None
        work = await self._find_work([lane])
        return Grant(lane, epoch, work.get(lane, ()))

    async def take_over(self, *, agents: Collection[str], limit: int) -> Sequence[Grant]:
        if not self._known_timeline or not agents:
            return ()
        async with self._taking_over:
            return await self._take_over(agents, limit)

    async def _take_over(self, agents: Collection[str], limit: int) -> Sequence[Grant]:
        if not self._is_unanswered:
            self._call += 1
        head = (int8(self._node), text(self._known_timeline), int8(self._call))
        tail = (texts(list(agents)), int4(limit))
        params = (*head, boolean(self._is_unanswered), *tail)
        self._is_unanswered = True
        again = (*head, boolean(True), *tail)
        taken = await self._lanes.run(SQL["take_over"], params, again=again)
        work = await self._find_work([lane for lane, _ in taken]) if taken else {}
        self._is_unanswered = False
        return [Grant(lane, epoch, work.get(lane, ())) for lane, epoch in taken]

    async def _find_work(self, lanes: Sequence[str]) -> Mapping[str, tuple[StoredTask, ...]]:
        """The tasks of these lanes, which are this node's now, that have work to do."""
        found = await self._lanes.run(SQL["find_work"], (texts(lanes),))
        work: dict[str, list[StoredTask]] = {}
        for start in range(0, len(found), _READS):
            some = found[start : start + _READS]
            reads = (self._store.get(Scope(*scope), task_id) for _, task_id, *scope in some)
            for (lane, *_), task in zip(some, await asyncio.gather(*reads), strict=True):
                if task is not None:
                    work.setdefault(lane, []).append(task)
        return {lane: tuple(tasks) for lane, tasks in work.items()}

    async def leave(self, lanes: Sequence[tuple[str, int]]) -> Sequence[str]:
        stay: list[str] = []
        # In this order, so that no two statements wait for each other.
        ordered = sorted(lanes)
        for start in range(0, len(ordered), _LEAVES):
            some = ordered[start : start + _LEAVES]
            names, epochs = texts([lane for lane, _ in some]), int8s([epoch for _, epoch in some])
            rows = await self._lanes.run(SQL["leave"], (int8(self._node), names, epochs))
            stay += [lane for (lane,) in rows]
        return stay

    async def free(self, lane: str, epoch: int) -> None:
        await self._lanes.run(SQL["free"], (int8(self._node), text(lane), int8(epoch)))

    async def share_slots(self, requests: Sequence[SlotRequest]) -> Sequence[SlotShare]:
        return await self._slots.share(self._node, requests)

    def tell(self, notice: Notice) -> None:
        self._notices.tell(notice)

    async def _forget_nodes(self) -> None:
        while True:
            await self._clock.sleep(_FORGET_NODES_S)
            try:
                await self._lanes.run(SQL["forget_nodes"])
            except StoreUnusable as error:
                _log.warning("dead nodes stay in the list", extra={"reason": error.message})


def _about(clock: Clock) -> str:
    """What operators see of a node."""
    about: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "release": VERSION,
        "started_ms": clock.now_ms(),
    }
    return msgspec.json.encode(about).decode()
