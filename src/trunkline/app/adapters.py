"""Settings to adapters. A new store or backend is one more case here."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from trunkline.app.models import make_openai
from trunkline.app.openclaw import make_openclaw
from trunkline.app.programs import make_acp, make_command
from trunkline.app.upstreams import make_upstream_backend
from trunkline.backends.echo import EchoBackend
from trunkline.backends.python import Agent, PythonBackend
from trunkline.backends.python.loader import load
from trunkline.model.calls import ANONYMOUS
from trunkline.model.errors import ConfigError, GatewayBug
from trunkline.model.session import Routing
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.ports.store import Scope, Store
from trunkline.ports.tools import TurnTool
from trunkline.runtime.agents import PublishedAgent
from trunkline.settings import AgentSettings, Settings, StoreSettings, database_path, publish
from trunkline.settings import backends as kinds
from trunkline.settings.publish import handle_of, stands_for_many
from trunkline.stores.jsonfile import JsonFileStore, by_handle
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.scripted import ScriptedBackend


def make_store(
    settings: StoreSettings,
    *,
    agent: str,
    clock: Clock,
    agents: Iterable[PublishedAgent] = (),
) -> Store:
    """`agent` is the handle that gets the tasks which another program has left there. Of
    `agents` the records tell which sessions they have."""
    match settings.kind:
        case "memory":
            return MemoryStore()
        case "json-file":
            adopts = adopting_scope(settings, agent=agent)
            known = {each.handle: each for each in agents}

            def route(scope: Scope, context_id: str, task_id: str) -> Routing:
                found = known.get(scope.agent)
                routed = by_handle if found is None else found.routing
                return routed(scope, context_id, task_id)

            path = database_path(settings)
            return JsonFileStore(path, clock=clock, adopts=adopts, route=route)
        case "sqlite":
            return SqliteStore(database_path(settings), synchronous=settings.synchronous)


def adopting_scope(settings: StoreSettings, *, agent: str) -> Scope:
    """Whose the tasks are that another program has left in the folder."""
    return Scope(agent, "", settings.adopt_as or ANONYMOUS)


def make_backend(
    settings: AgentSettings,
    code: Agent | None,
    clock: Clock,
    tools: Mapping[str, TurnTool] | None = None,
    data: Path | None = None,
    *,
    allow_private: bool = False,
) -> Backend:
    """`code` is the agent that a Python backend runs, `tools` are those that models may use,
    `data` is the folder to keep keys in. `allow_private` is that of the network settings."""
    match settings.backend:
        case kinds.EchoBackend():
            return EchoBackend()
        case kinds.ScriptedBackend(turn_log=turn_log):
            return ScriptedBackend(clock=clock, turn_log=turn_log)
        case kinds.CommandBackend() as command:
            return make_command(command, clock)
        case kinds.AcpBackend() as acp:
            return make_acp(acp, clock)
        case kinds.PythonBackend(target=target):
            if code is None:
                raise GatewayBug(f"{target} was not loaded")
            return PythonBackend(code, clock=clock, grace_s=settings.cancel_grace_s)
        case kinds.OpenAIBackend() as model:
            return make_openai(model, clock, tools or {})
        case kinds.A2aBackend() as given:
            return make_upstream_backend(given, settings, clock, allow_private=allow_private)
        case kinds.OpenClawBackend() as openclaw:
            return make_openclaw(openclaw, clock, data)


def load_agents(settings: Settings) -> tuple[Settings, dict[str, Agent]]:
    """Load all Python targets: every `owner/*` becomes the agents that its target holds.

    Returns the settings with only handles of single agents, and the agents by handle.
    """
    found: dict[str, list[str]] = {}
    code: dict[str, Agent] = {}
    for handle, agent in settings.agents.items():
        if not isinstance(agent.backend, kinds.PythonBackend) or agent.unavailable:
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
