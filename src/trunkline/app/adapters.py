"""Stores and backends, made of their settings."""

from collections.abc import Callable, Mapping

from trunkline.app.postgres import make_postgres_cluster, make_postgres_store
from trunkline.backends.kind import Resources
from trunkline.backends.python import Agent
from trunkline.backends.python.loader import load
from trunkline.backends.python.settings import PythonBackend
from trunkline.model.errors import ConfigError
from trunkline.model.principal import ANONYMOUS
from trunkline.model.session import Routing
from trunkline.ports.backend import Backend, Finding
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Cluster, Times
from trunkline.ports.store import Scope, Store
from trunkline.ports.tools import LendsTools, TurnTool
from trunkline.ports.wire_log import ClientTap
from trunkline.runtime.agents import PublishedAgent
from trunkline.settings import AgentSettings, Settings, StoreSettings
from trunkline.settings.agents import handle_of, stands_for_many
from trunkline.settings.backends import kind_of
from trunkline.settings.root import publish
from trunkline.settings.stores import database_path, own_folder
from trunkline.stores.jsonfile import JsonFileStore, by_handle
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore


def make_store(
    settings: StoreSettings,
    *,
    agent: str,
    clock: Clock,
    find: Callable[[str], PublishedAgent | None] = lambda _: None,
) -> Store:
    """`agent` is the handle that gets the tasks which another program has left there. `find`
    returns the agent of a handle, which tells the records of a folder the sessions of its tasks."""
    match settings.kind:
        case "memory":
            return MemoryStore(clock)
        case "json-file":
            adopts = adopting_scope(settings, agent=agent)

            def route(scope: Scope, context_id: str, task_id: str) -> Routing:
                found = find(scope.agent)
                decide = by_handle if found is None else found.routing
                return decide(scope, context_id, task_id)

            path = database_path(settings)
            return JsonFileStore(path, clock=clock, adopts=adopts, route=route)
        case "postgres":
            return make_postgres_store(settings, clock=clock)
        case "sqlite":
            return SqliteStore(
                database_path(settings), synchronous=settings.synchronous, clock=clock
            )


def make_cluster(
    settings: StoreSettings, store: Store, *, times: Times, clock: Clock
) -> Cluster | None:
    """The nodes that share the store; None for a store of one process."""
    if settings.kind != "postgres":
        return None
    return make_postgres_cluster(settings, store, times=times, clock=clock)


def adopting_scope(settings: StoreSettings, *, agent: str) -> Scope:
    """The scope of the tasks that another program has left in the folder."""
    return Scope(agent, "", settings.adopt_as or ANONYMOUS.id)


def resources_for(
    agent: AgentSettings,
    settings: Settings,
    *,
    clock: Clock,
    code: Agent | None = None,
    tools: Mapping[str, TurnTool] | None = None,
    lends_tools: LendsTools | None = None,
    tap: ClientTap | None = None,
) -> Resources:
    """`code` is the agent that a Python backend runs, `tools` are those that models may use, and
    `tap` is what its connections look at before each request."""
    return Resources(
        clock=clock,
        data_dir=own_folder(settings.store),
        tools=tools or {},
        lends_tools=lends_tools,
        code=code,
        allow_private=settings.network.allow_private_addresses,
        profile=agent,
        tap=tap,
    )


def make_backend(agent: AgentSettings, resources: Resources) -> Backend:
    return kind_of(agent.backend).adapter().make(agent.backend, resources)


async def check_backend(agent: AgentSettings, resources: Resources) -> list[Finding]:
    """The findings of `trunkline doctor`."""
    if agent.unavailable:
        return [Finding("warning", f"is off: {agent.unavailable}")]
    return await kind_of(agent.backend).adapter().check(agent.backend, resources)


def load_agents(settings: Settings) -> tuple[Settings, dict[str, Agent]]:
    """Load all Python targets: every `owner/*` becomes the agents that its target holds.

    Returns the settings with only handles of single agents, and the agents by handle.
    """
    found: dict[str, list[str]] = {}
    code: dict[str, Agent] = {}
    for handle, agent in settings.agents.items():
        if not isinstance(agent.backend, PythonBackend) or agent.unavailable:
            continue
        target = agent.backend.target
        agents = load(target)
        if stands_for_many(handle):
            found[handle] = [one.slug for one in agents]
            code |= {handle_of(handle, one.slug): one for one in agents}
        elif len(agents) > 1:
            slugs = ", ".join(one.slug for one in agents)
            raise ConfigError(
                f'agents."{handle}".backend.target: {target} holds several agents ({slugs}). '
                f'Name one as "{target}:attribute", or publish them all as "owner/*".'
            )
        else:
            code[handle] = agents[0]
    return publish(settings, found), code
