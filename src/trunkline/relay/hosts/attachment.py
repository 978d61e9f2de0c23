"""`Attachment`: the host at a relay, over one connection after the other. `SessionAttachment`: that
of protocol v2, a session."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.protocol.relay.close_codes import Close
from trunkline.protocol.relay.events import Draining, HostEvent, Leased, Opened, TokenWanted
from trunkline.protocol.relay.host_session import HostSession
from trunkline.relay.carrier import Carrier, Socket
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.hosts.exchanges import Exchange
from trunkline.relay.hosts.relayed_agents import RelayedAgents

_TOKEN_RETRY_S: Final = 5.0


class Attachment(Protocol):
    # It ends what it has begun, and is not connected again.
    is_leaving: bool

    @property
    def relay(self) -> str:
        """The name of the relay, for people."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether the relay has answered on the connection that there is."""
        ...

    @property
    def leases(self) -> Mapping[str, int]:
        """The agents that can be called through it now, each with the epoch of its lease."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it was left, and nothing of it is under way."""
        ...

    @property
    def has_offered(self) -> bool:
        """Whether the relay knows its agents, and that they belong to it."""
        ...

    @property
    def retry_after_s(self) -> float:
        """What a relay that stops asks for, before its address is tried again."""
        ...

    @property
    def round_trip_s(self) -> float | None: ...

    async def carry(self, socket: Socket, token: str) -> Close:
        """Use a connection until it is closed. Returns how."""
        ...

    def tick(self) -> None: ...

    def offer(self) -> None:
        """Take the agents back from another session of this host."""
        ...

    def drain(self, within_s: float) -> None:
        """Take no more requests, and end when those under way have."""
        ...


class SessionAttachment:
    def __init__(
        self,
        session: HostSession,
        *,
        relay: str,
        agents: RelayedAgents,
        token: Callable[[], Awaitable[str]],
        clock: Clock,
        tasks: BackgroundTasks,
        on_event: Callable[[HostEvent], None],
    ) -> None:
        """`token` gives a new token for the live session. `on_event` gets what happens to the
        session, after the attachment has done its part."""
        self.session: Final = session
        self.carrier: Final = Carrier(session, clock=clock, tasks=tasks, on_event=self._on_event)
        self.relay: Final = relay
        self.is_leaving = False
        self.retry_after_s = 0.0
        self.has_offered = True
        self._agents = agents
        self._token = token
        self._clock = clock
        self._tasks = tasks
        self._tell = on_event

    @property
    def is_connected(self) -> bool:
        return self.session.is_connected

    @property
    def leases(self) -> Mapping[str, int]:
        return self.session.leases if self.session.is_connected else {}

    @property
    def is_over(self) -> bool:
        return self.is_leaving and self.session.is_ended

    @property
    def round_trip_s(self) -> float | None:
        return self.session.round_trip_s

    async def carry(self, socket: Socket, token: str) -> Close:
        self.session.connect(self._clock.monotonic())
        return await self.carrier.carry(socket)

    def tick(self) -> None:
        self.carrier.tick()

    def offer(self) -> None:
        self.has_offered = True
        self.session.offer([*self._agents.handles])
        self.carrier.flush()

    def drain(self, within_s: float) -> None:
        self.is_leaving = True
        self.session.drain(within_s, self._clock.monotonic())
        self.carrier.flush()

    def _on_event(self, event: HostEvent) -> None:
        match event:
            case Opened():
                # Here and not in the task, so that the pieces behind it find their stream.
                exchange = Exchange(self.carrier, event)
                self._tasks.spawn(self._agents.serve(exchange, event), name="relayed request")
                return
            case TokenWanted():
                self._tasks.spawn(self._reauthenticate(), name="new token")
            case Leased(epochs):
                self.has_offered = bool(epochs)
            case Draining(_, retry_after_s):
                self.is_leaving = True
                self.retry_after_s = retry_after_s
            case _:
                pass
        self._tell(event)

    async def _reauthenticate(self) -> None:
        while self.is_connected:
            try:
                self.session.reauthenticate(await self._token())
            except DialFailed:
                # There is some time left for another program to write the file.
                await self._clock.sleep(_TOKEN_RETRY_S)
            else:
                self.carrier.flush()
                return
