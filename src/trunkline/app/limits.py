"""`LimitParts`: the limits of the hub, with what they need of the gateway."""

from collections.abc import Callable, Iterator

from trunkline.app.directory import AgentDirectory
from trunkline.app.runtimes import Runtimes
from trunkline.hub.agent_limits import AgentLimits
from trunkline.hub.limits import AgentLimiter, Place
from trunkline.hub.old_counts import OldCounts
from trunkline.hub.registry import Registry
from trunkline.hub.usage_figures import UsageFigures
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.settings.hub import HubSettings


class GatewayAgents:
    """The agents of the configuration and of the registry. It implements
    `hub.limits.LimitedAgents`."""

    def __init__(self, registry: Registry, directory: Callable[[], AgentDirectory]) -> None:
        self._registry = registry
        self._directory = directory

    def limits_of(self, handle: str) -> AgentLimits | None:
        own = self._directory().settings.agents.get(handle)
        if own is not None and own.limits is not None:
            return own.limits
        row = self._registry.at(handle)
        return None if row is None or not row.is_published else row.limits

    def place_of(self, handle: str) -> Place:
        return self._directory().place_of(handle)

    @property
    def is_fresh(self) -> bool:
        return self._registry.changes.is_fresh

    async def renew(self) -> None:
        await self._registry.current()


class LimitParts:
    def __init__(self, settings: HubSettings, registry: Registry, *, clock: Clock) -> None:
        self._directory: AgentDirectory | None = None
        self._runtimes: Runtimes | None = None
        agents = GatewayAgents(registry, self._connected)
        self.limiter = AgentLimiter(
            clock=clock,
            agents=agents,
            rate_per_caller=settings.rate_per_caller,
            rate_window_s=settings.rate_window_s,
        )
        self.figures = UsageFigures(clock=clock, place_of=agents.place_of)
        self.old_counts = OldCounts(clock=clock, stores=self._stores)

    def connect(self, directory: AgentDirectory) -> None:
        self._directory = directory

    def open(self, runtimes: Runtimes) -> None:
        self._runtimes = runtimes
        self.old_counts.start()

    async def close(self) -> None:
        await self.old_counts.close()

    def _connected(self) -> AgentDirectory:
        assert self._directory is not None, "the hub is not connected"
        return self._directory

    def _stores(self) -> Iterator[Store]:
        assert self._runtimes is not None, "the hub is not open"
        return (runtime.store for runtime in self._runtimes)
