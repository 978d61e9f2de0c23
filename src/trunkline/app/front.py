"""`Front`: the parts that a request meets before its agent: access, limits and pages."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.applications import Starlette
from starlette.responses import Response

from trunkline.app.card_signer import JWKS_PATH, CardSigner
from trunkline.app.endpoints import idle_addresses
from trunkline.app.runtimes import Runtimes
from trunkline.app.tools import mcp_endpoint
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure, Labelled, Timed
from trunkline.protocol.ai_catalog import PATH as CATALOG_PATH
from trunkline.server.a2a import A2AHandler, OnTurnedAway
from trunkline.server.access import Access, KnownCaller
from trunkline.server.ai_catalog import AiCatalog
from trunkline.server.api_keys import ApiKeys
from trunkline.server.application import Application, Idle
from trunkline.server.asgi import App
from trunkline.server.cards import Cards
from trunkline.server.http import Request
from trunkline.server.mcp import PATH as MCP_PATH
from trunkline.server.memory_budget import MemoryBudget
from trunkline.server.metrics import Metrics
from trunkline.server.pages import PATHS, Lifespan, build_pages
from trunkline.server.streams import StreamCounts
from trunkline.settings import Settings
from trunkline.version import VERSION

if TYPE_CHECKING:
    from trunkline.server.mcp.http import McpEndpoint


class _Parts(Struct, frozen=True):
    a2a: A2AHandler
    pages: Starlette
    page_paths: tuple[str, ...]
    idle: Idle


class Front:
    """Made of the settings at the start, and again when they change."""

    def __init__(
        self,
        settings: Settings,
        *,
        runtimes: Runtimes,
        clock: Clock,
        signer: CardSigner | None,
        authenticators: Sequence[Authenticator],
        lifespan: Lifespan,
        catalog: AiCatalog,
        on_turned_away: OnTurnedAway | None = None,
        more_figures: Callable[[], Iterable[Figure | Labelled | Timed]] = tuple,
        more_problems: Callable[[], Sequence[str]] = tuple,
        notes: Callable[[], Sequence[str]] = tuple,
        page_sessions: Authenticator | None = None,
    ) -> None:
        """`on_turned_away` learns of requests to agents that were refused for their credential.
        `more_figures` are those of features, for `/metrics`, and `more_problems` their reasons to
        get no traffic, for `/readyz`, which has the `notes` while there are none. `page_sessions`
        finds the sessions of the page."""
        self._page_sessions = page_sessions
        self._more_figures = more_figures
        self._more_problems = more_problems
        self._notes = notes
        self._clock = clock
        self._runtimes = runtimes
        # Its public key has a page. Set again before `apply` if the key has changed.
        self.signer = signer
        self._authenticators = authenticators
        # Those whose principals reach agents of the relay, and nothing else.
        self._at_relay: tuple[Authenticator, ...] = ()
        self._on_apply: list[Callable[[], None]] = []
        self._lifespan = lifespan
        self._catalog = catalog
        self._on_turned_away = on_turned_away
        self._large_bodies = asyncio.Lock()
        self._streams = StreamCounts(settings.server.max_streams_per_principal)
        # The listener shares it.
        self.budget = MemoryBudget(settings.server.max_held_bytes)
        self._metrics = Metrics(self._figures)
        self.mcp: McpEndpoint | None = None
        if settings.remote.mcp:
            access = self._access_to_pages(settings)
            self.mcp = mcp_endpoint(settings, access, in_force=lambda: self._settings)
        self._settings = settings
        # Who may call without a key depends on the addresses of all agents.
        self._public_urls = settings.public_urls()
        parts = self._parts(settings)
        self.application = Application(
            endpoints=(),
            a2a=parts.a2a,
            cards=Cards(modified_ms=clock.now_ms()),
            pages=parts.pages,
            page_paths=parts.page_paths,
            idle=parts.idle,
        )

    @property
    def streams(self) -> StreamCounts:
        """The open streams of each principal, whatever they are about."""
        return self._streams

    def agents_changed(self, settings: Settings) -> None:
        """Forget the figures of agents that are gone, and follow their addresses in who may
        call."""
        self._metrics.forget_others(settings.agents)
        self._settings = settings
        if settings.public_urls() != self._public_urls:
            self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Serve the next requests by these settings."""
        self._settings = settings
        self._public_urls = settings.public_urls()
        self._streams.limit = settings.server.max_streams_per_principal
        self.budget.max_bytes = settings.server.max_held_bytes
        if self.mcp is not None:
            self.mcp.access = self._access_to_pages(settings)
        parts = self._parts(settings)
        self.application.configure(
            a2a=parts.a2a, pages=parts.pages, page_paths=parts.page_paths, idle=parts.idle
        )
        for call in self._on_apply:
            call()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings

    def problems(self) -> list[str]:
        """The reasons for which the gateway should get no traffic now."""
        return [*self._runtimes.problems(), *self._more_problems()]

    def on_apply(self, call: Callable[[], None]) -> None:
        """Have it called when other settings are in force, with other keys maybe."""
        self._on_apply.append(call)

    def take_at_relay(self, *authenticators: Authenticator) -> None:
        """Take their credentials for agents of the relay, too."""
        self._at_relay = authenticators
        self.relay_access = self._access_to_relay(self._settings)

    def _parts(self, settings: Settings) -> _Parts:
        more: dict[str, App] = {CATALOG_PATH: self._catalog}
        if self.mcp is not None:
            more[MCP_PATH] = self.mcp
        if self.signer is not None:
            more[JWKS_PATH] = Response(self.signer.jwks(), media_type="application/jwk-set+json")
        self._access_now = self._access(settings)
        self.relay_access = self._access_to_relay(settings)
        return _Parts(
            a2a=A2AHandler(
                access=self._access_now,
                streams=self._streams,
                metrics=self._metrics,
                clock=self._clock,
                logs_requests=settings.server.log_requests,
                on_turned_away=self._on_turned_away,
                large_bodies=self._large_bodies,
            ),
            pages=build_pages(
                notes=self._notes,
                problems=self.problems,
                metrics=self._metrics,
                access=self._access_to_pages(settings),
                version=VERSION,
                lifespan=self._lifespan,
                more=more,
            ),
            page_paths=(*PATHS, *more),
            idle=idle_addresses(settings),
        )

    def handler_for(self, principal: Principal) -> A2AHandler:
        """Serves one request of a caller that was found before."""
        return A2AHandler(
            access=KnownCaller(principal),
            streams=self._streams,
            metrics=self._metrics,
            clock=self._clock,
            logs_requests=self._settings.server.log_requests,
            on_turned_away=self._on_turned_away,
            large_bodies=self._large_bodies,
        )

    async def identify_if_stated(self, request: Request) -> Principal | None:
        """The principal of a request to an interface that also serves callers without a credential,
        which have none here. Raises Unauthenticated, PermissionDenied or Unavailable."""
        return await self._access_now.identify_if_stated(request)

    async def identify(self, request: Request) -> Principal:
        """The principal of a request to what is not an agent. Raises Unauthenticated,
        PermissionDenied or Unavailable."""
        return await self._access_to_pages(self._settings).identify(request)

    def _access(self, settings: Settings) -> Access:
        is_for_all = settings.auth.needs_no_key == "always"
        return Access(
            keys=_keys(settings),
            more=self._authenticators,
            allows_anonymous=settings.allows_anonymous(),
            allows_proxied=is_for_all,
            hosts=settings.public_hosts() if is_for_all else (),
            page_hosts=settings.public_hosts(),
            page_sessions=self._page_sessions,
            certificate_proxies=_certificate_proxies(settings),
        )

    def _access_to_relay(self, settings: Settings) -> Access:
        """Hosts and callers of a relay belong to many, so they need a credential also on
        loopback."""
        return Access(
            keys=_keys(settings),
            more=(*self._authenticators, *self._at_relay),
            page_hosts=settings.public_hosts(),
            certificate_proxies=_certificate_proxies(settings),
            needed="This relay needs a token",
        )

    def _access_to_pages(self, settings: Settings) -> Access:
        """A gateway that other machines can reach shows its pages only to callers with a key."""
        return Access(
            keys=_keys(settings),
            more=self._authenticators,
            allows_anonymous=settings.allows_anonymous() and not settings.is_exposed(),
            page_hosts=settings.public_hosts(),
            page_sessions=self._page_sessions,
            certificate_proxies=_certificate_proxies(settings),
        )

    def _figures(self) -> Iterator[Figure | Labelled | Timed]:
        runtimes = [*self._runtimes]
        agents = [agent for runtime in runtimes for agent in runtime.agents.values()]
        waiting = sum(agent.lanes.total_waiting for agent in agents)
        running = sum(len(runtime.runs.running) for runtime in runtimes)
        held = sum(len(runtime.registry) for runtime in runtimes)
        committed = sum(runtime.journal.committed_entries for runtime in runtimes)
        yield "trunkline_turns_running", "Turns that agents run now.", running
        yield "trunkline_turns_waiting", "Turns in the queues.", waiting
        yield "trunkline_tasks_in_memory", "Tasks that are held in memory.", held
        yield "trunkline_streams_open", "Streams that are open.", self._streams.total
        held_bytes = self.budget.held_bytes
        yield "trunkline_held_bytes", "Bytes of bodies and unread answers in memory.", held_bytes
        yield "trunkline_journal_entries_total", "Journal entries committed.", committed
        shared: dict[str, tuple[str, float]] = {}
        for runtime in runtimes:
            # Two agents may have a PostgreSQL store each.
            for name, text, value in runtime.figures():
                shared[name] = (text, value + shared.get(name, (text, 0.0))[1])
        for name, (text, value) in shared.items():
            yield name, text, value
        yield from self._more_figures()


def _certificate_proxies(settings: Settings) -> list[IPv4Network | IPv6Network] | None:
    hub = settings.hub
    if hub is None or hub.client_certificates is None:
        return None
    return [ip_network(address) for address in hub.client_certificates.trusted_proxies]


def _keys(settings: Settings) -> ApiKeys:
    return ApiKeys(settings.auth.principals(), settings.auth.schemes)
