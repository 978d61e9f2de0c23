"""`Relaying`: the relay that a gateway is for others, and the relay that it attaches its own agents
to."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from trunkline.api.api import Route
from trunkline.app.cards import Place
from trunkline.app.front import Front
from trunkline.app.relay.answers import RelayAnswers
from trunkline.app.relay.at_hub import RelayedAtHub
from trunkline.app.relay.host import RelayHost
from trunkline.app.relay.mailbox import RelayMailbox
from trunkline.app.relay.nodes import NodeParts
from trunkline.app.relay.tenants import TenantParts
from trunkline.app.relay.v1 import V1Agents
from trunkline.app.runtimes import Runtimes
from trunkline.background import BackgroundTasks
from trunkline.model.errors import Unavailable
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure, Labelled
from trunkline.ports.websocket import WebSocket
from trunkline.protocol.relay.addresses import PREFIX
from trunkline.protocol.relay.polling import CONNECTIONS_PATH
from trunkline.relay.admission import Admission
from trunkline.relay.attached_agents import AttachedAgent, attached_agents
from trunkline.relay.hosts.host import HostStatus
from trunkline.relay.mailbox.queued_tasks import due_kind
from trunkline.relay.nodes import lease_records
from trunkline.relay.operator_api import RelayApi
from trunkline.relay.polling.polling import PollingHosts
from trunkline.relay.relay import Relay
from trunkline.relay.relay import RelaySettings as Limits
from trunkline.relay.requests import RelayedRequests
from trunkline.relay.sockets import HostSockets
from trunkline.relay.v1 import tasks as v1_tasks
from trunkline.relay.v1.agent import V1Agent
from trunkline.relay.v1.connection import V1Connection
from trunkline.relay.v1.directory import V1Directory
from trunkline.relay.v1.routes import V1Routes
from trunkline.relay.v1.sockets import V1Sockets
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.runtime import Runtime
from trunkline.server.asgi import AsgiRequest, Receive, Scope, serve_with
from trunkline.server.endpoint import Limits as EndpointLimits
from trunkline.settings import Settings
from trunkline.settings.cluster import ClusterSettings
from trunkline.settings.relay import AGENT_PATH
from trunkline.settings.relay_server import RelayServerSettings


class Relaying:
    """Made before the front, which takes its authenticators; `connect` comes after the front is
    there."""

    def __init__(
        self, settings: Settings, *, clock: Clock, base_url: str, local_url: str = ""
    ) -> None:
        """Clients reach the gateway at `base_url`. `local_url` is where it listens."""
        self._clock = clock
        self._cluster = settings.cluster
        self._base_url = base_url
        self._local_url = local_url
        self._limits = EndpointLimits(
            max_body_bytes=settings.server.max_body_bytes,
            max_json_depth=settings.server.max_json_depth,
        )
        self._as_relay = settings.as_relay
        self.tenants: TenantParts | None = None
        self.mailbox: RelayMailbox | None = None
        if self._as_relay is not None:
            allow_private = settings.network.allow_private_addresses
            tokens = self._as_relay.tokens(allow_private=allow_private)
            self.tenants = TenantParts(tokens, clock=clock)
            self.mailbox = RelayMailbox(self._as_relay.policies, clock=clock)
        self._host: RelayHost | None = None
        if settings.relay is not None:
            self._host = RelayHost(settings.relay, gateway=settings, clock=clock)
        self._relay: _OwnRelay | None = None

    @property
    def authenticators(self) -> tuple[Authenticator, ...]:
        return () if self._host is None else (self._host.callers,)

    @property
    def places(self) -> Mapping[str, Sequence[Place]]:
        """Where the agents can be called at relays, by their handles."""
        return {} if self._host is None else self._host.places

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the agents at relays."""
        return tuple(
            f"{place.base_url}{place.addresses.jsonrpc}"
            for places in self.places.values()
            for place in places
        )

    @property
    def at_hub(self) -> RelayedAtHub | None:
        """The addresses of attached agents at a hub, once this is connected."""
        return None if self._relay is None else self._relay.at_hub

    @property
    def status(self) -> HostStatus | None:
        """How the gateway fares at its relay; None where it has none."""
        return None if self._host is None else self._host.status

    @property
    def is_only_way(self) -> bool:
        """Whether cards name the relay alone."""
        return self._host is not None and self._host.is_only_way

    def connect(self, front: Front) -> None:
        if self._host is not None:
            self._host.connect(front)
        if self._as_relay is not None and self.tenants is not None and self.mailbox is not None:
            self._relay = _OwnRelay(
                self._as_relay,
                self.tenants,
                self.mailbox,
                front,
                base_url=self._base_url,
                limits=self._limits,
                clock=self._clock,
                cluster=self._cluster,
                local_url=self._local_url,
            )

    def due_kinds(self) -> Sequence[DueKind]:
        """The due work of the main store."""
        if self.tenants is None or self.mailbox is None:
            return ()
        return (
            *self.tenants.due_kinds(),
            *self.mailbox.due_kinds(),
            *v1_tasks.due_kinds(),
            due_kind(),
            lease_records.due_kind(),
        )

    async def open(self, runtimes: Runtimes) -> None:
        """Raises StoreError."""
        if self._host is not None:
            self._host.open(runtimes)
        if self._relay is not None:
            assert runtimes.main is not None, "a relay needs the main store"
            await self._relay.open(runtimes.main)

    def start(self) -> None:
        for part in self._parts:
            part.start()

    async def drain(self, *, grace_s: float) -> None:
        """Take no more requests, and let those under way end."""
        await asyncio.gather(*(part.drain(grace_s=grace_s) for part in self._parts))

    async def close(self) -> None:
        for part in self._parts:
            await part.close()

    @property
    def tenant_names(self) -> tuple[str, ...]:
        """Those that the relay knows."""
        known = () if self.tenants is None else self.tenants.tenants.all()
        return tuple(each.name for each in known)

    async def attached_agents(self) -> Sequence[AttachedAgent]:
        """Those that are attached to the relay, for operators. Raises Unavailable."""
        if self._relay is None:
            return ()
        return await self._relay.attached_agents(self.tenant_names)

    def routes(self) -> Iterator[Route]:
        """Those of `/api/v1`, of a gateway that is a relay."""
        if self.mailbox is not None:
            yield from RelayApi(self.attached_agents, self.mailbox.commands).routes()

    def problems(self) -> list[str]:
        """The reasons why the gateway gets no requests, for `/readyz`."""
        return [] if self._host is None else self._host.problems()

    def notes(self) -> list[str]:
        """What `/readyz` says of a gateway that is ready."""
        return [] if self._host is None else self._host.notes()

    def figures(self) -> Iterator[Figure | Labelled]:
        for part in self._parts:
            yield from part.figures()

    @property
    def _parts(self) -> "list[_OwnRelay | RelayHost]":
        return [part for part in (self._relay, self._host) if part is not None]


