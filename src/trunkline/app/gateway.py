"""`Gateway`: the runtimes, and the ASGI application in front of them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.applications import Starlette

from trunkline.app.adapters import load_agents
from trunkline.app.api import GatewayApi
from trunkline.app.card_signer import card_signer
from trunkline.app.console import GatewayConsole
from trunkline.app.directory import AgentDirectory
from trunkline.app.endpoints import Endpoints
from trunkline.app.front import Front
from trunkline.app.hub import Hub
from trunkline.app.live import GatewayLive
from trunkline.app.openclaw_channel import Channel
from trunkline.app.recordings import GatewayRecordings
from trunkline.app.relay.relaying import Relaying
from trunkline.app.routing import GatewayRouting
from trunkline.app.runtimes import Runtimes
from trunkline.app.wire import Wire
from trunkline.backends.python import Agent
from trunkline.clock import SystemClock
from trunkline.model.errors import ConfigError
from trunkline.model.principal import OPERATOR
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.clock import Clock
from trunkline.ports.gate import Gate
from trunkline.routing.routing import log_event
from trunkline.server.ai_catalog import AiCatalog
from trunkline.server.application import Application
from trunkline.server.endpoint import Endpoint
from trunkline.settings import Settings
from trunkline.settings.server import is_loopback_url

if TYPE_CHECKING:
    from trunkline.server.mcp.http import McpEndpoint


class Gateway(Struct, frozen=True, kw_only=True):
    api: GatewayApi
    live: GatewayLive
    front: Front
    runtimes: Runtimes
    directory: AgentDirectory
    channel: Channel
    routing: GatewayRouting
    recordings: GatewayRecordings
    hub: Hub | None
    relaying: Relaying
    # None for a gateway without a page.
    console: GatewayConsole | None = None
    wire: Wire

    async def open(self) -> None:
        """Raises StoreError; nothing is open then."""
        await self.runtimes.open()
        try:
            if self.hub is not None:
                await self.hub.open(self.runtimes, self.settings)
            await self.routing.open()
            await self.recordings.open()
            self.live.open()
            await self.relaying.open(self.runtimes)
            self.relaying.start()
        except BaseException:
            await self.close()
            raise

    async def first_admin_token(self) -> str:
        """A token that manages the hub; empty unless the hub is new and has no operator. Raises
        StoreError."""
        keys = self.settings.auth.principals().values()
        if self.hub is None or any(OPERATOR in key.roles for key in keys):
            return ""
        return await self.hub.first_admin_token()

    async def drain(self, *, grace_s: float) -> None:
        """Accept no more messages, and let turns finish for `grace_s`."""
        if self.mcp is not None:
            self.mcp.stop()
        await asyncio.gather(
            self.runtimes.drain(grace_s=grace_s), self.relaying.drain(grace_s=grace_s)
        )
        self.live.end_streams()

    async def close(self) -> None:
        await self.live.close()
        await self.relaying.close()
        await self.api.close()
        await self.wire.close()
        await self.directory.close()
        if self.hub is not None:
            await self.hub.close()
        await self.runtimes.close()
        await self.routing.close()

    @property
    def settings(self) -> Settings:
        """The settings in force, with the agents that are published now."""
        return self.directory.settings

    @property
    def application(self) -> Application:
        return self.front.application

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(self.directory.endpoints)

    @property
    def mcp(self) -> "McpEndpoint | None":
        return self.front.mcp


def build(
    settings: Settings,
    *,
    base_url: str,
    clock: Clock | None = None,
    authenticators: Sequence[Authenticator] = (),
    gate: Gate | None = None,
    local_url: str = "",
) -> Gateway:
    """Put the gateway together. Cards advertise `base_url`, which has a scheme and no slash at
    the end. `authenticators` come after the API keys. Every turn passes the `gate`. `local_url` is
    where programs on this machine reach the gateway; empty where nothing listens."""
    settings, code = load_agents(settings)
    clock = clock or SystemClock()
    server = settings.server
    signer = None
    if server.card_key_path:
        signer = card_signer(server.card_key_path, base_url=base_url)
    hub = None
    if settings.hub is not None:
        if gate is not None:
            raise ConfigError("hub: the hub has a gate of its own. Remove the table [hub].")
        hub = Hub(settings.hub, gateway=settings, base_url=base_url, clock=clock)
        authenticators = (*hub.authenticators, *authenticators)
        gate = hub.gate
    # The public URL may be that of several nodes.
    own_url = local_url if local_url != server.public_url.rstrip("/") else ""
    relaying = Relaying(
        settings,
        clock=clock,
        base_url=base_url,
        local_url=own_url or f"http://{server.host}:{server.port}",
    )
    if hub is not None and relaying.tenants is not None:
        relaying.tenants.changes.note = hub.audit.trail.noted_changes
    routing = GatewayRouting(
        settings, clock=clock, on_audit=log_event if hub is None else hub.audit.agent_call
    )
    due_kinds = [] if hub is None else [*hub.due_kinds()]
    console = None
    if settings.console.enabled:
        console = GatewayConsole(
            settings,
            main=lambda: runtimes,
            clock=clock,
            base_url=base_url,
            local_url=local_url,
        )
        due_kinds += console.due_kinds()
    runtimes = Runtimes(
        main=settings.store,
        server=server,
        clock=clock,
        times=settings.cluster.times,
        gate=gate,
        due_kinds=[*due_kinds, *routing.routing.due_kinds(), *relaying.due_kinds()],
        agents=routing.agents,
        gateway=_name(base_url),
        credentials=None if hub is None else hub.turn_credentials.of,
        rejoins=routing.routing.rejoins,
        watchers=routing.routing.watchers,
    )

    wire = Wire(settings, clock=clock)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Other ASGI servers run the lifespan; `serve` opens the gateway itself.
        await gateway.open()
        try:
            async with front.mcp.running() if front.mcp is not None else nullcontext():
                yield
        finally:
            await gateway.drain(grace_s=server.drain_s)
            await gateway.close()

    front = Front(
        settings,
        runtimes=runtimes,
        clock=clock,
        signer=signer,
        authenticators=(*authenticators, *relaying.authenticators),
        lifespan=lifespan,
        catalog=AiCatalog(lambda: directory.list(), lambda: directory.base_url),
        on_turned_away=None if hub is None else hub.audit.turned_away,
        more_figures=lambda: [*routing.routing.counts.figures(), *relaying.figures()],
        more_problems=relaying.problems,
        notes=relaying.notes,
        page_sessions=None if console is None else console.authenticator,
    )
    if settings.needs_main_store or routing.may_have_calls(settings):
        # These need the main store, also if no agent of the configuration has its tasks there.
        _ = runtimes.at(settings.store, adopting=settings.adopting_agent(settings.store))

    def agents_changed(changed: Settings) -> None:
        front.agents_changed(changed)
        live.agents_changed()

    directory = AgentDirectory(
        settings=settings,
        endpoints=Endpoints(
            settings=settings,
            base_url=base_url,
            clock=clock,
            signer=signer,
            relayed=relaying.places,
            is_relayed_only=relaying.is_only_way,
        ),
        runtimes=runtimes,
        application=front.application,
        clock=clock,
        on_change=agents_changed,
        tools_of=routing.tools_of,
        lends_tools=routing.routing.tool_tokens,
        wire=wire.control,
        secrets=wire.secrets,
    )
    routing.connect(directory, runtimes)
    relaying.connect(front)
    live = GatewayLive(
        runtimes=runtimes,
        directory=directory,
        routing=routing,
        streams=front.streams,
        wire=wire.log,
        clock=clock,
    )
    _prepare(directory, settings, code)
    if hub is not None:
        hub.connect(front, directory, on_deleted=routing.forget_agent, relayed=relaying.at_hub)
    recordings = GatewayRecordings(directory, runtimes, routing, clock=clock)
    if console is not None:
        console.connect(front)
    api = GatewayApi(
        front,
        routing,
        hub,
        console,
        directory,
        relaying=relaying,
        live=live,
        recordings=recordings,
        local_url=local_url,
    )
    wire.connect(api.api, directory, None if hub is None else hub.registry.registry)
    gateway = Gateway(
        api=api,
        wire=wire,
        front=front,
        runtimes=runtimes,
        directory=directory,
        channel=Channel(directory.accounts),
        routing=routing,
        recordings=recordings,
        hub=hub,
        relaying=relaying,
        console=console,
        live=live,
    )
    return gateway


def _prepare(directory: AgentDirectory, settings: Settings, code: Mapping[str, Agent]) -> None:
    for handle, agent in settings.agents.items():
        if not agent.unavailable:
            directory.prepare(handle, code.get(handle))


def _name(base_url: str) -> str:
    """Tells the gateway from others, the same at all of its nodes and after a restart."""
    # Many gateways have the same address on loopback, and one of them may call the other.
    return f"{socket.gethostname()} {base_url}" if is_loopback_url(base_url) else base_url


def create_app(settings: Settings, *, base_url: str = "") -> Application:
    """The gateway as an ASGI application with a lifespan, for another server to run.

    Its cards advertise `base_url`, else `server.public_url`, else the host and port of
    the settings.
    """
    server = settings.server
    own = server.public_url or f"http://{server.host}:{server.port}"
    url = (base_url or own).rstrip("/")
    return build(settings, base_url=url, local_url=url).application
