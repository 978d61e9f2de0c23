"""`Host`: keeps the agents of this gateway attached to a relay, or to the next one that it has."""

import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.protocol.relay.events import Draining, HostEvent, Leased, Welcomed
from trunkline.protocol.relay.host_session import HostSession
from trunkline.protocol.relay.reconnects import wanted
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.hosts.attachment import Attachment, SessionAttachment
from trunkline.relay.hosts.dialing import Dial
from trunkline.relay.hosts.exchanges import App
from trunkline.relay.hosts.host_token import HostToken
from trunkline.relay.hosts.link import Link, LinkStatus
from trunkline.relay.hosts.relayed_agents import RelayedAgents
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.v1.attachment import V1Attachment
from trunkline.relay.v1.host import V1Host, V1HostSettings

_log: Final = logging.getLogger("trunkline.relay.hosts.host")

_TICK_S: Final = 1.0
_DRAIN_TICK_S: Final = 0.1
# How long requests of a relay that the host has left may take to end.
LEAVE_S: Final = 3600.0


class HostState(StrEnum):
    CONNECTING = "connecting"
    ATTACHED = "attached"
    # No relay wants this host again, as it is configured.
    REFUSED = "refused"


class HostSettings(Struct, frozen=True, kw_only=True):
    # ws:// or wss://, where the relay takes hosts.
    url: str
    # Relays that take its place while it fails, the preferred ones first.
    standby: tuple[str, ...] = ()
    # The handle of each agent here, by its name at the relay: tenant and id.
    agents: Mapping[str, str]
    # "auto" goes by what the relay chooses.
    protocol: Literal["auto", "v2", "v1"] = "auto"
    # What the callers of a relay of protocol v1 may call; None means all operations.
    v1_operations: frozenset[str] | None = None
    session: SessionSettings = SessionSettings()

    @property
    def relay(self) -> str:
        """Tells the callers of this relay from those of others; a caller keeps its name at all
        relays of the host."""
        return urlsplit(self.url).netloc


class HostStatus(Struct, frozen=True, kw_only=True):
    """What people want to know of a host."""

    state: HostState
    # The relay that has the agents; empty while none has.
    relay: str
    agents: tuple[str, ...]
    # When it was last attached, and is since.
    since_ms: int | None
    requests: int
    # Between a ping and its answer; None before the first one.
    round_trip_s: float | None
    links: tuple[LinkStatus, ...]

    @property
    def trouble(self) -> str:
        """Why no relay has the agents, for people."""
        told = [link for link in self.links if link.trouble and not link.is_attached]
        if len(self.links) == 1:
            return "".join(link.trouble for link in told)
        return "; ".join(f"{link.relay}: {link.trouble}" for link in told)


