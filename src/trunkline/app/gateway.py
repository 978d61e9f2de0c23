"""All parts as one: the runtime, and the ASGI application in front of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from msgspec import Struct
from starlette.applications import Starlette

from trunkline.app.adapters import load_agents, make_backend, make_store
from trunkline.app.cards import addresses_of, agent_card, extended_card, input_modes
from trunkline.backends.python import Agent
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.protocol.versions import Version
from trunkline.runtime.agents import AgentLimits, PublishedAgent
from trunkline.runtime.clock import SystemClock, Uuid7Ids
from trunkline.runtime.runtime import Runtime
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
from trunkline.settings import AgentSettings, Settings
from trunkline.version import VERSION


class Gateway(Struct, frozen=True, kw_only=True):
    settings: Settings
    application: Application
    runtime: Runtime
    endpoints: tuple[Endpoint, ...]


def build(settings: Settings, *, base_url: str, clock: Clock | None = None) -> Gateway:
    """`base_url` is what cards advertise, with scheme and without a slash at the end."""
    settings, code = load_agents(settings)
    clock = clock or SystemClock()
    endpoints: list[Endpoint] = []
    agents: list[PublishedAgent] = []
    for handle, agent_settings in settings.agents.items():
        own = code.get(handle)
        backend = make_backend(agent_settings, own, clock)
        agent = _published(handle, agent_settings, backend, own)
        agents.append(agent)
        endpoints += _endpoints(agent, agent_settings, own, settings, base_url)
    server = settings.server
    runtime = Runtime(
        store=make_store(settings.store),
        clock=clock,
        ids=Uuid7Ids(),
        agents=agents,
        stream_buffer=server.stream_buffer_events,
        heartbeat_s=server.heartbeat_s,
        retention_s=settings.store.retention_days * 86400,
    )
    access = Access(
        principals=settings.auth.principals(), allows_anonymous=settings.allows_anonymous()
    )
    streams = StreamCounts(server.max_streams_per_principal)
    metrics = Metrics(lambda: _gauges(runtime, streams))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Under another ASGI server; `serve` opens the runtime itself.
        await runtime.open()
        try:
            yield
        finally:
            await runtime.drain(grace_s=server.drain_s)
            await runtime.close()

    application = Application(
        endpoints=endpoints,
        bindings=Bindings(
            calls=Calls(runtime.service),
            access=access,
            limits=Limits(
                max_body_bytes=server.max_body_bytes, max_json_depth=server.max_json_depth
            ),
            streams=streams,
            metrics=metrics,
            clock=clock,
            logs_requests=server.log_requests,
        ),
        cards=Cards(modified_ms=clock.now_ms()),
        pages=build_pages(
            is_ready=lambda: runtime.is_ready,
            metrics=metrics,
            access=access,
            version=VERSION,
            lifespan=lifespan,
        ),
        page_paths=PATHS,
    )
    return Gateway(
        settings=settings,
        application=application,
        runtime=runtime,
        endpoints=tuple(endpoints),
    )


def create_app(settings: Settings, *, base_url: str = "") -> Application:
    """The gateway as an ASGI application with a lifespan, for another server to run.

    Its cards advertise `base_url`, else `server.public_url`, else the host and port of
    the settings.
    """
    server = settings.server
    own = server.public_url or f"http://{server.host}:{server.port}"
    return build(settings, base_url=(base_url or own).rstrip("/")).application


def _published(
    handle: str, settings: AgentSettings, backend: Backend, code: Agent | None
) -> PublishedAgent:
    return PublishedAgent(
        handle=handle,
        backend=backend,
        input_modes=_all_input_modes(settings, code),
        limits=AgentLimits(
            max_queue_per_context=settings.max_queue_per_context,
            max_concurrency=settings.max_concurrency,
            task_deadline_s=settings.task_deadline_s,
            cancel_grace_s=settings.cancel_grace_s,
            deduplicate_messages=settings.deduplicate_messages,
        ),
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
    agent_settings: AgentSettings,
    code: Agent | None,
    settings: Settings,
    base_url: str,
) -> Iterator[Endpoint]:
    is_default = settings.default_agent() == agent.handle
    for addresses in addresses_of(agent.handle, agent_settings, is_default=is_default):
        card = agent_card(
            agent.handle,
            agent_settings,
            code=code,
            addresses=addresses,
            base_url=base_url,
            access=settings,
        )
        yield Endpoint(
            agent=agent,
            card=card,
            extended_card=extended_card(card, agent_settings),
            card_paths=addresses.card_paths,
            jsonrpc_path=addresses.jsonrpc,
            rest_path=addresses.rest,
            default_version=Version(agent_settings.default_version),
            tenants=frozenset(agent_settings.tenants),
            streams=agent_settings.streaming,
        )


def _gauges(runtime: Runtime, streams: StreamCounts) -> Iterator[tuple[str, str, float]]:
    waiting = sum(agent.lanes.total_waiting for agent in runtime.agents.values())
    yield "trunkline_turns_running", "Turns that agents run now.", len(runtime.turns.running)
    yield "trunkline_turns_waiting", "Turns in the queues.", waiting
    yield "trunkline_tasks_in_memory", "Tasks that are held in memory.", len(runtime.registry)
    yield "trunkline_streams_open", "Streams that are open.", streams.total
    committed = runtime.journal.committed_entries
    yield "trunkline_journal_entries_total", "Journal entries committed.", committed
