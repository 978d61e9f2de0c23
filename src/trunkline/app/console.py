"""`GatewayConsole`: the page of a gateway, put together and connected with the server."""

import ipaddress
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace
from starlette.requests import Request

from trunkline.api.api import Api, Route
from trunkline.api.gateway_view import NodeView, SignIn
from trunkline.app.front import Front
from trunkline.app.nodes import NodeInfo, node_info, this_gateway
from trunkline.app.postgres import read_nodes
from trunkline.app.runtimes import Runtimes
from trunkline.console.page.authenticator import ConsoleAuthenticator
from trunkline.console.page.codes import CODE_S, OneUseCodes
from trunkline.console.page.cookies import cookie_name
from trunkline.console.page.files import StaticFiles
from trunkline.console.page.gateway_api import GatewayApi, GatewayFacts
from trunkline.console.page.pages import FOLDER_PATH, ConsolePages
from trunkline.console.page.session_api import SessionApi
from trunkline.console.page.sessions import ConsoleSessions, is_console
from trunkline.model.errors import PermissionDenied
from trunkline.model.principal import ANONYMOUS, EVERYTHING, OPERATOR, Principal
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock
from trunkline.runtime.due_work import DueKind
from trunkline.server.access import check_origin, is_direct, is_loopback
from trunkline.server.asgi import AsgiRequest, serve_with
from trunkline.server.http import Request as HttpRequest
from trunkline.server.http import Response as HttpResponse
from trunkline.server.http import hostname_of
from trunkline.settings import Settings
from trunkline.settings.server import is_loopback_host
from trunkline.settings.stores import place_of

# The operator of a gateway that asks every caller for a credential. API keys have no colon.
_OPERATOR: Final = Principal(id="console:operator", grants=EVERYTHING, roles=(OPERATOR,))
_ANONYMOUS: Final = replace(ANONYMOUS, roles=(OPERATOR,))


