"""`SharedStore`: a store in memory that several runtimes share, each of them through a `Node`.

Every runtime of a test gets a node as its store and as its cluster. A test may pause a node, as a
process that is stopped or a machine that stalls, let it go on, cut it off from the store, or kill
it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from trunkline.background import next_pass
from trunkline.engine.slot_shares import NodeSlots, share
from trunkline.model.errors import LeaseLost, StoreError, StoreUnusable
from trunkline.model.values import HAS_WORK
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import (
    Grant,
    NodeLeft,
    Notice,
    SlotRequest,
    SlotShare,
    Times,
    agent_of,
)
from trunkline.ports.records import Committed, Key, Record
from trunkline.ports.store import Append, Result, Settled, StoredTask
from trunkline.stores.memory import MemoryStore
from trunkline.testing.passing_store import PassingStore

T = TypeVar("T")

TIMES = Times()
# How long a node that does not beat keeps its lanes.
LEASE_MS = int(TIMES.lease_s * 1000)


class _Lane(Struct, eq=False):
    """The row of a lane, which exists while a node owns it or has to take it over."""

    owner: str
    epoch: int


class SharedStore(MemoryStore):
    """The data that all nodes see, and the lanes that they own."""

    def __init__(
        self,
        clock: Clock,
        *,
        rounds: Callable[[], int] = lambda: 0,
        loses_notice: Callable[[], bool] = lambda: False,
    ) -> None:
        """`rounds` says how many rounds of the event loop a call takes on its way here and back,
        `loses_notice` whether a notice is lost."""
        super().__init__(clock)
        self._clock = clock
        self.rounds = rounds
        self.loses_notice = loses_notice
        self.nodes: list[Node] = []
        # The epochs that each lane ever had, in their order.
        self.epochs: dict[str, list[int]] = {}
        self._lanes: dict[str, _Lane] = {}
        self._alive_until_ms: dict[str, int] = {}
        self._last_epoch = 0
        # The node that claimed a due record last.
        self._claimed_by: dict[Key, str] = {}
        # By agent and node.
        self._slots: dict[str, dict[str, NodeSlots]] = {}
        self._lane_of: dict[str, str] = {}
        # The node of each append in the queue, by the identity of the append.
        self._nodes_of: dict[int, str] = {}

    def node(self) -> "Node":
        node = Node(self)
        self.nodes.append(node)
        return node

    def submit_from(self, node: str, appends: Sequence[tuple[Append, Settled]]) -> None:
        for append, _ in appends:
            self._nodes_of[id(append)] = node
        self.submit(appends)

    def _apply(self, append: Append) -> Result:
        node = self._nodes_of.pop(id(append))
        lane = self._lanes.get(append.lane)
        if lane is not None and (lane.owner != node or append.epoch not in (0, lane.epoch)):
            return LeaseLost(f"Lane {append.lane} has epoch {lane.epoch} at {lane.owner}")
        if lane is None and append.epoch:
            return LeaseLost(f"Lane {append.lane} has no owner")
        if lane is None and not self.is_alive(node):
            return LeaseLost(f"{node} is given up")
        result = super()._apply(append)
        if isinstance(result, StoreError):
            return result
        self._lane_of[append.task_id] = append.lane
        epoch = self._give(append.lane, node) if lane is None else 0
        if not epoch:
            return result
        return Committed(result.skipped if result is not None else (), epoch)

    def _give(self, lane: str, node: str) -> int:
        self._last_epoch += 1
        self._lanes[lane] = _Lane(node, self._last_epoch)
        self.epochs.setdefault(lane, []).append(self._last_epoch)
        return self._last_epoch

    def owner_of(self, lane: str) -> str:
        """The name of the node that owns the lane; empty for none."""
        row = self._lanes.get(lane)
        return row.owner if row is not None and self.is_alive(row.owner) else ""

    def is_alive(self, node: str) -> bool:
        until_ms = self._alive_until_ms.get(node)
        if until_ms is None:
            return False
        if until_ms <= self._clock.now_ms():
            # For good: a node that comes back needs a new name.
            del self._alive_until_ms[node]
            return False
        return True

    def beat(self, node: str, *, is_new: bool = False) -> bool:
        self._flush()
        if not is_new and not self.is_alive(node):
            return False
        self._alive_until_ms[node] = self._clock.now_ms() + LEASE_MS
        return True

    def take(self, lane: str, node: str) -> Grant | None:
        self._flush()
        row = self._lanes.get(lane)
        if row is None:
            return Grant(lane, self._give(lane, node))
        if row.owner == node:
            return Grant(lane, row.epoch, self._left(lane))
        if self.is_alive(row.owner):
            return None
        return Grant(lane, self._give(lane, node), self._left(lane))

    def take_over(self, node: str, agents: Collection[str], limit: int) -> list[Grant]:
        self._flush()
        free = [
            lane
            for lane, row in self._lanes.items()
            if not self.is_alive(row.owner) and agent_of(lane) in agents
        ]
        return [Grant(lane, self._give(lane, node), self._left(lane)) for lane in free[:limit]]

    def _left(self, lane: str) -> tuple[StoredTask, ...]:
        tasks = [self._index.get(each) for each, name in self._lane_of.items() if name == lane]
        return tuple(
            task.stored(task.snapshot, task.journal)
            for task in tasks
            if task is not None and task.state in HAS_WORK
        )

    def leave(self, node: str, lanes: Sequence[tuple[str, int]]) -> list[str]:
        self._flush()
        stay = []
        for lane, epoch in lanes:
            row = self._lanes.get(lane)
            if row is None or row.owner != node or epoch not in (0, row.epoch):
                continue
            if self._records.page(
                "inbox.1", scope=lane, tag=None, after=None, limit=1, newest_first=False
            ):
                stay.append(lane)
            elif self._left(lane):
                row.owner = ""
            else:
                del self._lanes[lane]
        return stay

    def free(self, node: str, lane: str, epoch: int) -> None:
        row = self._lanes.get(lane)
        if row is not None and row.owner == node and row.epoch == epoch:
            row.owner = ""

    def resign(self, node: str) -> None:
        self._flush()
        self._alive_until_ms.pop(node, None)
        for row in self._lanes.values():
            if row.owner == node:
                row.owner = ""

    async def claim_due_for(
        self, node: str, shares: Mapping[str, int], *, lease_ms: int
    ) -> tuple[Record, ...]:
        if node and not self.is_alive(node):
            return ()
        for key, owner in list(self._claimed_by.items()):
            if owner and not self.is_alive(owner):
                del self._claimed_by[key]
                self._records.release_claim(key)
        claimed = await self.claim_due(shares, lease_ms=lease_ms)
        self._claimed_by |= dict.fromkeys([record.key for record in claimed], node)
        return claimed

    def share_slots(self, node: str, request: SlotRequest) -> SlotShare:
        if not self.is_alive(node):
            return SlotShare(0)
        slots = self._slots.setdefault(request.agent, {})
        for other in [each for each in slots if not self.is_alive(each)]:
            del slots[other]
        return share(slots, node, request, now_ms=self._clock.now_ms())

    def slots_of(self, agent: str) -> dict[str, int]:
        """The number of slots that each living node holds."""
        slots = self._slots.get(agent, {})
        return {node: each.held for node, each in slots.items() if self.is_alive(node)}

    def tell(self, sender: "Node", notice: Notice) -> None:
        loop = asyncio.get_running_loop()
        for node in self.nodes:
            if node is not sender and not self.loses_notice():
                loop.call_soon(node.hear, notice)


class Node(PassingStore):
    """The store and the cluster of one runtime."""

    keeps_large_values = True
    problem = None
    times = TIMES

    def __init__(self, shared: SharedStore) -> None:
        super().__init__(shared)
        self.shared = shared
        self.name = ""
        self.is_paused = False
        self.is_dead = False
        # Whether no call reaches the store, and whether its answers are lost on their way back.
        self.is_cut_off = False
        self.loses_answers = False
        self._joined = 0
        self._hear: Callable[[Notice], None] = lambda _: None
        # What happened to the node while it was paused.
        self._missed: list[Callable[[], None]] = []
        self._resumed: list[asyncio.Future[None]] = []

    def pause(self) -> None:
        """Let nothing reach or leave the node from now on."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        missed, self._missed = self._missed, []
        for each in missed:
            each()
        resumed, self._resumed = self._resumed, []
        for future in resumed:
            if not future.done():
                future.set_result(None)

    def kill(self) -> None:
        """End the process of the node, without a word to the others."""
        self.is_dead = True

    async def awake(self) -> None:
        """Return after a while, and not while the node is paused."""
        for _ in range(self.shared.rounds()):
            await next_pass()
        while self.is_paused or self.is_dead:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._resumed.append(future)
            await future

    async def reach(self) -> None:
        """Be on the way to the store. Raises StoreUnusable while the node is cut off."""
        await self.awake()
        if self.is_cut_off:
            raise _unreachable()

    async def hear_back(self) -> None:
        """Be on the way back from the store. Raises StoreUnusable where the answer is lost."""
        await self.awake()
        if self.is_cut_off or self.loses_answers:
            raise _unreachable()

    def _when_awake(self, action: Callable[[], None]) -> None:
        if self.is_dead:
            return
        if self.is_paused:
            self._missed.append(action)
        else:
            action()

    async def open(self) -> None:
        await self.shared.open()

    async def check(self) -> None:
        """Memory has nothing to check."""

    async def close(self) -> None:
        """The other nodes go on with the data."""

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        return await self._pass_on(
            partial(self.shared.claim_due_for, self.name, shares, lease_ms=lease_ms)
        )

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        told = [(append, partial(self._tell, settled)) for append, settled in appends]
        if not self.is_cut_off:
            self._when_awake(partial(self.shared.submit_from, self.name, told))
            return
        loop = asyncio.get_running_loop()
        for _, settled in told:
            loop.call_soon(settled, _unreachable())

    def _tell(self, settled: Settled, result: Result) -> None:
        self._when_awake(partial(settled, result))

    async def join(self, hear: Callable[[Notice], None]) -> None:
        await self.reach()
        self._joined += 1
        self.name = f"node-{self.shared.nodes.index(self)}.{self._joined}"
        self._hear = hear
        self.shared.beat(self.name, is_new=True)
        await self.hear_back()

    def hear(self, notice: Notice) -> None:
        if not self.is_cut_off:
            self._when_awake(partial(self._hear, notice))

    def tell(self, notice: Notice) -> None:
        if not self.is_cut_off:
            self._when_awake(partial(self.shared.tell, self, notice))

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        await self.reach()
        result = await call()
        await self.hear_back()
        return result

    async def _call(self, call: Callable[[], T]) -> T:
        await self.reach()
        result = call()
        await self.hear_back()
        return result

    async def beat(self) -> bool:
        return await self._call(lambda: self.shared.beat(self.name))

    async def resign(self) -> None:
        await self._call(lambda: self.shared.resign(self.name))
        self.tell(NodeLeft())

    async def take(self, lane: str) -> Grant | None:
        return await self._call(lambda: self.shared.take(lane, self.name))

    async def take_over(self, *, agents: Collection[str], limit: int) -> Sequence[Grant]:
        return await self._call(lambda: self.shared.take_over(self.name, agents, limit))

    async def leave(self, lanes: Sequence[tuple[str, int]]) -> Sequence[str]:
        return await self._call(lambda: self.shared.leave(self.name, lanes))

    async def free(self, lane: str, epoch: int) -> None:
        await self._call(lambda: self.shared.free(self.name, lane, epoch))

    async def share_slots(self, requests: Sequence[SlotRequest]) -> Sequence[SlotShare]:
        return await self._call(
            lambda: [self.shared.share_slots(self.name, each) for each in requests]
        )


def _unreachable() -> StoreUnusable:
    return StoreUnusable("the node is cut off from the store")
