"""`Application`: the routing by path. The A2A paths come first and cost one look-up each; mounts
serve other prefixes."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from starlette.applications import Starlette

from trunkline.model.errors import RouteNotFound, StoreError, TrunklineError
from trunkline.ports.directory import Standing
from trunkline.ports.websocket import WebSocketMount
from trunkline.ports.wire_log import Binding, Tap
from trunkline.protocol import rest
from trunkline.protocol.ai_catalog import PATH as CATALOG_PATH
from trunkline.protocol.versions import Version
from trunkline.server.a2a import A2AHandler, error_headers, for_client
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Receive, Scope, Send, serve_with
from trunkline.server.asgi_websocket import serve_websocket
from trunkline.server.calls import JsonRpcCall, RestCall
from trunkline.server.cards import Cards
from trunkline.server.endpoint import Endpoint
from trunkline.server.http import Handler, Request, Response
from trunkline.server.standing import NotServed, identify, renew
from trunkline.server.tapping import Tapped
from trunkline.server.websocket import WebSocketEndpoint

# The request of an agent's card, as the wire log names it.
CARD_OPERATION: Final = "GetAgentCard"


class Idle(Struct, frozen=True, kw_only=True):
    """Addresses of agents that do not run, with the bodies of their responses."""

    at: Mapping[str, bytes] = {}
    below: Mapping[str, bytes] = {}


class Application:
    """It must be at the root of a server, because cards advertise absolute paths.

    `serve` answers one request. The object itself is an ASGI application.
    """

    def __init__(
        self,
        *,
        endpoints: Iterable[Endpoint],
        a2a: A2AHandler,
        cards: Cards,
        pages: Starlette,
        page_paths: Iterable[str],
        idle: Idle | None = None,
    ) -> None:
        self._a2a = a2a
        self._cards = cards
        self._pages = pages
        self._page_paths = frozenset(page_paths)
        self._jsonrpc: dict[str, Endpoint] = {}
        self._rest: dict[str, Endpoint] = {}
        self._card_paths: dict[str, Endpoint] = {}
        self._idle = idle or Idle()
        self._mounts: dict[str, Handler] = {}
        # The bodies of a 404 below `/a2a/files/`, of the endpoints that have one.
        self._no_files: dict[Endpoint, bytes] = {}
        # It never falls, because a maximum that is too large costs little.
        self._longest_prefix = max(map(len, self._idle.below), default=0)
        self.add(endpoints)

    def add(self, endpoints: Iterable[Endpoint]) -> None:
        """Serve the endpoints of an agent from the next request on."""
        # Endpoints of one agent may share an address; the one that comes first is preferred.
        for endpoint in endpoints:
            for table, path in self._addresses(endpoint):
                table.setdefault(path, endpoint)
            if endpoint.rest_path is not None:
                self._longest_prefix = max(self._longest_prefix, len(endpoint.rest_path))
            if endpoint.not_found is not None:
                self._no_files[endpoint] = endpoint.not_found

    def remove(self, endpoints: Iterable[Endpoint], *, but: Iterable[Endpoint] = ()) -> None:
        """Answer at the addresses of an agent as where no agent is, from the next request on. The
        addresses that it shares with the endpoints in `but` stay."""
        stay = {(id(table), path) for each in but for table, path in self._addresses(each)}
        for endpoint in endpoints:
            for table, path in self._addresses(endpoint):
                if table.get(path) is endpoint and (id(table), path) not in stay:
                    del table[path]
            self._no_files.pop(endpoint, None)

    def taken(self, endpoints: Iterable[Endpoint]) -> Endpoint | None:
        """An endpoint of another agent that has an address of these."""
        for endpoint in endpoints:
            for table, path in self._addresses(endpoint):
                there = table.get(path)
                if there is not None and there.agent.handle != endpoint.agent.handle:
                    return there
        return None

    def endpoint_at(self, path: str) -> Endpoint | None:
        """The endpoint whose JSON-RPC is at the path."""
        return self._jsonrpc.get(path)

    def _addresses(self, endpoint: Endpoint) -> Iterator[tuple[dict[str, Endpoint], str]]:
        yield self._jsonrpc, endpoint.jsonrpc_path
        if endpoint.rest_path is not None:
            yield self._jsonrpc, endpoint.jsonrpc_path + "/"
            yield self._rest, endpoint.rest_path
        for path in endpoint.card_paths:
            yield self._card_paths, path

    def configure(
        self, *, a2a: A2AHandler, pages: Starlette, page_paths: Iterable[str], idle: Idle
    ) -> None:
        """Serve the next requests by other settings."""
        self._a2a, self._pages = a2a, pages
        self._page_paths, self._idle = frozenset(page_paths), idle
        self._longest_prefix = max(self._longest_prefix, *map(len, idle.below), 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self.takes_websocket(scope["path"]):
            await serve_websocket(self.serve, scope, receive, send)
        elif scope["type"] != "http" or scope["path"] in self._page_paths:
            # Starlette handles the lifespan, the pages and scopes of other types.
            await self._pages(scope, receive, send)
        else:
            await self.serve(AsgiRequest.of(scope, receive), AsgiResponse(send))

    def serve(self, request: Request, response: Response) -> Awaitable[None]:
        path, method = request.path, request.method
        endpoint = self._jsonrpc.get(path)
        if endpoint is not None:
            if endpoint.tap is not None:
                return self._serve_tapped(endpoint, endpoint.tap, request, response)
            if endpoint.not_found is not None and method != "POST":
                return response.answer(404, endpoint.not_found)
            dialects = endpoint.dialects
            call = JsonRpcCall(endpoint, dialects.jsonrpc[dialects.default])
            serve = self._a2a.serve if endpoint.standing is None else self._serve_standing
            return serve(call, request, response)
        if (endpoint := self._card_paths.get(path)) is not None:
            if endpoint.tap is None and endpoint.standing is None and endpoint.not_found is None:
                return self._cards.serve(endpoint, request, response)
            return self._serve_card(endpoint, request, response)
        if path in self._page_paths:
            return serve_with(self._pages, request, response)
        prefix = self._prefix(path)
        refusal = self._idle.at.get(path) or self._idle.below.get(prefix or "")
        if refusal is not None:
            return response.answer(503, refusal)
        if prefix in self._mounts:
            return self._mounts[prefix](request, response)
        if prefix is not None:
            endpoint = self._rest[prefix]
            if endpoint.tap is not None:
                return self._serve_tapped(endpoint, endpoint.tap, request, response, prefix=prefix)
            rest_call = RestCall(endpoint, prefix, request)
            serve = self._a2a.serve if endpoint.standing is None else self._serve_standing
            return serve(rest_call, request, response)
        return self._answer_not_served(path, response)

    async def _serve_tapped(
        self,
        endpoint: Endpoint,
        tap: Tap,
        request: Request,
        response: Response,
        *,
        prefix: str | None = None,
    ) -> None:
        """Serve a call as without the tap, which sees what comes and goes. `prefix` is that of
        HTTP+JSON."""
        binding: Binding = "jsonrpc" if prefix is None else "rest"
        tapped = Tapped(tap, binding, request, response)
        request, response = tapped.request, tapped.response
        call: JsonRpcCall | RestCall
        try:
            if prefix is not None:
                call = RestCall(endpoint, prefix, request)
            elif endpoint.not_found is not None and request.method != "POST":
                await response.answer(404, endpoint.not_found)
                return
            else:
                dialects = endpoint.dialects
                call = JsonRpcCall(endpoint, dialects.jsonrpc[dialects.default])
            tapped.response.call = call
            serve = self._a2a.serve if endpoint.standing is None else self._serve_standing
            await serve(call, request, response)
        finally:
            tapped.end()

    async def serve_absent(
        self, renew: Callable[[], Awaitable[None]], request: Request, response: Response
    ) -> None:
        """Answer at an address of a registry at which it has no agent. `renew` brings the registry
        up to date and raises StoreError: an agent that another gateway has published may be there
        then, or one that nobody may know of."""
        try:
            await renew()
        except StoreError as error:
            await self._answer_not_served(request.path, response, error)
        else:
            await self._answer_not_served(request.path, response)

    def serve_nothing(self, request: Request, response: Response) -> Awaitable[None]:
        """Answer as where nothing is."""
        return self._answer_not_served(request.path, response)

    def _answer_not_served(
        self, path: str, response: Response, unsure: StoreError | None = None
    ) -> Awaitable[None]:
        if unsure is not None:
            error = for_client(unsure)
            headers = error_headers(error)
            return response.answer(*rest.error(error, Version.V1_0), headers=headers)
        if self._no_files and path.startswith("/a2a/files/"):
            return response.answer(404, next(iter(self._no_files.values())))
        # Without the agents of a registry, which not everyone may know.
        known = ", ".join(sorted(p for p, e in self._card_paths.items() if e.standing is None))
        where = f"agent cards are at {known}" if known else f"agents are listed at {CATALOG_PATH}"
        absent = RouteNotFound(f"Nothing is served at this path; {where}")
        return response.answer(*rest.error(absent, Version.V1_0))

    async def _serve_standing(
        self, call: JsonRpcCall | RestCall, request: Request, response: Response
    ) -> None:
        try:
            await self._a2a.serve(call, request, response)
        except NotServed as unserved:
            await self._answer_not_served(request.path, response, unserved.error)

    async def _serve_card(self, endpoint: Endpoint, request: Request, response: Response) -> None:
        """Serve the card of an agent for which there is more to do than that."""
        tapped: Tapped | None = None
        if endpoint.tap is not None:
            tapped = Tapped(endpoint.tap, "http", request, response)
            tapped.response.card_operation = CARD_OPERATION
            request, response = tapped.request, tapped.response
        try:
            if endpoint.not_found is not None and request.method not in ("GET", "HEAD"):
                await response.answer(404, endpoint.not_found)
            elif endpoint.standing is not None:
                await self._serve_standing_card(endpoint, endpoint.standing, request, response)
            else:
                await self._cards.serve(endpoint, request, response)
        finally:
            if tapped is not None:
                tapped.end()

    async def _serve_standing_card(
        self, endpoint: Endpoint, standing: Standing, request: Request, response: Response
    ) -> None:
        try:
            # First, because the agent may have become private.
            await renew(standing)
            if standing.is_private:
                await identify(endpoint, standing, self._a2a.access, request, None)
        except NotServed as unserved:
            await self._answer_not_served(request.path, response, unserved.error)
        except StoreError as error:
            await self._answer_not_served(request.path, response, error)
        except TrunklineError as error:
            await response.answer(
                *rest.error(for_client(error), Version.V1_0), headers=error_headers(error)
            )
        else:
            await self._cards.serve(endpoint, request, response)

    def mount(self, prefix: str, mounted: Handler | WebSocketMount) -> None:
        """Serve a handler or a WebSocket at the path `prefix` and all paths below it, from now on.

        The longest prefix wins, and the addresses of agents count as prefixes too. The prefix `/`
        is that path alone, unless an agent has it.
        """
        if not prefix.startswith("/") or (prefix.endswith("/") and prefix != "/"):
            raise ValueError(f"a prefix starts with a slash and ends without one: {prefix!r}")
        if prefix in self._mounts:
            raise ValueError(f"something else is mounted at {prefix}; unmount it first")
        if isinstance(mounted, WebSocketMount):
            mounted = WebSocketEndpoint(mounted)
        self._mounts[prefix] = mounted
        self._longest_prefix = max(self._longest_prefix, len(prefix))

    def unmount(self, prefix: str) -> None:
        """Requests that are being served go on. Raises KeyError if nothing is mounted there."""
        del self._mounts[prefix]

    def takes_websocket(self, path: str) -> bool:
        """Whether a WebSocket is mounted where the path belongs to."""
        return isinstance(self._mounts.get(self._prefix(path) or ""), WebSocketEndpoint)

    def _prefix(self, path: str) -> str | None:
        """The longest prefix of the path that something is served below."""
        if path in self._mounts:
            return path
        # Prefixes longer than any address are not tried, so that a path of many slashes stays
        # cheap.
        end = path.rfind("/", 1, self._longest_prefix + 1)
        # `/` is no prefix of `//x`.
        while end > 1:
            prefix = path[:end]
            if prefix in self._rest or prefix in self._mounts or prefix in self._idle.below:
                return prefix
            end = path.rfind("/", 1, end)
        return "" if "" in self._rest else None
