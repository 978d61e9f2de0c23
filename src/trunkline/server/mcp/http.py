"""`McpEndpoint`: MCP as streamable HTTP, for callers that the gateway knows."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from msgspec import Struct

from trunkline.model.errors import TooManyRequests, TrunklineError, Unavailable
from trunkline.protocol import jsonrpc, rest
from trunkline.protocol.errors import wire
from trunkline.protocol.versions import Version
from trunkline.server.a2a import error_headers
from trunkline.server.access import Access, check_origin
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Message, Receive, Scope, Send
from trunkline.server.endpoint import Limits
from trunkline.server.http import Disconnected, Request
from trunkline.server.mcp.body import checked_body
from trunkline.server.mcp.tools import OpenTools, make_server

_SESSION_ID = b"mcp-session-id"
# The wait that is recommended to a caller who has too many sessions open.
RETRY_AFTER_S = 60


class McpEndpoint:
    """An ASGI application for one path. It serves requests while the context `running` is open."""

    def __init__(
        self,
        open_tools: OpenTools,
        *,
        access: Access,
        limits: Limits,
        sessions: "Sessions",
        version: str,
    ) -> None:
        self.access = access
        self._limits = limits
        self._sessions = sessions
        self._manager = StreamableHTTPSessionManager(
            make_server(open_tools, version=version),
            max_request_body_size=limits.max_body_bytes,
            session_idle_timeout=sessions.idle_s,
            # `Sessions` limits them, because the limit depends on the caller.
            max_sessions=None,
        )
        self._open: set[anyio.CancelScope] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    def stop(self) -> None:
        """End all streams, because a host may hold one open forever."""
        for scope in list(self._open):
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = AsgiRequest.of(scope, receive)
        try:
            principal = (await self.access.identify_unrestricted(request)).id
            # MCP, Transports, Security: servers must validate Origin, for every caller.
            check_origin(request, reads=True)
            if request.method == "POST":
                receive = await checked_body(request, receive, self._limits)
        except TrunklineError as error:
            status, body = rest.error(error, Version.V1_0)
            await AsgiResponse(send).answer(status, body, headers=error_headers(error))
            return
        except Disconnected:
            return
        # Only the caller that opened a session may use it.
        token = AccessToken(token="", client_id=principal, scopes=[])
        known = {**scope, "user": AuthenticatedUser(token)}
        with anyio.CancelScope() as cancelable:
            self._open.add(cancelable)
            try:
                await self._handle(request, principal, known, receive, send)
            finally:
                self._open.discard(cancelable)

    async def _handle(
        self, request: Request, principal: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        session_id = request.header(_SESSION_ID)
        status, opened = 0, None

        async def watch(message: Message) -> None:
            nonlocal status, opened
            if message["type"] == "http.response.start":
                status = message["status"]
                found = dict(message.get("headers", ())).get(_SESSION_ID)
                opened = None if found is None or status >= 400 else found.decode("latin-1")
            await send(message)

        if session_id is None:
            try:
                self._sessions.begin_opening(principal)
            except (TooManyRequests, Unavailable) as error:
                # MCP: the body of an error is a JSON-RPC response without an id.
                body = jsonrpc.error(jsonrpc.NULL, error, Version.V1_0)
                await AsgiResponse(send).answer(
                    wire(error).http, body, headers=error_headers(error)
                )
                return
            try:
                await self._manager.handle_request(scope, receive, watch)
            finally:
                self._sessions.end_opening(principal, opened)
            return
        self._sessions.enter(session_id)
        try:
            await self._manager.handle_request(scope, receive, watch)
        finally:
            self._sessions.leave(session_id)
        if request.method == "DELETE" and status == 200:
            self._sessions.end(session_id)


class _Session(Struct):
    principal: str
    used_at: float
    # The number of requests under way; an open stream is one of them.
    requests: int = 0


class Sessions(Struct, kw_only=True, eq=False):
    """A session ends when it is deleted or was not used for `idle_s`."""

    limit: int
    limit_per_caller: int
    idle_s: float
    now: Callable[[], float] = anyio.current_time
    _open: dict[str, _Session] = {}
    # Requests for a new session that are not answered yet, by caller.
    _opening: dict[str, int] = {}

    def begin_opening(self, principal: str) -> None:
        """Raises TooManyRequests or Unavailable. To be followed by `end_opening`."""
        own = self._opening.get(principal, 0)
        if self._is_too_much(own, principal, self.limit_per_caller):
            raise TooManyRequests(
                f"You have {self.limit_per_caller} MCP sessions open, which is the limit "
                "(remote.max_mcp_sessions_per_caller); end one with DELETE, or let it expire",
                retry_after_s=RETRY_AFTER_S,
            )
        if self._is_too_much(sum(self._opening.values()), None, self.limit):
            raise Unavailable(
                f"{self.limit} MCP sessions are open, which is the limit "
                "(remote.max_mcp_sessions); try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        self._opening[principal] = own + 1

    def end_opening(self, principal: str, session_id: str | None) -> None:
        """`session_id` is None when no session was opened."""
        left = self._opening.pop(principal) - 1
        if left:
            self._opening[principal] = left
        if session_id is not None:
            self._open[session_id] = _Session(principal, self.now())

    def enter(self, session_id: str) -> None:
        """Count a request of the session, if the session exists."""
        session = self._open.get(session_id)
        if session is not None:
            session.requests += 1

    def leave(self, session_id: str) -> None:
        session = self._open.get(session_id)
        if session is not None:
            session.requests -= 1
            session.used_at = self.now()

    def end(self, session_id: str) -> None:
        self._open.pop(session_id, None)

    def _is_too_much(self, opening: int, principal: str | None, limit: int) -> bool:
        """Whether one more session exceeds the limit. Expired sessions are removed only when it
        would."""
        if opening + self._count(principal) < limit:
            return False
        before = self.now() - self.idle_s
        self._open = {
            id: each for id, each in self._open.items() if each.requests or each.used_at > before
        }
        return opening + self._count(principal) >= limit

    def _count(self, principal: str | None) -> int:
        if principal is None:
            return len(self._open)
        return sum(each.principal == principal for each in self._open.values())
