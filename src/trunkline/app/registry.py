"""`RegistryParts`: the registry of the hub, with what it needs of the gateway."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from trunkline.app.directory import AgentDirectory
from trunkline.clock import Uuid4Ids
from trunkline.config.secret import secrets_in
from trunkline.hub.agent_cards import AgentCards
from trunkline.hub.agent_changes import AgentChanges, nothing
from trunkline.hub.agent_views import AgentViews
from trunkline.hub.agents_api import AgentsApi
from trunkline.hub.card_block import AgentCardBlock
from trunkline.hub.figures import Figures
from trunkline.hub.registry import Connection, Registry
from trunkline.model.handles import folded
from trunkline.ports.clock import Clock
from trunkline.runtime.record_changes import RecordChanges
from trunkline.settings import Settings
from trunkline.settings.backends import CALLING_KINDS
from trunkline.settings.hub import HubSettings
from trunkline.settings.load import agent_from


class RegistryChecks:
    """The rules of the configuration, for agents of the registry. It implements
    `hub.agent_changes.AgentChecks`."""

    def __init__(self, in_force: Callable[[], Settings]) -> None:
        self._in_force = in_force

    def secrets(self, handle: str, table: Mapping[str, Any]) -> Sequence[str]:
        return [*secrets_in(agent_from(handle, table, among=self._in_force()))]


class RegistryParts:
    def __init__(self, settings: HubSettings, changes: RecordChanges, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._directory: AgentDirectory | None = None
        self._block = AgentCardBlock(settings.style, is_online=self._is_online)
        # Called with the handle of an agent that was deleted.
        self.on_deleted: Callable[[str], Awaitable[object]] = nothing
        self.registry = Registry(changes, clock=clock, card_block=self._block)
        # Those of a gateway that is running, or of a program that works on the store alone.
        self.agents: AgentChanges
        self.views: AgentViews

    def connect(
        self, directory: AgentDirectory, cards: AgentCards, *, figures: Figures | None = None
    ) -> AgentsApi:
        """`figures` counts the queries of agents; None if the hub counts none."""
        self._directory = directory
        self._block.figures = figures
        self.registry.connect(
            Connection(
                directory=directory,
                configured=directory.configured,
                configured_handles=directory.configured_handles,
                grace_s=lambda: directory.settings.server.drain_s,
            )
        )
        self._use(lambda: directory.settings)
        self.views = AgentViews(registry=self.registry, directory=directory, figures=figures)
        return AgentsApi(self.registry, self.agents, self.views, cards)

    def work_alone(self, settings: Settings) -> None:
        """Change agents without a gateway that serves them."""
        configured = {folded(handle): handle for handle in settings.agents}
        self.registry.configured = lambda handle: configured.get(folded(handle), "")
        self._use(lambda: settings)
        self.views = AgentViews(registry=self.registry, directory=None)

    def _use(self, in_force: Callable[[], Settings]) -> None:
        self.agents = AgentChanges(
            registry=self.registry,
            checks=RegistryChecks(in_force),
            clock=self._clock,
            ids=Uuid4Ids(),
            owner_backends=self._settings.owner_backends,
            calling_backends=CALLING_KINDS,
            on_deleted=self.on_deleted,
        )

    async def _is_online(self, handle: str) -> bool:
        return self._directory is not None and await self._directory.is_online(handle)
