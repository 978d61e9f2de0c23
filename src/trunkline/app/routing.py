"""Response routing, connected with the agents of the gateway."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trunkline.app.directory import AgentDirectory
from trunkline.app.runtimes import Runtimes
from trunkline.app.target_agents import TargetAgents
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.python.settings import PythonBackend
from trunkline.clock import Uuid7Ids
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.ports.tools import TurnTool
from trunkline.routing.call_records import agent_tag
from trunkline.routing.callees import Callee
from trunkline.routing.calls import OnAudit
from trunkline.routing.routing import Routing, log_event
from trunkline.routing.tools import RoutingTool, actions
from trunkline.runtime.agents import PublishedAgent
from trunkline.settings import AgentSettings, Settings
from trunkline.settings.stores import holds_data

_NO_CALLS: Final = CallPolicy(may_call=())


class GatewayCallees:
    """The agents of the gateway, as others call them. It implements `routing.callees.Callees`."""

    def __init__(self, targets: TargetAgents) -> None:
        self._targets = targets
        # Set before the gateway opens.
        self.directory: AgentDirectory | None = None
        self.runtimes: Runtimes | None = None

    def callee(self, name: str) -> Callee | None:
        assert self.directory is not None
        assert self.runtimes is not None
        return self.directory.callee(name) or self._targets.callee(name, self.runtimes)

    def callees(self) -> Sequence[Callee]:
        assert self.directory is not None
        return self.directory.callees()

    def policy_of(self, handle: str) -> CallPolicy:
        own = self._settings.agents.get(handle)
        return _NO_CALLS if own is None else own.call_policy

    def limits(self) -> CallLimits:
        return self._settings.routing.limits

    @property
    def _settings(self) -> Settings:
        assert self.directory is not None
        return self.directory.settings


class GatewayRouting:
    """Response routing of one gateway."""

    def __init__(self, settings: Settings, *, clock: Clock, on_audit: OnAudit = log_event) -> None:
        self._targets = TargetAgents(settings, clock=clock)
        self._callees = GatewayCallees(self._targets)
        self._runtimes: Runtimes | None = None
        self.routing = Routing(
            callees=self._callees,
            limits=self._callees.limits,
            clock=clock,
            ids=Uuid7Ids(),
            open_main=self._open_main,
            on_audit=on_audit,
            routes=settings.route_list,
        )

    def limits(self) -> CallLimits:
        return self._callees.limits()

    def connect(self, directory: AgentDirectory, runtimes: Runtimes) -> None:
        self._callees.directory, self._callees.runtimes = directory, runtimes
        self._runtimes = runtimes

    def agents(self) -> Sequence[PublishedAgent]:
        """The agents that only others of the gateway call. The main store has their tasks."""
        return (*self.routing.agents, *self._targets.agents)

    async def apply(self, settings: Settings) -> None:
        """Take over the routes and the targets of other settings. Raises what a backend raises."""
        assert self._runtimes is not None
        await self._targets.apply(settings, self._runtimes)
        self.routing.take_over(settings.route_list)

    async def open(self) -> None:
        """Continue the calls from before a restart, if there may be any. Raises StoreError."""
        assert self._runtimes is not None
        if self._runtimes.main is not None:
            await self.routing.open()

    async def forget_agent(self, handle: str) -> None:
        """Discard the calls of an agent that was deleted. Raises StoreError."""
        await self.routing.sessions.discard(agent_tag(handle))

    async def close(self) -> None:
        await self.routing.close()

    async def _open_main(self) -> Store:
        assert self._runtimes is not None
        store = await self._runtimes.main_store()
        main = self._runtimes.main
        assert main is not None, "it was just opened"
        self.routing.connect(main, self._runtimes)
        return store

    def may_have_calls(self, settings: Settings) -> bool:
        """Whether the main store may hold calls from before a restart."""
        store = settings.store
        if store.kind != "postgres" and not (store.kind != "memory" and holds_data(store)):
            return False
        agents = [agent for agent in settings.agents.values() if not agent.unavailable]
        return any(self.tools_of(agent) for agent in agents)

    def tools_of(self, agent: AgentSettings) -> Mapping[str, TurnTool]:
        """The tools of routing that the agent has during its turns."""
        return dict(self._tools_of(agent))

    def _tools_of(self, agent: AgentSettings) -> Iterator[tuple[str, TurnTool]]:
        backend = agent.backend
        named = backend.tools if isinstance(backend, OpenAIBackend | ProgramSettings) else ()
        for name, (definition, action) in actions(self.routing.toolbox).items():
            if isinstance(backend, PythonBackend) or name in named:
                yield name, RoutingTool(definition, action)