class GatewayConsole:
    """Made before the runtimes, which take its due work; `connect` comes after the front is
    there."""

    def __init__(
        self,
        settings: Settings,
        *,
        main: Callable[[], Runtimes],
        clock: Clock,
        base_url: str,
        local_url: str,
    ) -> None:
        """`local_url` is where programs on this machine reach the gateway; empty where nothing
        listens."""
        self._settings = settings
        self._started_ms = clock.now_ms()
        self._main = main
        self.clock = clock
        self._base_url = base_url
        self._local_url = local_url
        port = urlsplit(local_url).port if local_url else None
        self.cookie = cookie_name(port or settings.server.port)
        self.codes = OneUseCodes(clock)
        self._keys: Mapping[str, Principal] = {}
        self._follow(settings)
        self.sessions = ConsoleSessions(
            open_main=lambda: main().main_store(),
            is_shared=self._is_shared,
            operator=lambda: self._operator,
            keys=lambda: self._keys,
            clock=clock,
        )
        self.authenticator = ConsoleAuthenticator(
            self.sessions, cookie=self.cookie, is_own_host=self.is_own_host
        )
        self._pages = ConsolePages(
            StaticFiles(),
            codes=self.codes,
            sessions=self.sessions,
            cookie=self.cookie,
            is_own_host=self.is_own_host,
            is_direct=_is_direct,
        )
        self.session_api = SessionApi(
            self.sessions,
            cookie=self.cookie,
            is_secure=self._is_secure,
            check_page=self._check_page,
            is_key=lambda digest: digest in self._keys,
            clock=clock,
        )

    def due_kinds(self) -> Sequence[DueKind]:
        return (self.sessions.due_kind(),)

    def connect(self, front: Front) -> None:
        self._front = front
        front.on_apply(lambda: self._follow(front.settings))
        serve = partial(serve_with, self._pages)

        def serve_root(request: HttpRequest, response: HttpResponse) -> Awaitable[None]:
            # Clients of A2A that were given the base URL learn where the cards are.
            if request.method in ("GET", "HEAD") and _takes_html(request):
                return serve(request, response)
            return front.application.serve_nothing(request, response)

        front.application.mount("/", serve_root)
        front.application.mount(FOLDER_PATH, serve)

    def routes(self, api: Api) -> Iterator[Route]:
        """Those that the interface does not have from a hub."""
        self._api = api
        yield from self.session_api.routes(known=[route.name for route in api.routes])
        yield from GatewayApi(self._facts, self._nodes).routes()

    def url(self, valid_s: float = CODE_S) -> str:
        """A URL that opens the page once, on this machine. Empty where nothing listens there."""
        if not self._local_url or not self.is_on_loopback:
            return ""
        return f"{self._local_url}/?code={self.codes.new(valid_s)}"

    @property
    def is_on_loopback(self) -> bool:
        """Whether a browser on this machine reaches the gateway at a loopback address."""
        return is_loopback_host(urlsplit(self._local_url).hostname or "")

    def is_own_host(self, host: bytes) -> bool:
        if is_loopback(host):
            return True
        name = hostname_of(host)
        if not name:
            return False
        if name in self._hosts:
            return True
        return self._takes_addresses and _is_address(name)

    def _follow(self, settings: Settings) -> None:
        """Follow the settings in force."""
        self._settings = settings
        keys = settings.auth.principals()
        if settings.hub is None:
            # As at each request with a key: without a hub, none of them manages the gateway.
            keys = {digest: replace(each, roles=()) for digest, each in keys.items()}
        self._keys = keys
        self._hosts = frozenset(
            name.lower().rstrip(".") for name in (*settings.public_hosts(), *settings.console.hosts)
        )
        # A page cannot make its own name lead to an address by its digits alone.
        self._takes_addresses = not is_loopback_host(settings.server.host)
        # The page, `curl` and the command line then see the same tasks.
        is_open = settings.allows_anonymous() and not settings.is_exposed()
        self._operator = _ANONYMOUS if is_open else _OPERATOR

    def _check_page(self, request: Request) -> None:
        """Raises PermissionDenied for a request that is not of a page of this gateway."""
        asked = AsgiRequest.of(request.scope, request.receive)
        if not self.is_own_host(asked.headers.get(b"host", b"")):
            raise PermissionDenied("The page is not served under this host name")
        check_origin(asked, self._hosts)

    def _is_secure(self, request: Request) -> bool:
        host = request.headers.get("host", "").encode("latin-1")
        return self._base_url.startswith("https://") and not is_loopback(host)

    def _is_shared(self) -> bool:
        main = self._main().main
        return main is not None and main.is_shared

    async def _nodes(self) -> list[NodeView]:
        """The gateways that share the main store. Raises StoreError."""
        itself = this_gateway(self._started_ms)
        found = [itself]
        if self._is_shared() and self._settings.store.kind == "postgres":
            lease_s = self._settings.cluster.lease_s
            rows = await read_nodes(self._settings.store)
            found = [node_info(row, lease_s=lease_s) for row in rows]
        return [_node_view(each, itself) for each in found]

    async def _facts(self, is_operator: bool) -> GatewayFacts:
        settings = self._settings
        routes = [route for route in self._api.routes if route.path]
        has_keys = bool(settings.auth.keys) and settings.is_exposed()
        sign_in: SignIn = "hub" if settings.hub is not None else "key" if has_keys else "code"
        return GatewayFacts(
            sign_in=sign_in,
            hub=settings.hub is not None,
            # The first segments of the routes, such as `agents`.
            features={
                **dict.fromkeys((route.path.split("/")[1] for route in routes), True),
                "visits": settings.console.visits != "never",
            },
            public_url=self._base_url,
            store=", ".join(map(place_of, settings.stores())) or "none",
            nodes=sum(node.is_alive for node in await self._nodes()) if is_operator else 1,
            problems=[*self._front.problems()],
            anonymous=settings.allows_anonymous(),
            faults=not settings.is_exposed(),
            visits=settings.console.visits,
        )


def _node_view(node: NodeInfo, itself: NodeInfo) -> NodeView:
    return NodeView(
        node=node.node,
        host=node.host,
        pid=node.pid,
        release=node.release,
        started_at=format_timestamp(node.started_ms),
        is_alive=node.is_alive,
        beat_ago_s=node.beat_ago_s,
        lanes=node.lanes,
        is_here=node.is_alive and (node.host, node.pid) == (itself.host, itself.pid),
    )


def _is_direct(request: Request) -> bool:
    return is_direct(AsgiRequest.of(request.scope, request.receive))


def _takes_html(request: HttpRequest) -> bool:
    accept = request.headers.get(b"accept", b"*/*").lower()
    return b"text/html" in accept or b"*/*" in accept or b"text/*" in accept


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


__all__ = ["GatewayConsole", "is_console"]