class _OwnRelay:
    def __init__(
        self,
        settings: RelayServerSettings,
        tenants: TenantParts,
        mailbox: RelayMailbox,
        front: Front,
        *,
        base_url: str,
        limits: EndpointLimits,
        clock: Clock,
        cluster: ClusterSettings,
        local_url: str,
    ) -> None:
        self._base_url = base_url
        self._clock = clock
        self._answers = RelayAnswers(front, limits=limits)
        # There once the main store is open.
        self._v1_agents: V1Agents | None = None
        admission = Admission(tenants.identify_host, clock=clock)
        self._front = front
        self._tenants = tenants
        tenants.connect(front)
        self._tasks = BackgroundTasks("relayed requests")
        self._relay = Relay(Limits(), admission=admission, clock=clock)
        tenants.watch(self._relay)
        self._mailbox = mailbox
        mailbox.connect(self._relay, self._answers)
        sockets = HostSockets(
            self._relay, admission=admission, clock=clock, serve_v1=self._serve_v1
        )
        self._v1 = V1Sockets(
            admission=admission, attach=sockets.attach, make_agent=self._make_v1_agent, clock=clock
        )
        requests = RelayedRequests(
            self._relay,
            identify=self._identify,
            tasks=self._tasks,
            max_body_bytes=limits.max_body_bytes,
            policies=settings.policies,
            at_relay=mailbox,
        )
        self.at_hub = RelayedAtHub(
            requests, identify=self._tenants.identify_caller, is_known=self._is_known
        )
        self._nodes = NodeParts(
            self._relay, requests, cluster=cluster, local_url=local_url, clock=clock
        )
        polling_path = f"{AGENT_PATH}{CONNECTIONS_PATH}"
        self._polling = PollingHosts(
            self._relay, sockets=sockets, admission=admission, clock=clock, path=polling_path
        )
        front.application.mount(AGENT_PATH, sockets.mount)
        front.application.mount(polling_path, partial(serve_with, self._polling))
        directory = V1Directory(
            requests,
            identify=self._identify,
            relay=self._relay,
            known=mailbox.known,
            store=lambda: mailbox.mailboxes.store,
        )
        routes = V1Routes(directory, identify=self._identify, max_body_bytes=limits.max_body_bytes)
        front.application.mount(PREFIX, partial(serve_with, routes))

    async def open(self, main: Runtime) -> None:
        """Raises StoreError."""
        await self._tenants.open(main)
        await self._nodes.open(main, self._front)
        self._v1_agents = V1Agents(
            self._answers,
            store=await main.main.open(),
            large_values=main.service.large_values,
            known=self._mailbox.known,
            base_url=self._base_url,
            clock=self._clock,
        )
        await self._mailbox.open(main)

    def start(self) -> None:
        self._relay.start()
        self._v1.start()
        self._polling.start()
        self._nodes.start()

    async def drain(self, *, grace_s: float) -> None:
        await self._relay.drain(grace_s=grace_s)
        await self._nodes.drain(grace_s=grace_s)

    async def close(self) -> None:
        await self._polling.close()
        await self._v1.close()
        if self._v1_agents is not None:
            await self._v1_agents.close()
        await self._nodes.close()
        await self._relay.close()
        await self._mailbox.close()
        await self._tenants.close()
        await self._tasks.close()

    async def attached_agents(self, tenants: Iterable[str]) -> Sequence[AttachedAgent]:
        return await attached_agents(self._relay, tenants)

    def figures(self) -> Iterator[Figure]:
        relay = self._relay
        yield "trunkline_relay_agents", "Agents that are attached here.", relay.attached_agents
        yield "trunkline_relay_sessions", "Sessions with gateways that attach.", relay.sessions
        yield "trunkline_relay_v1_agents", "Attached agents of protocol v1.", len(self._v1)
        polling = len(self._polling.open_sockets)
        yield "trunkline_relay_polled_connections", "Connections made of HTTP requests.", polling
        yield "trunkline_relay_requests", "Relayed requests under way.", relay.requests
        yield from self._nodes.figures()
        yield from self._mailbox.figures()

    async def _is_known(self, agent: str) -> bool:
        try:
            return await self._relay.is_attached(agent) or await self._mailbox.knows(agent)
        except Unavailable:
            return False

    async def _serve_v1(self, socket: WebSocket) -> None:
        await self._v1.serve(socket)

    def _make_v1_agent(self, agent: str, connection: V1Connection, card: bytes) -> V1Agent:
        assert self._v1_agents is not None, "the relay is not open"
        return self._v1_agents.make(agent, connection, card)

    async def _identify(self, scope: Scope, receive: Receive) -> Principal:
        return await self._tenants.identify_caller(AsgiRequest.of(scope, receive))
