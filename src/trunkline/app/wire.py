"""`Wire`: the wire log of a gateway and the faults, connected with its agents."""

from collections.abc import Sequence

from trunkline.api.api import Api
from trunkline.app.directory import AgentDirectory
from trunkline.clock import Uuid7Ids
from trunkline.config.masking import KnownSecrets
from trunkline.config.secret import secrets_in
from trunkline.console.wire.control import WireControl
from trunkline.console.wire.faults_api import FaultsApi
from trunkline.console.wire.findings import findings_of
from trunkline.console.wire.log import WireLog
from trunkline.console.wire.masking import Masker
from trunkline.console.wire.recorded_agents import AgentName
from trunkline.console.wire.wire_api import WireApi
from trunkline.hub.agent_views import configured_id
from trunkline.hub.registry import Registry
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import Tap
from trunkline.settings import Settings
from trunkline.settings.server import is_loopback_host


class Wire:
    """Made before the agents, whose backends take what their connections look at."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self.secrets = KnownSecrets(secrets_in(settings))
        self.log = WireLog(
            max_bytes=settings.console.wire_bytes,
            masker=Masker(self.secrets),
            clock=clock,
            ids=Uuid7Ids(),
        )
        self.control = WireControl(self.log, clock=clock)
        self._clock = clock

    def connect(self, api: Api, directory: AgentDirectory, registry: Registry | None) -> None:
        def give(handle: str, tap: Tap | None) -> None:
            for endpoint in directory.endpoints_of(handle):
                endpoint.tap = tap

        self.control.on_change = give
        agents = PublishedAgents(directory, registry)
        self.api = WireApi(
            self.log,
            self.control,
            agents,
            clock=self._clock,
            gateway=lambda: directory.base_url,
            check=findings_of,
        )
        faults = FaultsApi(
            self.control, agents, why_refused=lambda: why_no_faults(directory.settings)
        )
        api.add(*self.api.routes(), *faults.routes())

    async def close(self) -> None:
        await self.control.close()


def why_no_faults(settings: Settings) -> str:
    """Why operators cannot inject faults; empty if they can."""
    host = settings.server.host
    if is_loopback_host(host):
        return ""
    return (
        f"Faults can be injected only where the gateway listens on loopback, and this one listens "
        f'on {host}: try it on a gateway with server.host = "127.0.0.1"'
    )


class PublishedAgents:
    """It implements `console.recorded_agents.KnowsAgents`."""

    def __init__(self, directory: AgentDirectory, registry: Registry | None) -> None:
        self._directory = directory
        self._registry = registry

    def list(self) -> Sequence[AgentName]:
        ids: dict[str, str] = {}
        if self._registry is not None:
            ids = {row.handle: row.id for row in self._registry.rows()}
        return [
            AgentName(id=ids.get(handle) or configured_id(handle), handle=handle)
            for handle in (listed.handle for listed in self._directory.list())
        ]

    async def find(self, agent_id: str) -> AgentName | None:
        if self._registry is not None:
            await self._registry.current()
            row = self._registry.find(agent_id)
            if row is not None:
                return AgentName(id=row.id, handle=row.handle)
        for listed in self._directory.list():
            if configured_id(listed.handle) == agent_id:
                return AgentName(id=agent_id, handle=listed.handle)
        return None
