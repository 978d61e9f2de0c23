"""`Membership`: what a node does for as long as it shares its store with others."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import (
    Advanced,
    Answered,
    LanesFreed,
    Missed,
    NodeLeft,
    Notice,
    Posted,
    RoomLeft,
    SlotsMoved,
    Told,
)
from trunkline.runtime.forwarding import Forwarding
from trunkline.runtime.inbox import Inbox
from trunkline.runtime.ownership import Ownership
from trunkline.runtime.spreading import Spreading
from trunkline.runtime.store_waits import LOOK_S, StoreWaits

_log = logging.getLogger("trunkline.cluster")

# After a call that failed, because a store that restarts is away for a second or two.
_RETRY_S = 0.5
# Between two sweeps that notices ask for, so that many of them cost no more than a few.
_PAUSE_S = 0.05


class Membership(Struct, kw_only=True, eq=False):
    ownership: Ownership
    forwarding: Forwarding
    inbox: Inbox
    spreading: Spreading
    waits: StoreWaits
    clock: Clock
    # Looks for due records, because the claims of a node end with it.
    wake_due: Callable[[], None]
    # The features that hear of `Told`, by topic. Each also hears of a `Missed`, with an empty text.
    features: dict[str, Callable[[str], object]] = {}
    # What failed at the last attempt, because the store could not be reached.
    _failing: set[str] = set()
    # Set when a sweep must not wait for its time.
    _urgent: asyncio.Event = field(default_factory=asyncio.Event)
    _sweeping: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Whether there is something to hand over: not before the start, nor after the end.
    _has_lanes: bool = False
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("cluster"))

    async def start(self) -> None:
        self._has_lanes = True
        await self.ownership.start(self.hear)
        await self.inbox.sweep()
        # Apart from each other: a store that does not answer must not hold up the watch.
        times = self.ownership.cluster.times
        self._every(times.beat_s, self.ownership.beat, "beat")
        self._every(times.sweep_s, self.sweep, "sweep")
        self._every(times.sweep_s, self.watch, "watch")
        self._every(LOOK_S, self._look_at_store, "store")
        self._every(0, self._sweep_when_urgent, "urgent sweep")

    async def close(self) -> None:
        """Hand all lanes to the other nodes."""
        await self.vanish()
        self.forwarding.close()
        if not self._has_lanes:
            return
        try:
            await self.ownership.resign()
            self._has_lanes = False
        except StoreError as error:
            # They take the lanes when they have not heard of this node for a while.
            _log.error("the lanes could not be handed over", extra={"reason": error.message})

    async def vanish(self) -> None:
        """Stop all work of the node without a word to the others."""
        await self._tasks.close()
        await self.inbox.close()
        await self.spreading.close()
        await self.ownership.followers.close()
        await self.ownership.slots.close()
        await self.ownership.close()

    def hear(self, notice: Notice) -> None:
        match notice:
            case Advanced():
                self.ownership.followers.hear(notice.task_id, notice.seq)
            case Posted():
                self.inbox.hear(notice.lane)
            case Answered():
                self.forwarding.hear(notice.request_id)
            case SlotsMoved():
                self.ownership.slots.hear(notice.agent)
            case RoomLeft():
                self.spreading.hear_room(notice.agent, notice.turns)
            case LanesFreed():
                self.spreading.hear_freed(notice.agent)
            case Told():
                self._tell_feature(notice.topic, notice.text)
            case NodeLeft() | Missed():
                self._urgent.set()
                self.wake_due()
                if isinstance(notice, Missed):
                    for topic in self.features:
                        self._tell_feature(topic, "")

    def _tell_feature(self, topic: str, text: str) -> None:
        # Another release may tell of topics that this one does not have.
        hear = self.features.get(topic)
        if hear is not None:
            hear(text)

    async def watch(self) -> None:
        self.ownership.watch()

    async def _look_at_store(self) -> None:
        self.waits.look()

    async def _sweep_when_urgent(self) -> None:
        await self._urgent.wait()
        self._urgent.clear()
        await self.sweep()
        await self.clock.sleep(_PAUSE_S)

    async def sweep(self) -> None:
        """Make up for lost notices, take over what others left, and leave what is idle."""
        async with self._sweeping:
            await self._sweep()

    async def _sweep(self) -> None:
        self.ownership.followers.sweep()
        self.forwarding.sweep()
        if self.ownership.is_trusted:  # else the others may own the lanes by now
            self.ownership.slots.sweep()
            is_closing = self.inbox.is_closed
            if not is_closing:
                await self.ownership.make_sure()
                await self.ownership.take_over()
            self.spreading.sweep()
            await self.ownership.leave_idle(is_closing=is_closing)
            await self.inbox.sweep()

    def _every(self, seconds: float, action: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.spawn(self._loop(seconds, action, name), name=name)

    async def _loop(self, seconds: float, action: Callable[[], Awaitable[None]], name: str) -> None:
        pause_s = seconds
        while True:
            await self.clock.sleep(pause_s)
            pause_s = seconds
            try:
                await action()
                self._succeeded(name)
            except StoreError as error:
                self._failed(name, error)
                # Soon, because a node that does not beat in time loses its lanes.
                pause_s = min(seconds, _RETRY_S)
            except Exception:  # noqa: BLE001 - logged, and the next round tries again
                _log.exception("the cluster failed", extra={"what": name})

    def _failed(self, name: str, error: StoreError) -> None:
        if not self._failing:
            _log.error("the cluster cannot be reached", extra={"reason": error.message})
        self._failing.add(name)

    def _succeeded(self, name: str) -> None:
        if name in self._failing:
            self._failing.remove(name)
            if not self._failing:
                _log.warning("the cluster can be reached again")
