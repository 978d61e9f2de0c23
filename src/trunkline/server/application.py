"""Which path goes where. The A2A paths come first and cost one look-up each."""

from collections.abc import Iterable, Mapping

from starlette.applications import Starlette

from trunkline.model.errors import RouteNotFound
from trunkline.protocol import rest
from trunkline.protocol.versions import Version
from trunkline.server.bindings import Bindings
from trunkline.server.cards import Cards
from trunkline.server.endpoint import Endpoint
from trunkline.server.exchange import JsonRpcExchange, RestExchange, rest_path
from trunkline.server.http import Receive, Request, Scope, Send, answer


class Application:
    """The ASGI application, for the root of a server: cards advertise absolute paths."""

    def __init__(
        self,
        *,
        endpoints: Iterable[Endpoint],
        bindings: Bindings,
        cards: Cards,
        pages: Starlette,
        page_paths: Iterable[str],
        idle: Mapping[str, bytes] | None = None,
    ) -> None:
        """`idle` has the addresses of agents that do not run, and what is answered there."""
        self._bindings = bindings
        self._cards = cards
        self._pages = pages
        self._page_paths = frozenset(page_paths)
        self._jsonrpc: dict[str, Endpoint] = {}
        self._rest: dict[str, Endpoint] = {}
        self._card_paths: dict[str, Endpoint] = {}
        self._idle = dict(idle or {})
        self._no_files: bytes | None = None
        # Endpoints of one agent may share an address; the one that comes first is preferred.
        for endpoint in endpoints:
            self._jsonrpc.setdefault(endpoint.jsonrpc_path, endpoint)
            if endpoint.rest_path is not None:
                self._jsonrpc.setdefault(endpoint.jsonrpc_path + "/", endpoint)
                self._rest.setdefault(endpoint.rest_path, endpoint)
            for path in endpoint.card_paths:
                self._card_paths.setdefault(path, endpoint)
            self._no_files = self._no_files or endpoint.not_found
        self._longest_prefix = max(map(len, [*self._rest, *self._idle]), default=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Lifespan and anything to come: Starlette knows what to do.
            await self._pages(scope, receive, send)
            return
        request = Request(scope, receive)
        path = request.path
        endpoint = self._jsonrpc.get(path)
        if endpoint is not None:
            if endpoint.not_found is not None and request.method != "POST":
                await answer(send, 404, endpoint.not_found)
                return
            exchange = JsonRpcExchange(endpoint.default_version)
            await self._bindings.serve(endpoint, exchange, request, send)
        elif (endpoint := self._card_paths.get(path)) is not None:
            if endpoint.not_found is not None and request.method not in ("GET", "HEAD"):
                await answer(send, 404, endpoint.not_found)
                return
            await self._cards.serve(endpoint, request, send)
        elif path in self._page_paths:
            await self._pages(scope, receive, send)
        else:
            await self._serve_rest(request, send)

    async def _serve_rest(self, request: Request, send: Send) -> None:
        prefix = self._prefix(request.path)
        if prefix is not None and prefix in self._idle:
            await answer(send, 503, self._idle[prefix])
            return
        if prefix is not None:
            exchange = RestExchange(rest_path(request, prefix))
            await self._bindings.serve(self._rest[prefix], exchange, request, send)
            return
        if self._no_files is not None and request.path.startswith("/a2a/files/"):
            await answer(send, 404, self._no_files)
            return
        known = ", ".join(sorted(self._card_paths))
        error = RouteNotFound(f"Nothing is served at this path; agent cards are at {known}")
        status, body = rest.error(error, Version.V1_0)
        await answer(send, status, body)

    def _prefix(self, path: str) -> str | None:
        """The address that the path is, or is below of."""
        if path in self._idle:
            return path
        end = path.find("/", 1)
        # Looking no further than an address can go keeps a path of slashes cheap.
        while 0 < end <= self._longest_prefix:
            if path[:end] in self._rest or path[:end] in self._idle:
                return path[:end]
            end = path.find("/", end + 1)
        return "" if "" in self._rest else None