class Host:
    def __init__(
        self,
        settings: HostSettings,
        *,
        app: App,
        callers: RelayedCallers,
        token: Callable[[], Awaitable[str]],
        clock: Clock,
        dial: Dial,
        chance: Callable[[], float] = random.random,
        id: str = "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`app` serves the requests. `token` is asked before each attempt, and when the last one is
        about to end. `id` tells this running host from others; `on_change` is called when
        `status` has changed."""
        self._settings = settings
        self._clock = clock
        self._tell = on_change
        self._tasks = BackgroundTasks("host of a relay")
        self._agents = RelayedAgents(
            settings.agents, relay=settings.relay, app=app, callers=callers
        )
        self._app = app
        self._callers = callers
        self._id = id or secrets.token_hex(8)
        # All sessions, also those that end what they have begun at a relay that was left.
        self._attachments: list[Attachment] = []
        self._links: Final = tuple(
            Link(
                url,
                dial=dial,
                token=HostToken(token),
                attach=self._attach,
                takes_v1=settings.protocol != "v2",
                has_other=self._has_other,
                on_change=self._on_change,
                clock=clock,
                chance=chance,
                tasks=self._tasks,
            )
            for url in dict.fromkeys((settings.url, *settings.standby))
        )
        self._kept = 0
        self._since_ms: int | None = None
        self._is_stopping = False

    @property
    def state(self) -> HostState:
        if self._serving is not None:
            return HostState.ATTACHED
        if self._is_replaced or all(link.is_refused for link in self._links):
            return HostState.REFUSED
        return HostState.CONNECTING

    @property
    def trouble(self) -> str:
        return self.status.trouble

    @property
    def status(self) -> HostStatus:
        serving = self._serving
        return HostStatus(
            state=self.state,
            relay="" if serving is None else serving.relay,
            agents=() if serving is None else tuple(serving.leases),
            since_ms=None if serving is None else self._since_ms,
            requests=self._agents.requests,
            round_trip_s=None if serving is None else serving.round_trip_s,
            links=tuple(link.status for link in self._links),
        )

    @property
    def attached_agents(self) -> Mapping[str, int]:
        """The agents that can be called through a relay now."""
        serving = self._serving
        return {} if serving is None else serving.leases

    @property
    def newest(self) -> SessionAttachment | None:
        """The newest session of protocol v2."""
        sessions = (one for one in self._attachments if isinstance(one, SessionAttachment))
        return next(reversed([*sessions]), None)

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")
        self._choose()

    async def drain(self, *, grace_s: float) -> None:
        """Take no more requests, and wait until those under way have ended."""
        self._is_stopping = True
        until = self._clock.monotonic() + grace_s
        for link in self._links:
            link.stop()
        for attachment in self._attachments:
            attachment.drain(grace_s)
        while self._is_connected and self._clock.monotonic() < until:
            await self._clock.sleep(_DRAIN_TICK_S)
            self._tick_all()

    async def close(self) -> None:
        self._is_stopping = True
        await self._tasks.close()

    @property
    def _is_connected(self) -> bool:
        return any(attachment.is_connected for attachment in self._attachments)

    @property
    def _serving(self) -> Attachment | None:
        """The newest session by which the agents can be called."""
        newest_first = reversed(self._attachments)
        return next((attachment for attachment in newest_first if attachment.leases), None)

    @property
    def _is_attached(self) -> bool:
        """Whether there is a relay that is to be kept."""
        return any(link.is_attached for link in self._links)

    @property
    def _is_replaced(self) -> bool:
        return any(link.is_replaced for link in self._links)

    def _has_other(self, link: Link) -> bool:
        return any(other.is_attached for other in self._links if other is not link)

    def _attach(self, link: Link, is_v1: bool) -> Attachment:
        made = self._v1_attachment(link) if is_v1 else self._session_attachment(link)
        self._attachments.append(made)
        return made

    def _session_attachment(self, link: Link) -> Attachment:
        session = HostSession(
            self._settings.session,
            now=self._clock.monotonic(),
            agents=[*self._agents.handles],
            host=self._id,
        )
        return SessionAttachment(
            session,
            relay=link.name,
            agents=self._agents,
            token=link.token.next,
            clock=self._clock,
            tasks=self._tasks,
            on_event=partial(self._on_event, link),
        )

    def _v1_attachment(self, link: Link) -> Attachment:
        settings = V1HostSettings(
            relay=self._settings.relay,
            agents=self._settings.agents,
            operations=self._settings.v1_operations,
        )
        host = V1Host(
            settings,
            app=self._app,
            callers=self._callers,
            tasks=self._tasks,
            clock=self._clock,
            on_request=self._agents.count,
            on_greeted=partial(self._on_event, link, Welcomed(is_resumed=False)),
        )
        return V1Attachment(host, relay=link.name)

    def _on_event(self, link: Link, event: HostEvent) -> None:
        self._log(link, event)
        if isinstance(event, Welcomed):
            link.welcomed()
        link.happened()
        self._choose()

    def _on_change(self, link: Link) -> None:
        if self._serving is None:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = self._clock.now_ms()
        self._choose()
        self._tell()

    def _choose(self) -> None:
        """Keep the relays that are wanted, and leave the others."""
        if self._is_stopping:
            return
        if self._is_replaced:
            # The agents were taken over on purpose, and not to be taken back by another way.
            self._kept = 0
            for link in self._links:
                if not link.is_replaced:
                    link.stop()
        else:
            self._kept = wanted([link.health for link in self._links], kept=self._kept)
            for position, link in enumerate(self._links):
                if position >= self._kept:
                    link.stop()
                elif not link.is_running:
                    link.start(is_first=position == 0)
        if self._is_attached or self._is_replaced:
            # Not before, because a relay that stops still has requests for the agents.
            for attachment in self._attachments:
                if attachment.is_leaving:
                    attachment.drain(LEAVE_S)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            self._tick_all()
            self._reclaim()
            self._choose()

    def _tick_all(self) -> None:
        for attachment in [*self._attachments]:
            attachment.tick()
        for link in self._links:
            link.note()
        self._attachments = [one for one in self._attachments if not one.is_over]

    def _reclaim(self) -> None:
        """Offer the agents to the preferred relay that is connected, where another session of this
        host has taken them from there."""
        for link in self._links:
            attachment = link.attachment
            if attachment is not None and attachment.is_connected:
                if not attachment.leases and not attachment.has_offered:
                    attachment.offer()
                return

    def _log(self, link: Link, event: HostEvent) -> None:
        extra = {"relay": link.name}
        match event:
            case Welcomed(is_resumed):
                _log.info("connected to the relay", extra={**extra, "resumed": is_resumed})
            case Leased(epochs) if epochs:
                _log.info("attached to the relay", extra={**extra, "agents": ", ".join(epochs)})
            case Draining(within_s):
                _log.info("the relay is about to stop", extra={**extra, "within_s": within_s})
            case _:
                return
