"""Which path goes where. The A2A paths come first and cost one look-up each."""

from collections.abc import Iterable

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
    """An ASGI application; it can be mounted in another one."""

    def __init__(
        self,
        *,
        endpoints: Iterable[Endpoint],
        bindings: Bindings,
        cards: Cards,
        pages: Starlette,
        page_paths: Iterable[str],
    ) -> None:
        self._bindings = bindings
        self._cards = cards
        self._pages = pages
        self._page_paths = frozenset(page_paths)
        self._jsonrpc: dict[str, Endpoint] = {}
        self._rest: dict[str, Endpoint] = {}
        self._card_paths: dict[str, Endpoint] = {}
        for endpoint in endpoints:
            self._jsonrpc[endpoint.jsonrpc_path] = endpoint
            self._jsonrpc[endpoint.jsonrpc_path + "/"] = endpoint
            self._rest[endpoint.rest_path] = endpoint
            for path in endpoint.card_paths:
                self._card_paths[path] = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Lifespan and anything to come: Starlette knows what to do.
            await self._pages(scope, receive, send)
            return
        request = Request(scope, receive)
        path = request.path
        endpoint = self._jsonrpc.get(path)
        if endpoint is not None:
            exchange = JsonRpcExchange(endpoint.default_version)
            await self._bindings.serve(endpoint, exchange, request, send)
        elif (endpoint := self._card_paths.get(path)) is not None:
            await self._cards.serve(endpoint, request, send)
        elif path in self._page_paths:
            await self._pages(scope, receive, send)
        else:
            await self._serve_rest(request, send)

    async def _serve_rest(self, request: Request, send: Send) -> None:
        path = request.path
        end = path.find("/", 1)
        while end > 0:
            endpoint = self._rest.get(path[:end])
            if endpoint is not None:
                exchange = RestExchange(rest_path(request, path[:end]))
                await self._bindings.serve(endpoint, exchange, request, send)
                return
            end = path.find("/", end + 1)
        known = ", ".join(sorted(self._card_paths))
        error = RouteNotFound(f"Nothing is served at this path; agent cards are at {known}")
        status, body = rest.error(error, Version.V1_0)
        await answer(send, status, body)
