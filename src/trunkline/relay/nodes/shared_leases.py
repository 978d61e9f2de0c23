"""`SharedLeases`: the leases of this relay node beside those of the others on the same store.

Every change of a lease is in the store first, and then told to the other nodes. A notice that is
lost delays what follows from it: each node reads its own leases again every few seconds, and does
not rely on them when that was too long ago, such as after a pause of the process.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Times
from trunkline.relay.nodes.hops import GONE_S
from trunkline.relay.nodes.lease_records import Holder, LeaseRecords, SharedLease

_log: Final = logging.getLogger("trunkline.relay")

TOPIC: Final = "relay-lease"
# The lease of another node is looked up again after this time, for notices that were lost.
_KNOWN_S: Final = 5.0
# A store that restarts, or fails over, is back by then.
_PATIENCE_S: Final = 30.0
_MAX_KNOWN: Final = 10_000
# Leases of one notice; a notice has up to some 4 KB.
_TOLD_AT_ONCE: Final = 16


class NewLease(Struct, frozen=True, array_like=True):
    """What a notice says: the agent has a lease at another node, or was released there."""

    agent: str
    epoch: int
    # The running gateway that has it now, and the session that it has given up for it.
    host: str = ""
    instead_of: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[NewLease, ...]).decode


class SharedLeases:
    def __init__(
        self,
        records: LeaseRecords,
        *,
        node: str,
        url: str,
        times: Times,
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        """`url` is where other nodes reach this one, and `tell` tells all of them."""
        self.node: Final = node
        self.url: Final = url
        self._began_at = clock.monotonic()
        self._times = times
        self._records = records
        self._clock = clock
        self._tell = tell
        # Of this node; set by the relay, which has them. It is told of one that is lost.
        self.held: Callable[[], Mapping[str, int]] = dict
        self.on_lost: Callable[[NewLease], None] = lambda _: None
        # Whether this node is about to stop. Then it gives up nothing: the others wait until the
        # agents are at another node.
        self.is_leaving = False
        self._taking = 0
        # When the last look at the records of this node began.
        self._looked_at = clock.monotonic()
        self._looking = asyncio.Lock()
        # Of other nodes, with the time until which they count.
        self._known: dict[str, tuple[SharedLease, float]] = {}
        self._news: dict[str, asyncio.Future[None]] = {}
        self._is_away = False
        self._tasks = BackgroundTasks("leases of the relay")

    def start(self) -> None:
        self._tasks.spawn(self._look_again_and_again(), name="look at leases")

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def is_trusted(self) -> bool:
        """Whether the leases of this node were its own a short time ago."""
        return self._clock.monotonic() - self._looked_at < self._times.trust_s

    @property
    def is_cut_off(self) -> bool:
        """Whether that was so long ago that hosts had better be elsewhere."""
        return self._clock.monotonic() - self._looked_at >= self._times.trust_s + _PATIENCE_S

    def is_of_earlier_process(self, holder: Holder) -> bool:
        """Whether the node was at the address of this one, so that it is no more."""
        return holder.url == self.url and holder.node != self.node

    @property
    def is_new(self) -> bool:
        """Whether hosts may still have to come back, because this node began a short time ago."""
        return self._clock.monotonic() - self._began_at < GONE_S

    async def take(
        self, session: str, agents: Iterable[str], *, host: str = "", instead_of: str = ""
    ) -> dict[str, int]:
        """Give a session of this node the agents. Returns the epochs. Raises StoreError."""
        holder = Holder(
            node=self.node, url=self.url, session=session, host=host, instead_of=instead_of
        )
        self._taking += 1
        try:
            epochs = await self._records.take(holder, agents)
        finally:
            self._taking -= 1
        self._told([NewLease(agent, epoch, host, instead_of) for agent, epoch in epochs.items()])
        return epochs

    def release(self, epochs: Mapping[str, int]) -> None:
        """Give up leases of this node. What fails now, the next look makes up for."""
        if epochs and not self.is_leaving:
            self._tasks.spawn(self._release(epochs), name="release leases")

    async def _release(self, epochs: Mapping[str, int]) -> None:
        released = []
        try:
            for agent, epoch in epochs.items():
                if await self._records.release(agent, epoch):
                    released.append(NewLease(agent, epoch + 1))
        except StoreError as error:
            _log.warning("a lease could not be released", extra={"reason": error.message})
        self._told(released)

    def _told(self, leases: Sequence[NewLease]) -> None:
        for lease in leases:
            self._wake(lease.agent)
        for start in range(0, len(leases), _TOLD_AT_ONCE):
            self._tell(_encode(leases[start : start + _TOLD_AT_ONCE]).decode())

    def hear(self, text: str) -> None:
        """A notice of another node; an empty text when some may be lost."""
        try:
            leases = _decode(text) if text else None
        except msgspec.DecodeError:
            # Another release says it in another way.
            leases = None
        if leases is None:
            self._known.clear()
            for agent in [*self._news]:
                self._wake(agent)
            self._tasks.spawn(self._try_to_look(), name="look at leases")
            return
        for lease in leases:
            if self.held().get(lease.agent, lease.epoch) < lease.epoch:
                self.on_lost(lease)
            self._wake(lease.agent)

    async def find(self, agent: str) -> SharedLease | None:
        """The lease of an agent at any node. Raises StoreError."""
        known = self._known.get(agent)
        now = self._clock.monotonic()
        if known is not None and now < known[1]:
            return known[0]
        return await self.read(agent)

    async def read(self, agent: str) -> SharedLease | None:
        """The same from the store, and this node follows it. Raises StoreError."""
        began_at = self._clock.monotonic()
        lease = await self._records.find(agent)
        epoch = self.held().get(agent)
        if lease is None:
            self._known.pop(agent, None)
            return None
        if lease.holder.node == self.node:
            return lease
        if epoch is not None and epoch < lease.epoch:
            self.on_lost(_new_lease(agent, lease))
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[agent] = (lease, began_at + _KNOWN_S)
        return lease

    async def in_tenant(self, tenant: str) -> Mapping[str, Holder]:
        """The holders of the agents of a tenant. Raises StoreError."""
        return await self._records.in_tenant(tenant)

    def forget(self, agent: str) -> None:
        """The node that has the agent, as far as this one knows, refuses requests to it."""
        self._known.pop(agent, None)

    def next_news(self, agent: str) -> "asyncio.Future[None]":
        """Done when a lease of the agent has changed, as far as this node hears of it. It is not to
        be cancelled."""
        future = self._news.get(agent)
        if future is None:
            future = self._news[agent] = asyncio.get_running_loop().create_future()
        return future

    def _wake(self, agent: str) -> None:
        self._known.pop(agent, None)
        future = self._news.pop(agent, None)
        if future is not None:
            future.set_result(None)

    async def _look_again_and_again(self) -> None:
        while True:
            await self._clock.sleep(self._times.beat_s)
            await self._try_to_look()

    async def _try_to_look(self) -> None:
        try:
            await self.look()
        except StoreError as error:
            if not self._is_away:
                _log.error("the leases cannot be read", extra={"reason": error.message})
            self._is_away = True
        else:
            self._is_away = False

    async def look(self) -> None:
        """Compare the leases of this node with their records. Raises StoreError."""
        async with self._looking:
            began_at, mine, is_quiet = self._clock.monotonic(), dict(self.held()), not self._taking
            found = await self._records.held_by(self.node)
            for agent, epoch in mine.items():
                if found.get(agent) != epoch:
                    await self._follow(agent, epoch)
            if is_quiet and not self._taking:
                # Released while the store was away, or taken by an attempt whose answer was lost.
                held = self.held()
                self.release({agent: n for agent, n in found.items() if agent not in held})
            self._looked_at = began_at

    async def _follow(self, agent: str, epoch: int) -> None:
        """This node seems to have lost a lease that it had when the look began."""
        lease = await self._records.find(agent)
        if lease is None:
            self.on_lost(NewLease(agent, epoch + 1))
        elif lease.epoch > epoch:
            self.on_lost(_new_lease(agent, lease))


def _new_lease(agent: str, lease: SharedLease) -> NewLease:
    return NewLease(agent, lease.epoch, lease.holder.host, lease.holder.instead_of)
