"""`Ownership`: the lanes that this node owns, where several nodes share the store.

A node takes a lane before it writes to a task of it, keeps the lane while something of it runs or
waits, and leaves it soon after. It takes over the lanes of nodes that are gone, and treats their
unfinished tasks as a restart would. A node that could not beat for a while owns nothing any more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError, Unavailable
from trunkline.model.events import Entry
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Advanced, Cluster, Grant, Notice, lane_name, read_lane_name
from trunkline.ports.store import StoredTask
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.followers import Followers
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import Lease, LiveTask
from trunkline.runtime.registry import Registry, followed
from trunkline.runtime.slots import Slots

_log = logging.getLogger("trunkline.cluster")

# How long a request waits for a node that has lost its lanes to join again.
JOIN_WAIT_S = 5.0
_TAKE_OVER = 64


def name_of(lane: Lane) -> str:
    """The name of the lane in the store."""
    return lane_name(lane.scope, lane.name)


def lane_of_name(name: str) -> Lane:
    return Lane(*read_lane_name(name))


class Ownership(Struct, kw_only=True, eq=False):
    cluster: Cluster
    clock: Clock
    registry: Registry
    journal: Journal
    followers: Followers
    slots: Slots
    agents: Mapping[str, PublishedAgent]
    # The agent of a handle, also while it is being withdrawn.
    find: Callable[[str], PublishedAgent | None]
    # Treats the unfinished tasks of a lane as a restart would.
    recover: Callable[[Sequence[LiveTask]], None]
    # Ends the runs of these lanes that have no task.
    give_up: Callable[[Collection[Lane]], None]
    held: dict[Lane, Lease] = {}
    # Lanes that are being taken or left.
    _moving: dict[Lane, "asyncio.Future[Any]"] = {}
    # Lanes that the store may have given to this node, which does not hold them, because a call
    # failed on its way.
    _unsure: set[Lane] = set()
    # How many lanes of other nodes it took over.
    taken_over: int = 0
    # When the last beat that succeeded was sent.
    _beaten_at: float = 0.0
    # Set while this node may own lanes: not from the moment it gave them up until it has joined
    # again.
    _joined: asyncio.Event = field(default_factory=asyncio.Event)
    # Rises whenever this node gives up its lanes.
    _term: int = 0
    _hear: Callable[[Notice], None] | None = None
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("lanes"))

    # How long this node trusts in its last beat.
    _trust_s: float = 0.0

    def __post_init__(self) -> None:
        self._trust_s = self.cluster.times.trust_s

    async def start(self, hear: Callable[[Notice], None]) -> None:
        self._hear = hear
        self.journal.taps = (*self.journal.taps, self._tell_committed)
        await self._join()
        await self.take_over()

    async def _join(self) -> None:
        assert self._hear is not None
        sent = self.clock.monotonic()
        await self.cluster.join(self._hear)
        self._beaten_at = sent
        self._joined.set()

    def _tell_committed(self, live: LiveTask, entries: tuple[Entry, ...]) -> None:
        self.cluster.tell(Advanced(live.task_id, entries[-1].seq))

    def watch(self) -> None:
        """Give up the lanes of a node that cannot beat: soon the others take them."""
        if self._joined.is_set() and not self.is_trusted:
            self.lose(f"this node could not beat for {self._trust_s:g} s")

    @property
    def is_trusted(self) -> bool:
        """Whether this node beat a short time ago, so that its lanes still belong to it."""
        return self.clock.monotonic() - self._beaten_at < self._trust_s

    @property
    def is_joined(self) -> bool:
        return self._joined.is_set()

    def may_begin(self) -> bool:
        """Whether a turn may begin in a lane of this node. A process that was stopped for a while
        comes here before its clock tells it to give up its lanes."""
        if self.is_trusted:
            return True
        # Not at once, because a commit may be under way that would be refused in its middle.
        asyncio.get_running_loop().call_soon(self.lose, "this node was stopped for a while")
        return False

    def lane_of(self, task: LiveTask | StoredTask) -> Lane:
        agent = self.agents.get(task.scope.agent)
        if agent is None:
            raise Unavailable("The agent is not published at this node", retry_after_s=5)
        return agent.owned_lane(agent.lane(task.scope, task.context_id, task.task_id))

    async def fresh(self, lane: Lane) -> Lease:
        """Own a lane that no other node can know. Its first append tells the store."""
        self.watch()
        while not self._joined.is_set():
            await self._until_joined()
        lease = self.held[lane] = Lease(name_of(lane))
        lease.is_inbox_known = True
        return lease

    async def own(self, lane: Lane) -> Lease | None:
        """Own the lane; None when another living node owns it. Raises StoreError."""
        self.watch()
        while (lease := self.held.get(lane)) is None:
            if (moving := self._moving.get(lane)) is not None:
                await asyncio.wait({moving})
            elif not self._joined.is_set():
                await self._until_joined()
            else:
                term = self._term
                taking = self._move(lane, partial(self._take, lane))
                # In a task of its own, because the lane is this node's when the caller leaves.
                await asyncio.wait({taking})
                if taking.cancelled():
                    raise Unavailable("The gateway is shutting down; try again", retry_after_s=5)
                if isinstance(taken := taking.result(), StoreError):
                    raise taken
                # In a later term this node has lost the lane already, and tries again.
                if taken is None and term == self._term:
                    return None
        return lease

    async def _until_joined(self) -> None:
        """Wait for a node that is about to join again, and not for one that cannot."""
        if self.registry.store.problem is None:
            timer = self._tasks.start(self.clock.sleep(JOIN_WAIT_S), name="join wait")
            joined = self._tasks.start(self._joined.wait(), name="join wait")
            try:
                await asyncio.wait({timer, joined}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
                joined.cancel()
        if not self._joined.is_set():
            raise Unavailable("The gateway lost touch with its store; try again", retry_after_s=5)

    def _move(
        self, lane: Lane, take: Callable[[], Awaitable[Lease | None]]
    ) -> "asyncio.Task[Lease | StoreError | None]":
        """Take the lane. Others wait until it is taken, or until that has failed."""
        task = self._tasks.start(self._settle(lane, take), name="lane")
        self._moving[lane] = task
        task.add_done_callback(partial(self._moved, lane))
        return task

    async def _settle(
        self, lane: Lane, take: Callable[[], Awaitable[Lease | None]]
    ) -> Lease | StoreError | None:
        self._unsure.add(lane)
        try:
            lease = await take()
        except StoreError as error:
            return error
        self._unsure.discard(lane)
        return lease

    def _moved(self, lane: Lane, moving: "asyncio.Future[Any]") -> None:
        if self._moving.get(lane) is moving:
            del self._moving[lane]

    async def _take(self, lane: Lane) -> Lease | None:
        term = self._term
        grant = await self.cluster.take(name_of(lane))
        return None if grant is None else await self._hold(lane, grant, term)

    async def _hold(self, lane: Lane, grant: Grant, term: int) -> Lease | None:
        """Hold a lane that was granted in this term, with all that its last owner left."""
        lease = Lease(grant.lane, grant.epoch)
        left: list[LiveTask] = []
        with ExitStack() as pins:
            for stored in grant.tasks:
                live = self.registry.in_memory(stored.task_id)
                if live is None:
                    live = followed(stored)
                    self.registry.add(live)
                pins.enter_context(self.registry.pinned(live))
                await self._catch_up(live)
                left.append(live)
            return await self._hold_with(lane, lease, left, term)

    async def _hold_with(
        self, lane: Lane, lease: Lease, left: Sequence[LiveTask], term: int
    ) -> Lease | None:
        if term != self._term or not self.is_trusted:
            self._lose({lane: lease})
            await self.cluster.free(lease.lane, lease.epoch)
            return None
        # In one step: a reader that saw one of these tasks in between would take it for an orphan.
        for live in left:
            _lease_to(live, lease)
        # Before the lane counts as held: messages that come now queue up behind those.
        if left:
            self.recover(left)
        self.held[lane] = lease
        return lease

    async def adopt(self, live: LiveTask) -> None:
        """Become the writer of a task that was followed so far."""
        lease = await self.own(self.lane_of(live))
        if lease is None:
            raise Unavailable("Another node works on this task; try again", retry_after_s=1)
        lease.users += 1
        try:
            await self._adopt(live, lease)
        finally:
            lease.users -= 1

    async def _adopt(self, live: LiveTask, lease: Lease) -> None:
        await self._catch_up(live)
        if lease.is_lost:
            raise Unavailable("Another node works on this task; try again", retry_after_s=1)
        _lease_to(live, lease)

    async def _catch_up(self, live: LiveTask) -> None:
        """Bring a task that was followed up to date. Its lane belongs to this node, so journal and
        records do not change any more."""
        if live.lease is None:
            await self.followers.catch_up(live)
            if self.registry.participants is not None:
                await self.registry.participants.rejoin(live)

    async def take_over(self, agent: str = "", *, limit: int = _TAKE_OVER) -> None:
        """Own the lanes that nodes have left with work to do: of one agent, or of all."""
        agents = (agent,) if agent else tuple(self.agents)
        grants: Sequence[Grant] = ()
        # The store may still take a node that is about to join for the one that it was.
        while self._joined.is_set() and (not grants or len(grants) == _TAKE_OVER):
            term = self._term
            grants = await self.cluster.take_over(agents=agents, limit=min(limit, _TAKE_OVER))
            if not grants:
                break
            _log.info("took over lanes", extra={"lanes": len(grants), "first": grants[0].lane})
            # All at once, so that no request takes one of these lanes before it is held.
            await asyncio.wait([self._hold_granted(grant, term) for grant in grants])

    def _hold_granted(self, grant: Grant, term: int) -> "asyncio.Future[Any]":
        lane = lane_of_name(grant.lane)
        self.taken_over += 1
        before = self._moving.get(lane)
        return self._move(lane, partial(self._hold_after, before, lane, grant, term))

    async def _hold_after(
        self, moving: "asyncio.Future[Any] | None", lane: Lane, grant: Grant, term: int
    ) -> Lease | None:
        if moving is not None:
            await asyncio.wait({moving})
        # A request may have taken the lane from here, with all that was left of it.
        return self.held.get(lane) or await self._hold(lane, grant, term)

    async def make_sure(self) -> None:
        """Hold the lanes that the store may have given to this node without an answer. Raises
        StoreError."""
        for lane in self._unsure - self.held.keys():
            await self.own(lane)
        self._unsure -= self.held.keys()

    async def beat(self) -> None:
        """Live on, or own nothing any more and begin anew under another name."""
        sent = self.clock.monotonic()
        if self._joined.is_set() and await self.cluster.beat():
            self._beaten_at = sent
            return
        self.lose("the other nodes have given this node up")
        await self.cluster.resign()
        # A request may have taken a lane while this node resigned.
        self.lose("this node begins anew")
        await self._join()
        self.followers.doubt()

    def lose(self, reason: str) -> None:
        self._joined.clear()
        self._term += 1
        # They belong to the name that this node gives up.
        self._unsure.clear()
        self.slots.lose()
        held, self.held = self.held, {}
        if held:
            _log.error("lanes are lost", extra={"reason": reason, "lanes": len(held)})
        self._lose(held)

    def _lose(self, lost: Mapping[Lane, Lease]) -> None:
        # Before any run leaves its lane, which would begin the next one.
        for lease in lost.values():
            lease.is_lost = True
        for lease in lost.values():
            for live in list(lease.tasks):
                self.journal.fence(live)
        self.give_up(lost.keys())

    async def leave_idle(self, *, is_closing: bool = False) -> None:
        """Leave the lanes in which nothing runs and nothing waits. A node that is closing leaves
        their inboxes to the others."""
        idle = {lane: lease for lane, lease in self.held.items() if self._is_idle(lane, lease)}
        if not idle:
            return
        left = asyncio.get_running_loop().create_future()
        for lane, lease in idle.items():
            del self.held[lane]
            self._moving[lane] = left
            _release(lease)
        stay: Sequence[str] = ()
        term = self._term
        try:
            stay = await self.cluster.leave([(each.lane, each.epoch) for each in idle.values()])
        except BaseException:
            if term == self._term:
                self._unsure |= idle.keys()
            raise
        finally:
            for lane, lease in idle.items():
                self._moved(lane, left)
                if lease.lane in stay and term == self._term:
                    again = self.held[lane] = Lease(lease.lane, lease.epoch)
                    again.is_inbox_known = lease.is_inbox_known
            left.set_result(None)
        if is_closing:
            for lane, lease in idle.items():
                if self.held.pop(lane, None) is not None:
                    await self.cluster.free(lease.lane, lease.epoch)

    async def free(self, lanes: Sequence[Lane], release: Callable[[Lane], None]) -> None:
        """Give up lanes in which turns wait, so that another node takes them over. `release` takes
        the turns out of a lane that this node does not hold any more."""
        freed = asyncio.get_running_loop().create_future()
        leases = {lane: self.held.pop(lane) for lane in lanes}
        for lane, lease in leases.items():
            self._moving[lane] = freed
            _release(lease)
            release(lane)
        term = self._term
        try:
            for lease in leases.values():
                await self.cluster.free(lease.lane, lease.epoch)
        except BaseException:
            if term == self._term:
                self._unsure |= leases.keys()
            raise
        finally:
            for lane in leases:
                self._moved(lane, freed)
            freed.set_result(None)

    def _is_idle(self, lane: Lane, lease: Lease) -> bool:
        agent = self.find(lane.scope.agent)
        if not is_quiet(lease) or (agent is not None and _has_runs(agent, lane)):
            return False
        # The tasks of an agent that was withdrawn here continue where it is published.
        return agent is None or not any(live.is_orphan for live in lease.tasks)

    async def resign(self) -> None:
        """Hand all lanes to the other nodes."""
        for lease in self.held.values():
            _release(lease)
        self.held.clear()
        await self.cluster.resign()

    async def close(self) -> None:
        await self._tasks.close()


def _has_runs(agent: PublishedAgent, lane: Lane) -> bool:
    """Whether something runs or waits in a lane that a node owns."""
    if lane == agent.owned_lane(lane) and agent.profile.driver_claim:
        return bool(agent.lanes.busy)
    return agent.lanes.is_taken(lane)


def is_quiet(lease: Lease) -> bool:
    """Whether no request is about to write to the lane, and the store has all of its tasks."""
    return not lease.users and not any(
        live.unflushed or live.in_flight or live.is_stuck or live.pins for live in lease.tasks
    )


def _lease_to(live: LiveTask, lease: Lease) -> None:
    if live.lease is None:
        live.lease = lease
        lease.tasks.add(live)


def _release(lease: Lease) -> None:
    """Follow the tasks of a lane that this node does not hold."""
    for live in lease.tasks:
        live.lease = None
        # They come back from their records, which the next owner changes.
        live.participants = ()
    lease.tasks.clear()
