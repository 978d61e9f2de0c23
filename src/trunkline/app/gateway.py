"""`Gateway`: the runtimes, and the ASGI application in front of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.applications import Starlette
from starlette.responses import Response

from trunkline.app.adapters import load_agents, make_backend, make_store, resources_for
from trunkline.app.card_signer import JWKS_PATH, card_signer
from trunkline.app.cards import input_modes, output_modes
from trunkline.app.endpoints import Endpoints, idle_addresses
from trunkline.app.model_tools import model_tools
from trunkline.app.openclaw_channel import Account, Channel
from trunkline.app.tools import mcp_endpoint
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.python import Agent
from trunkline.clock import SystemClock, Uuid7Ids
from trunkline.model.card import AgentSkill
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.runtime import Runtime
from trunkline.server.a2a import A2AHandler
from trunkline.server.access import Access
from trunkline.server.api_keys import ApiKeys
from trunkline.server.application import Application
from trunkline.server.asgi import App
from trunkline.server.cards import Cards
from trunkline.server.endpoint import Endpoint
from trunkline.server.mcp import PATH as MCP_PATH
from trunkline.server.memory_budget import MemoryBudget
from trunkline.server.metrics import Metrics
from trunkline.server.pages import PATHS, build_pages
from trunkline.server.streams import StreamCounts
from trunkline.settings import AgentSettings, Settings, StoreSettings
from trunkline.settings.agent_card import SkillSettings
from trunkline.version import VERSION

if TYPE_CHECKING:
    from trunkline.server.mcp.http import McpEndpoint


class Runtimes(Struct, frozen=True):
    """The runtimes of a gateway: one for each store that its agents use."""

    each: tuple[Runtime, ...]

    def __iter__(self) -> Iterator[Runtime]:
        return iter(self.each)

    def problems(self) -> list[str]:
        """The reasons why the gateway should get no traffic now, for `/readyz`."""
        return [problem for runtime in self.each for problem in runtime.problems()]

    async def open(self) -> None:
        """Open all runtimes, or none if one cannot be opened."""
        opened: list[Runtime] = []
        try:
            for runtime in self.each:
                opened.append(runtime)
                await runtime.open()
        except BaseException:
            for runtime in reversed(opened):
                await runtime.close()
            raise

    async def drain(self, *, grace_s: float) -> None:
        async with asyncio.TaskGroup() as draining:
            for runtime in self.each:
                draining.create_task(runtime.drain(grace_s=grace_s))

    async def close(self) -> None:
        for runtime in self.each:
            await runtime.close()


class Gateway(Struct, frozen=True, kw_only=True):
    settings: Settings
    application: Application
    runtimes: Runtimes
    endpoints: tuple[Endpoint, ...]
    channel: Channel
    mcp: "McpEndpoint | None"
    # The memory budget, which the listener shares.
    budget: MemoryBudget


def build(
    settings: Settings,
    *,
    base_url: str,
    clock: Clock | None = None,
    authenticators: Sequence[Authenticator] = (),
) -> Gateway:
    """Put the gateway together. Cards advertise `base_url`, which has a scheme and no slash at
    the end. `authenticators` come after the API keys."""
    settings, code = load_agents(settings)
    clock = clock or SystemClock()
    tools = model_tools(settings)
    by_store: dict[StoreSettings, list[PublishedAgent]] = {}
    for handle, agent_settings in settings.agents.items():
        if agent_settings.unavailable:
            continue
        resources = resources_for(
            agent_settings, settings, clock=clock, code=code.get(handle), tools=tools
        )
        backend = make_backend(agent_settings, resources)
        agent = _published(handle, agent_settings, backend, code.get(handle))
        by_store.setdefault(agent_settings.store or settings.store, []).append(agent)
    server = settings.server
    signer = None
    if server.card_key_path:
        signer = card_signer(server.card_key_path, base_url=base_url)
    runtimes = Runtimes(
        tuple(_runtime(settings, store, agents, clock) for store, agents in by_store.items())
    )
    published = Endpoints(settings=settings, base_url=base_url, clock=clock, signer=signer)
    endpoints = [
        endpoint
        for runtime in runtimes
        for agent in runtime.agents.values()
        for endpoint in published.of(agent, runtime.service, code.get(agent.handle))
    ]
    keys = ApiKeys(settings.auth.principals(), settings.auth.schemes)
    is_open, is_for_all = settings.allows_anonymous(), settings.auth.needs_no_key == "always"
    access = Access(
        keys=keys,
        more=authenticators,
        allows_anonymous=is_open,
        allows_proxied=is_for_all,
        hosts=settings.public_hosts() if is_for_all else (),
    )
    # A gateway that other machines can reach shows its pages only to callers with a key.
    access_to_pages = Access(
        keys=keys,
        more=authenticators,
        allows_anonymous=is_open and not settings.is_exposed(),
    )
    streams = StreamCounts(server.max_streams_per_principal)
    budget = MemoryBudget(server.max_held_bytes)
    metrics = Metrics(lambda: _gauges(runtimes, streams, budget))
    mcp = mcp_endpoint(settings, access_to_pages) if settings.remote.mcp else None
    more: dict[str, App] = {} if mcp is None else {MCP_PATH: mcp}
    if signer is not None:
        more[JWKS_PATH] = Response(signer.jwks(), media_type="application/jwk-set+json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Other ASGI servers run the lifespan; `serve` opens the runtimes itself.
        await runtimes.open()
        try:
            async with mcp.running() if mcp is not None else nullcontext():
                yield
        finally:
            await runtimes.drain(grace_s=server.drain_s)
            await runtimes.close()

    application = Application(
        endpoints=endpoints,
        a2a=A2AHandler(
            access=access,
            streams=streams,
            metrics=metrics,
            clock=clock,
            logs_requests=server.log_requests,
        ),
        cards=Cards(modified_ms=clock.now_ms()),
        pages=build_pages(
            problems=runtimes.problems,
            metrics=metrics,
            access=access_to_pages,
            version=VERSION,
            lifespan=lifespan,
            more=more,
        ),
        page_paths=(*PATHS, *more),
        idle=idle_addresses(settings),
    )
    return Gateway(
        settings=settings,
        application=application,
        runtimes=runtimes,
        endpoints=tuple(endpoints),
        channel=Channel(_accounts(runtimes)),
        mcp=mcp,
        budget=budget,
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
        store=make_store(store, agent=settings.adopting_agent(store), clock=clock, agents=agents),
        clock=clock,
        ids=Uuid7Ids(),
        agents=agents,
        stream_buffer=settings.server.stream_buffer_events,
        heartbeat_s=settings.server.heartbeat_s,
    )


def _published(
    handle: str, settings: AgentSettings, backend: Backend, code: Agent | None
) -> PublishedAgent:
    skills: Sequence[SkillSettings | AgentSkill] = settings.skills or (code.skills if code else ())
    accepted = [*input_modes(settings, code), *(m for skill in skills for m in skill.input_modes)]
    produced = [*output_modes(settings, code), *(m for skill in skills for m in skill.output_modes)]
    if isinstance(settings.backend, A2aBackend):
        # The upstream agent checks the media types that the settings do not name.
        accepted = ["*/*"] if settings.input_modes is None else accepted
        produced = ["*/*"] if settings.output_modes is None else produced
    return PublishedAgent(
        handle=handle,
        backend=backend,
        # The media types of every skill count too, because a message does not name its skill.
        input_modes=tuple(dict.fromkeys(accepted)),
        output_modes=tuple(dict.fromkeys(produced)),
        profile=settings.own_profile(),
        agent_id=settings.agent_id,
        account_id=settings.account_id,
    )


def _accounts(runtimes: Runtimes) -> dict[str, Account]:
    return {
        agent.account_id: Account(agent.handle, runtime.queued_replies)
        for runtime in runtimes
        for agent in runtime.agents.values()
    }


def _gauges(
    runtimes: Runtimes, streams: StreamCounts, budget: MemoryBudget
) -> Iterator[tuple[str, str, float]]:
    agents = [agent for runtime in runtimes for agent in runtime.agents.values()]
    waiting = sum(agent.lanes.total_waiting for agent in agents)
    running = sum(len(runtime.runs.running) for runtime in runtimes)
    held = sum(len(runtime.registry) for runtime in runtimes)
    committed = sum(runtime.journal.committed_entries for runtime in runtimes)
    yield "trunkline_turns_running", "Turns that agents run now.", running
    yield "trunkline_turns_waiting", "Turns in the queues.", waiting
    yield "trunkline_tasks_in_memory", "Tasks that are held in memory.", held
    yield "trunkline_streams_open", "Streams that are open.", streams.total
    held_bytes = budget.held_bytes
    yield "trunkline_held_bytes", "Bytes of bodies and unread answers in memory.", held_bytes
    yield "trunkline_journal_entries_total", "Journal entries committed.", committed
