"""`Slots`: the turns that this node may run of agents whose `max_concurrency` holds over all nodes.

A node asks the store for slots when a turn waits for one, uses them again for later turns, and
gives back half of those that it does not use with every sweep, or all of them when another node
waits. The store counts a slot for this node from before its first use until after its last, so all
nodes together never run more turns than the limit. The slots of a node end with the node.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.cluster import Cluster, SlotRequest, SlotShare, SlotsMoved
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.run import Run

_log = logging.getLogger("trunkline.cluster")


class Slots(Struct, kw_only=True, eq=False):
    cluster: Cluster
    # The agent of a handle, also while it is being withdrawn.
    find: Callable[[str], PublishedAgent | None]
    # Begins a run that has its lane.
    begin: Callable[[Run], None]
    is_closing: bool = False
    # The number of slots that the store counts for this node, by agent. After a call that failed it
    # may count more, never fewer.
    _held: dict[str, int] = {}
    # Agents whose turns wait for slots.
    _waiting: set[str] = set()
    # Requests that wait to learn whether their turn may run at once, by agent.
    _asking: Counter[str] = field(default_factory=Counter)
    # Agents that the store is to be asked about next, and the task that asks.
    _due: set[str] = set()
    _task: "asyncio.Task[None] | None" = None
    # Rises whenever this node loses its slots.
    _term: int = 0
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("slots"))

    async def close(self) -> None:
        await self._tasks.close()

    def limit(self, agent: PublishedAgent) -> None:
        """Let an agent with a limit run turns in its slots alone. It has none yet."""
        if agent.profile.max_concurrency:
            agent.lanes.max_running = agent.profile.max_concurrency_per_node
            agent.lanes.slots = 0

    def want(self, agent: PublishedAgent) -> None:
        """A turn of the agent has to wait; maybe for a slot."""
        handle = agent.handle
        if handle not in self._waiting and self._wanted(agent) > self._held.get(handle, 0):
            self._ask_soon((handle,))

    async def wait_for_room(self, agent: PublishedAgent, lane: Lane) -> None:
        """Return when the next turn of the lane would have a slot, or can get none now. A message
        then starts at once, or is refused or queued for a good reason."""
        lanes, handle = agent.lanes, agent.handle
        if lanes.has_room or lanes.is_taken(lane) or handle in self._waiting:
            return
        self._asking[handle] += 1
        self._ask_soon((handle,))
        try:
            assert self._task is not None
            await asyncio.wait({self._task})
        finally:
            self._asking[handle] -= 1

    def ended(self, agent: PublishedAgent) -> None:
        """A turn of the agent has ended; maybe in a slot that another node waits for."""
        if agent.profile.busy != "queue":
            # No turn waits for it, so no node would say that it wants the slot.
            self._keep(agent.handle, unused=0)
        if _used(agent) < self._held.get(agent.handle, 0):
            self._ask_soon((agent.handle,))

    def hear(self, handle: str) -> None:
        """Another node waits for slots of the agent, or has given some back."""
        if handle in self._held:
            self._keep(handle, unused=0)
        if handle in self._held or handle in self._waiting:
            self._ask_soon((handle,))

    def sweep(self) -> None:
        """Give back slots that are not used, and ask again for those that no notice told about."""
        for handle, held in self._held.items():
            agent = self.find(handle)
            if agent is not None:
                self._keep(handle, unused=max(0, held - agent.lanes.running) // 2)
        if self._held or self._waiting:
            self._ask_soon(self._held.keys() | self._waiting)

    def _keep(self, handle: str, *, unused: int) -> None:
        """Keep the slots that are used and some that are not. The next request gives back the
        others."""
        agent = self.find(handle)
        if agent is not None and agent.lanes.slots is not None:
            used = agent.lanes.running + self._asking[handle]
            agent.lanes.slots = min(agent.lanes.slots, used + unused)

    def stop(self) -> None:
        """Begin no more turns in the slots, because this node shuts down."""
        self.is_closing = True
        self._use_none()
        self.sweep()

    def lose(self) -> None:
        """Hold no slots any more: they belong to a name that this node gives up."""
        self._term += 1
        self._use_none()
        # The next sweep asks again, under the next name.
        self._waiting |= self._held.keys()
        self._held.clear()

    def _use_none(self) -> None:
        for handle in self._held:
            agent = self.find(handle)
            if agent is not None and agent.lanes.slots is not None:
                agent.lanes.slots = 0

    def _wanted(self, agent: PublishedAgent) -> int:
        lanes, limit = agent.lanes, agent.profile.max_concurrency
        busy = lanes.running if self.is_closing else lanes.busy + self._asking[agent.handle]
        return min(busy, limit, lanes.max_running or limit)

    def _ask_soon(self, handles: Collection[str]) -> None:
        self._due.update(handles)
        # One at a time, so that no call overtakes another.
        if self._task is None or self._task.done():
            self._task = self._tasks.start(self._ask(), name="slots")

    async def _ask(self) -> None:
        while self._due:
            due, self._due = sorted(self._due), set()
            before = [self._held.get(handle, 0) for handle in due]
            requests = [self._request(handle) for handle in due]
            term = self._term
            try:
                shares = await self.cluster.share_slots(requests)
            except StoreError as error:
                _log.error("slots cannot be asked for", extra={"reason": error.message})
                # The next sweep asks again.
                self._waiting.update(due)
                return
            if term != self._term:
                self._waiting.update(due)
                continue
            for request, share, held in zip(requests, shares, before, strict=True):
                self._take(request, share, before=held)

    def _request(self, handle: str) -> SlotRequest:
        agent = self.find(handle)
        if agent is None or agent.lanes.slots is None:
            return SlotRequest(agent=handle, limit=0, keep=0, wanted=0)
        keep = _used(agent)
        if keep < self._held.get(handle, 0):
            # From now on, because another node may have the others before the answer is here.
            self._held[handle] = keep
        return SlotRequest(
            agent=handle,
            limit=agent.profile.max_concurrency,
            keep=keep,
            wanted=self._wanted(agent),
        )

    def _take(self, request: SlotRequest, share: SlotShare, *, before: int) -> None:
        handle, agent = request.agent, self.find(request.agent)
        self._held.pop(handle, None)
        if share.held:
            self._held[handle] = share.held
        was_waiting = handle in self._waiting
        self._waiting.discard(handle)
        if agent is not None and agent.lanes.slots is not None:
            self._use(agent, share)
            if self._wanted(agent) > share.held:
                self._waiting.add(handle)
        is_news = not was_waiting or share.held != before
        if before > request.keep or (handle in self._waiting and is_news):
            self.cluster.tell(SlotsMoved(handle))

    def _use(self, agent: PublishedAgent, share: SlotShare) -> None:
        """Begin turns in the slots, and keep one free for another node that waits for it."""
        lanes = agent.lanes
        for run in lanes.use_slots(0 if self.is_closing else share.held):
            self.begin(run)
        if share.is_contended and not self.is_closing:
            expected = self._asking[agent.handle]
            lanes.slots = min(share.held - (not expected), lanes.running + expected)
        if _used(agent) < share.held:
            self._due.add(agent.handle)


def _used(agent: PublishedAgent) -> int:
    """The number of slots that the turns of the agent use, or may use at any time."""
    return max(agent.lanes.slots or 0, agent.lanes.running)
