"""`RelayWorld`: a relay with hosts in one process, on a wire in memory and a clock that stands
still."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct, field
from tests.bindings.asgi import Answer, App, Asgi, Http
from tests.relay.polling_wire import POLLING_PATH, PollingWire
from tests.relay.wire import Wire

from trunkline.background import BackgroundTasks
from trunkline.model.errors import Unauthenticated
from trunkline.model.principal import Grant, Principal
from trunkline.ports.authenticator import Headers
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.admission import Admission
from trunkline.relay.hosts.attachment import SessionAttachment
from trunkline.relay.hosts.host import Host, HostSettings
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.hosts.transports import Transports
from trunkline.relay.policies import AgentPolicies
from trunkline.relay.polling.polling import PollingHosts
from trunkline.relay.relay import Relay, RelaySettings
from trunkline.relay.requests import Receive, RelayedRequests, Scope
from trunkline.relay.sockets import HostSockets
from trunkline.testing import FakeClock, settle

AGENT = "acme/helper"
# The principals at the relay, by their tokens.
PRINCIPALS = {
    "alice-token": Principal(id="alice", grants=(Grant("acme/*"),)),
    "bob-token": Principal(id="bob", grants=(Grant("other/*"),)),
    "reader-token": Principal(id="reader", grants=(Grant(AGENT, frozenset({"GetTask"})),)),
    "host-token": Principal(id="host", roles=("attach:acme/*",)),
    "other-host-token": Principal(id="other-host", roles=("attach:acme/*",)),
}

# How hosts reach the relay, unless a test says otherwise.
usual_transport = "websocket"


class RelayWorld:
    def __init__(
        self,
        settings: RelaySettings,
        *,
        max_body_bytes: int = 10_000_000,
        policies: AgentPolicies | None = None,
        transport: str = "websocket",
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.principals = dict(PRINCIPALS)
        self.tasks = BackgroundTasks("relay world")
        self.admission = admission = Admission(self.identify, clock=self.clock)
        self.relay = Relay(settings, admission=admission, clock=self.clock)
        sockets = HostSockets(self.relay, admission=admission, clock=self.clock)
        self.polling = PollingHosts(
            self.relay,
            sockets=sockets,
            admission=admission,
            clock=self.clock,
            path=POLLING_PATH,
        )
        self.wire: Wire | PollingWire
        if transport == "websocket":
            self.wire = Wire(sockets.mount, self.tasks)
        else:
            self.wire = PollingWire(self.polling, clock=self.clock, tasks=self.tasks)
        self.requests = RelayedRequests(
            self.relay,
            identify=self._identify_client,
            tasks=self.tasks,
            max_body_bytes=max_body_bytes,
            policies=policies or AgentPolicies(),
        )
        self.http = Asgi(self.requests)
        self.hosts: list[Host] = []
        # The tokens that hosts have now in place of those with which they were attached.
        self.renewed: dict[str, str] = {}
        # Closed after the hosts.
        self.others: list[Transports] = []

    async def identify(self, headers: Headers, _: str = "") -> Principal | None:
        credential = headers.get(b"authorization", b"").decode()
        if not credential:
            return None
        principal = self.principals.get(credential.removeprefix("Bearer "))
        if principal is None:
            raise Unauthenticated("The token is not known here", has_credential=True)
        return principal

    async def _identify_client(self, scope: Scope, receive: Receive) -> Principal:
        principal = await self.identify(dict(scope["headers"]))
        if principal is None:
            raise Unauthenticated("This relay needs a token")
        return principal

    async def attach(
        self,
        app: App,
        *,
        token: str = "host-token",
        agents: Mapping[str, str] | None = None,
        callers: RelayedCallers | None = None,
        session: SessionSettings | None = None,
    ) -> Host:
        """A host, once it has its agents. The last one counts."""

        async def provider() -> str:
            return self.renewed.get(token, token)

        settings = HostSettings(
            url="wss://relay.example/agent",
            agents={AGENT: "me/helper"} if agents is None else agents,
            session=session or SessionSettings(),
        )
        host = Host(
            settings,
            app=app,
            callers=callers or RelayedCallers(),
            token=provider,
            clock=self.clock,
            dial=self.wire.dial,
            chance=lambda: 1.0,
        )
        self.hosts.append(host)
        host.start()
        await settle()
        return host

    async def send(self, request: Http) -> Answer:
        return await self.http.send(request)

    async def close(self) -> None:
        for host in self.hosts:
            await host.close()
        for other in self.others:
            await other.close()
        await self.polling.close()
        await self.relay.close()
        await self.tasks.close()


def newest(host: Host) -> SessionAttachment:
    assert host.newest is not None
    return host.newest


class Get(Struct, kw_only=True):
    """A request to the agent, by its caller."""

    below: str = ""
    token: str = "alice-token"
    method: str = "GET"
    agent: str = AGENT
    body: bytes | list[bytes] = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def http(self) -> Http:
        tenant, _, id = self.agent.partition("/")
        credential = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return Http(
            method=self.method,
            path=f"/t/{tenant}/a2a/{id}{self.below}",
            headers=credential | self.headers,
            body=self.body,
        )


@asynccontextmanager
async def open_relay(
    settings: RelaySettings | None = None,
    *,
    max_body_bytes: int = 10_000_000,
    policies: AgentPolicies | None = None,
    transport: str = "",
    clock: FakeClock | None = None,
) -> AsyncIterator[RelayWorld]:
    world = RelayWorld(
        settings or RelaySettings(),
        max_body_bytes=max_body_bytes,
        policies=policies or AgentPolicies(),
        transport=transport or usual_transport,
        clock=clock,
    )
    world.relay.start()
    world.polling.start()
    try:
        yield world
    finally:
        await world.close()
        await settle()
