"""Response routing, connected with the agents of the gateway."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from trunkline.app.directory import AgentDirectory
from trunkline.app.runtimes import Runtimes
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.python.settings import PythonBackend
from trunkline.clock import Uuid7Ids
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.ports.tools import TurnTool
from trunkline.routing.callees import Callee
from trunkline.routing.routing import Routing
from trunkline.routing.tools import RoutingTool, actions
from trunkline.settings import AgentSettings, Settings

_NO_CALLS: Final = CallPolicy(may_call=())


class GatewayCallees:
    """The agents of the gateway, as others call them. It implements `routing.callees.Callees`."""

    def __init__(self) -> None:
        # Set before the gateway opens.
        self.directory: AgentDirectory | None = None

    def callee(self, name: str) -> Callee | None:
        assert self.directory is not None
        return self.directory.callee(name)

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

    def __init__(self, *, clock: Clock, open_main: Callable[[], Awaitable[Store]]) -> None:
        self._callees = GatewayCallees()
        self.routing = Routing(
            callees=self._callees,
            limits=self._callees.limits,
            clock=clock,
            ids=Uuid7Ids(),
            open_main=open_main,
        )

    def connect(self, directory: AgentDirectory, runtimes: Runtimes, settings: Settings) -> None:
        self._callees.directory = directory
        main = runtimes.at(settings.store, adopting=settings.adopting_agent(settings.store))
        self.routing.connect(main, runtimes)

    def tools_of(self, agent: AgentSettings) -> Mapping[str, TurnTool]:
        """The tools of routing that the agent has during its turns."""
        return dict(self._tools_of(agent))

    def _tools_of(self, agent: AgentSettings) -> Iterator[tuple[str, TurnTool]]:
        backend = agent.backend
        for name, (definition, action) in actions(self.routing.calls).items():
            is_python = isinstance(backend, PythonBackend)
            if is_python or (isinstance(backend, OpenAIBackend) and name in backend.tools):
                yield name, RoutingTool(definition, action)
