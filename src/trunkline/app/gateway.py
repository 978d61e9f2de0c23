"""All parts as one: the runtime, and the ASGI application in front of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from msgspec import Struct
from starlette.applications import Starlette

from trunkline.app.adapters import load_agents, make_backend, make_store
from trunkline.app.cards import addresses_of, agent_card, card_shape, extended_card, input_modes
from trunkline.app.channel import Account, Channel
from trunkline.app.idle import idle_addresses
from trunkline.app.runtimes import Runtimes
from trunkline.backends.python import Agent
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.protocol import openclaw_routes
from trunkline.protocol.spoken import spoken_by
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.clock import SystemClock, Uuid7Ids
from trunkline.runtime.runtime import Runtime
from trunkline.runtime.service import Service
from trunkline.server.access import Access
from trunkline.server.application import Application
from trunkline.server.bindings import Bindings
from trunkline.server.calls import Calls
from trunkline.server.cards import Cards
from trunkline.server.endpoint import Endpoint
from trunkline.server.exchange import Limits
from trunkline.server.metrics import Metrics
from trunkline.server.operations import PATHS, build_pages
from trunkline.server.streams import StreamCounts
from trunkline.settings import AgentSettings, Settings, StoreSettings
from trunkline.version import VERSION


class Gateway(Struct, frozen=True, kw_only=True):
    settings: Settings
    application: Application
    runtimes: Runtimes
    endpoints: tuple[Endpoint, ...]
    channel: Channel


def build(settings: Settings, *, base_url: str, clock: Clock | None = None) -> Gateway:
    """`base_url` is what cards advertise, with scheme and without a slash at the end."""
    settings, code = load_agents(settings)
    clock = clock or SystemClock()
    by_store: dict[StoreSettings, list[PublishedAgent]] = {}
    for handle, agent_settings in settings.agents.items():
        if agent_settings.unavailable:
            continue
        backend = make_backend(agent_settings, code.get(handle), clock)
        agent = _published(handle, agent_settings, backend, code.get(handle))
        by_store.setdefault(agent_settings.store or settings.store, []).append(agent)
    server = settings.server
    runtimes = Runtimes(
        tuple(_runtime(settings, store, agents, clock) for store, agents in by_store.items())
    )
    endpoints = [
        endpoint
        for runtime in runtimes
        for agent in runtime.agents.values()
        for endpoint in _endpoints(
            agent, runtime.service, code.get(agent.handle), settings, base_url
        )
    ]
    principals, is_open = settings.auth.principals(), settings.allows_anonymous()
    access = Access(
        principals=principals,
        allows_anonymous=is_open,
        hosts=settings.public_hosts() if settings.auth.anonymous == "always" else (),
    )
    # Who lets the world talk to an agent does not show it the pages about the gateway.
    access_to_pages = Access(
        principals=principals, allows_anonymous=is_open and not settings.is_exposed()
    )
    streams = StreamCounts(server.max_streams_per_principal)
    metrics = Metrics(lambda: _gauges(runtimes, streams))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Under another ASGI server; `serve` opens the runtime itself.
        await runtimes.open()
        try:
            yield
        finally:
            await runtimes.drain(grace_s=server.drain_s)
            await runtimes.close()

    application = Application(
        endpoints=endpoints,
        bindings=Bindings(
            calls=Calls(),
            access=access,
            streams=streams,
            metrics=metrics,
            clock=clock,
            logs_requests=server.log_requests,
        ),
        cards=Cards(modified_ms=clock.now_ms()),
        pages=build_pages(
            is_ready=lambda: runtimes.is_ready,
            metrics=metrics,
            access=access_to_pages,
            version=VERSION,
            lifespan=lifespan,
        ),
        page_paths=PATHS,
        idle=idle_addresses(settings),
    )
    return Gateway(
        settings=settings,
        application=application,
        runtimes=runtimes,
        endpoints=tuple(endpoints),
        channel=Channel(_accounts(runtimes)),
    )


def create_app(settings: Settings, *, base_url: str = "") -> Application:
    """The gateway as an ASGI application with a lifespan, for another server to run.

    Its cards advertise `base_url`, else `server.public_url`, else the host and port of
    the settings.
    """
    server = settings.server
    own = server.public_url or f"http://{server.host}:{server.port}"
    return build(settings, base_url=(base_url or own).rstrip("/")).application


def _runtime(
    settings: Settings, store: StoreSettings, agents: list[PublishedAgent], clock: Clock
) -> Runtime:
    return Runtime(
        store=make_store(store, agent=settings.adopting_agent(store), clock=clock),
        clock=clock,
        ids=Uuid7Ids(),
        agents=agents,
        stream_buffer=settings.server.stream_buffer_events,
        heartbeat_s=settings.server.heartbeat_s,
    )


def _published(
    handle: str, settings: AgentSettings, backend: Backend, code: Agent | None
) -> PublishedAgent:
    return PublishedAgent(
        handle=handle,
        backend=backend,
        input_modes=_all_input_modes(settings, code),
        profile=settings.own_profile(),
        agent_id=settings.agent_id,
        account_id=settings.account_id,
    )


def _all_input_modes(settings: AgentSettings, code: Agent | None) -> tuple[str, ...]:
    """What the agent or any of its skills takes: nobody knows which skill a message means."""
    modes = [*input_modes(settings, code)]
    for skill in settings.skills:
        modes += skill.input_modes
    if code is not None and not settings.skills:
        for own in code.skills:
            modes += own.input_modes
    return tuple(dict.fromkeys(modes))


def _endpoints(
    agent: PublishedAgent,
    service: Service,
    code: Agent | None,
    settings: Settings,
    base_url: str,
) -> Iterator[Endpoint]:
    agent_settings = settings.agents[agent.handle]
    limits = Limits(
        max_body_bytes=agent_settings.max_body_bytes or settings.server.max_body_bytes,
        max_json_depth=settings.server.max_json_depth,
    )
    is_default = settings.default_agent() == agent.handle
    for addresses in addresses_of(agent.handle, agent_settings, is_default=is_default):
        card = agent_card(
            agent.handle,
            agent_settings,
            code=code,
            addresses=addresses,
            base_url=agent_settings.public_url.rstrip("/") or base_url,
            access=settings,
        )
        yield Endpoint(
            agent=agent,
            service=service,
            spoken=spoken_by(agent.profile),
            limits=limits,
            card=card,
            extended_card=extended_card(card, agent_settings),
            card_paths=addresses.card_paths,
            jsonrpc_path=addresses.jsonrpc,
            rest_path=addresses.rest,
            tenants=frozenset(agent_settings.tenants),
            shape=card_shape(agent_settings),
            not_found=openclaw_routes.not_found(agent.account_id)
            if agent_settings.error_style == "openclaw-inbound"
            else None,
        )


def _accounts(runtimes: Runtimes) -> dict[str, Account]:
    return {
        agent.account_id: Account(agent.handle, runtime.follow_ups)
        for runtime in runtimes
        for agent in runtime.agents.values()
    }


def _gauges(runtimes: Runtimes, streams: StreamCounts) -> Iterator[tuple[str, str, float]]:
    agents = [agent for runtime in runtimes for agent in runtime.agents.values()]
    waiting = sum(agent.lanes.total_waiting for agent in agents)
    running = sum(len(runtime.turns.running) for runtime in runtimes)
    held = sum(len(runtime.registry) for runtime in runtimes)
    committed = sum(runtime.journal.committed_entries for runtime in runtimes)
    yield "trunkline_turns_running", "Turns that agents run now.", running
    yield "trunkline_turns_waiting", "Turns in the queues.", waiting
    yield "trunkline_tasks_in_memory", "Tasks that are held in memory.", held
    yield "trunkline_streams_open", "Streams that are open.", streams.total
    yield "trunkline_journal_entries_total", "Journal entries committed.", committed
