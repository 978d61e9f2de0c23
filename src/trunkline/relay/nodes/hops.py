"""`Hops`: the sessions by which this relay node reaches agents at other nodes."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import NORMAL
from trunkline.protocol.relay.close_codes import Close
from trunkline.protocol.relay.events import Welcomed
from trunkline.protocol.relay.frames import Limits
from trunkline.protocol.relay.hop_credentials import HopCredential
from trunkline.protocol.relay.hop_sessions import EntrySession
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.carrier import Carrier, Socket
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.nodes.hop_secret import HopSecret
from trunkline.relay.nodes.lease_records import Holder, SharedLease

_log: Final = logging.getLogger("trunkline.relay")

# One session has the requests of many hosts and callers, on a short way.
HOP_SETTINGS: Final = SessionSettings(
    limits=Limits(max_streams=4096),
    max_unacknowledged_frames=8000,
    max_unacknowledged_bytes=4 * 1024 * 1024,
    heartbeat_s=2.0,
    resume_s=2.0,
)
TICK_S: Final = 0.5
# Between two attempts to connect.
_RETRY_S: Final = 0.2
_SLOW_RETRY_S: Final = 2.0
# The hosts of a node that is gone have this time to attach elsewhere. Then their agents count as
# not attached.
GONE_S: Final = 5.0
# A session that nothing uses is closed after this time.
_IDLE_S: Final = 60.0
_MAX_GONE: Final = 1000

# To a URL, with a credential. Raises DialFailed.
DialNode = Callable[[str, str], Awaitable[Socket]]


class RemoteAgent(Struct, frozen=True):
    """An agent that can be reached through a host of another node."""

    session: EntrySession
    carrier: Carrier[EntrySession]
    # The session of the host at its node.
    host_session: str


class Hop:
    """The session with one other node, which is dialled for as long as something asks for it."""

    def __init__(
        self,
        url: str,
        *,
        nodes: tuple[str, str],
        secret: HopSecret,
        dial: DialNode,
        clock: Clock,
        tasks: BackgroundTasks,
        on_refused: Callable[[str], None],
        is_gone: bool = False,
    ) -> None:
        """`nodes` are the names of this node and of the other one. `is_gone`: whether it could not
        be reached the last time."""
        self._url = url
        self._entry, self._holder = nodes
        self._secret = secret
        self._dial = dial
        self._clock = clock
        self._asked_at = now = clock.monotonic()
        # Since when there is no connection.
        self._down_since: float | None = now - GONE_S if is_gone else now
        # Whether operators know why.
        self._is_noted = False
        self.session: Final = EntrySession(HOP_SETTINGS, now=now, on_refused=on_refused)
        self.carrier: Final = Carrier(
            self.session, clock=clock, tasks=tasks, on_event=self._on_event
        )

    @property
    def is_connected(self) -> bool:
        return self.session.is_connected and not self.session.is_ended

    @property
    def is_gone(self) -> bool:
        """Whether the node could not be reached for so long that its hosts are elsewhere."""
        since = self._down_since
        return since is not None and self._clock.monotonic() >= since + GONE_S

    @property
    def is_idle(self) -> bool:
        if self.session.streams:
            return False
        return self._clock.monotonic() >= self._asked_at + _IDLE_S

    def ask(self) -> None:
        """There is a request for the node."""
        self._asked_at = self._clock.monotonic()

    async def keep(self) -> None:
        """Connect, again and again, until nothing has asked for it for a while."""
        while not self.is_idle:
            try:
                await self._connect_once()
            except DialFailed as failed:
                self._note(failed.message)
            except StoreError as error:
                self._note(error.message)
            await self._clock.sleep(_SLOW_RETRY_S if self.is_gone else _RETRY_S)

    async def _connect_once(self) -> None:
        secret = await self._secret.current()
        credential = HopCredential(
            entry=self._entry, holder=self._holder, nonce=secrets.token_hex(16)
        )
        socket = await self._dial(self._url, credential.header(secret))
        self.session.expected_key = credential.session_key(secret)
        self.session.connect(self._clock.monotonic())
        close = await self.carrier.carry(socket)
        self._note(close.reason)

    def _note(self, reason: str) -> None:
        if self._down_since is None:
            self._down_since = self._clock.monotonic()
        if not self._is_noted and not self.is_idle:
            self._is_noted = True
            _log.warning(
                "there is no connection to a relay node",
                extra={"node": self._holder, "url": self._url, "reason": reason},
            )

    def _on_event(self, event: object) -> None:
        if isinstance(event, Welcomed):
            self._down_since = None
            self._is_noted = False

    def tick(self) -> None:
        self.carrier.tick()
        if self.is_connected and self.is_idle:
            self.close()

    def close(self) -> None:
        self.session.end(Close(NORMAL, "nothing is left to do"))
        self.carrier.flush()


class Hops:
    def __init__(
        self,
        node: str,
        *,
        secret: HopSecret,
        dial: DialNode,
        clock: Clock,
        on_refused: Callable[[str], None],
    ) -> None:
        self._node = node
        self._secret = secret
        self._dial = dial
        self._clock = clock
        self._on_refused = on_refused
        self._hops: dict[str, Hop] = {}
        # Those that were gone when nothing asked for them any more, the last ones last.
        self._gone: dict[str, None] = {}
        self._tasks = BackgroundTasks("hops of the relay")
        # How many requests went to other nodes.
        self.requests = 0

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")

    async def close(self) -> None:
        for hop in self._hops.values():
            hop.close()
        await self._tasks.close()

    def __iter__(self) -> Iterator[Hop]:
        return iter(self._hops.values())

    @property
    def open_hops(self) -> int:
        return sum(hop.is_connected for hop in self._hops.values())

    def is_gone(self, node: str) -> bool:
        """Whether the node could not be reached the last times."""
        hop = self._hops.get(node)
        return node in self._gone if hop is None else hop.is_gone

    def to(self, holder: Holder) -> Hop:
        """The session with another node; maybe without a connection."""
        node = holder.node
        hop = self._hops.get(node)
        if hop is None:
            hop = self._hops[node] = Hop(
                holder.url,
                nodes=(self._node, node),
                secret=self._secret,
                dial=self._dial,
                clock=self._clock,
                tasks=self._tasks,
                on_refused=self._on_refused,
                is_gone=node in self._gone,
            )
            self._tasks.spawn(self._keep(node, hop), name="keep a hop")
        hop.ask()
        return hop

    def reached(self, lease: SharedLease, agent: str) -> RemoteAgent | None:
        """The agent, if there is a connection to its node."""
        hop = self.to(lease.holder)
        if not hop.is_connected or hop.session.peer_is_draining:
            return None
        hop.session.epochs[agent] = lease.epoch
        self.requests += 1
        return RemoteAgent(hop.session, hop.carrier, lease.holder.session)

    async def _keep(self, node: str, hop: Hop) -> None:
        try:
            await hop.keep()
        finally:
            del self._hops[node]
            self._gone.pop(node, None)
            if hop.is_gone:
                self._gone[node] = None
            while len(self._gone) > _MAX_GONE:
                del self._gone[next(iter(self._gone))]

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            for hop in [*self._hops.values()]:
                hop.tick()
