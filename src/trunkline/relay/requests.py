"""`RelayedRequests`: the ASGI application that takes requests to agents of hosts.

It reads no A2A: whatever a client sends below the address of an agent goes to the host as it is.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.engine.access import operations_of
from trunkline.model.errors import (
    InvalidAgentResponse,
    PayloadTooLarge,
    PermissionDenied,
    RouteNotFound,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
    Unavailable,
)
from trunkline.model.principal import Grant, Principal
from trunkline.protocol import jsonrpc, rest, sse
from trunkline.protocol.errors import http_status_for_jsonrpc
from trunkline.protocol.relay import headers
from trunkline.protocol.relay.addresses import CARD_PATHS, Address, address_of
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Piece
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.protocol.relay.whole_events import WholeEvents
from trunkline.protocol.versions import Version
from trunkline.relay.carrier import OpenStream, StreamCancelled, StreamEvent
from trunkline.relay.host_calls import not_attached, why_ended
from trunkline.relay.policies import AgentPolicies
from trunkline.relay.relay import Attached, Relay, Way

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

# What one caller may have under way at one host: half of what the host takes, unless it says less.
MAX_PER_HOST: Final = 128
# The same at all hosts together. Each holds up to a window of the stream in memory.
MAX_PER_CALLER: Final = 1024
_RETRY_AFTER_S: Final = 5
# On a card: whether the agent is attached.
PRESENCE: Final = b"trunkline-presence"
_POLICIES: Final = AgentPolicies()
_STATUSES: Final = frozenset(map(int, HTTPStatus))
# What a path may hold, and characters that clients send although it may not.
_SAFE: Final = "/%:@!$&'()*+,;=~-._\"<>[]\\^`{|}"
_SAFE_IN_QUERIES: Final = f"{_SAFE}?"


class RelayedRequest(Struct, kw_only=True, eq=False):
    """A request to an agent of the relay, with its whole body."""

    scope: Scope
    # What is left to receive is that the client leaves.
    receive: Receive
    send: Send
    address: Address
    principal: Principal
    # The principal as the host gets it.
    caller: Caller
    body: bytes


class AtRelay(Protocol):
    """Answers requests at the relay, in place of their agent."""

    def concerns(self, agent: str) -> bool:
        """Whether a request to the agent may have to be answered here although the agent is
        attached. Called for each request."""
        ...

    async def returned(self, agent: str) -> bool:
        """Wait for an agent that is away, if requests to it do. Returns whether it is back."""
        ...

    async def answer(self, request: RelayedRequest, *, is_away: bool) -> bool:
        """Answer the request, unless it is for the agent alone. `is_away`: the agent cannot be
        reached now. Raises TrunklineError, which becomes the answer."""
        ...


class RelayedRequests:
    def __init__(
        self,
        relay: Relay,
        *,
        identify: Callable[[Scope, Receive], Awaitable[Principal]],
        tasks: BackgroundTasks,
        max_body_bytes: int,
        policies: AgentPolicies = _POLICIES,
        at_relay: AtRelay | None = None,
    ) -> None:
        """`identify` raises as `Access.identify` does."""
        self._at_relay = at_relay
        self._relay = relay
        self._identify = identify
        self._tasks = tasks
        self._max_body_bytes = max_body_bytes
        self._policies = policies
        # How many requests are under way of each caller, and of each caller and session.
        self._under_way: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope["path"])
        try:
            if address is None:
                raise RouteNotFound("Agents of the relay are at /t/TENANT/a2a/AGENT")
            principal = await self._identify(scope, receive)
            caller = _caller(principal, address.agent)
            body = await whole_body(receive, max_bytes=self._max_body_bytes)
            if body is None:
                return
            request = RelayedRequest(
                scope=scope,
                receive=receive,
                send=send,
                address=address,
                principal=principal,
                caller=caller,
                body=body,
            )
            with self._counted(caller, "this relay", at_most=MAX_PER_CALLER):
                await self._serve(request)
        except TrunklineError as error:
            await refuse(send, address, error)

    async def serve_passed_on(
        self, scope: Scope, receive: Receive, send: Send, *, caller: Caller, way: Way
    ) -> None:
        """Serve a request that another node has passed on, for a caller that it has identified, and
        whose agent this node may have to answer for. `way` is that to the agent from here."""
        address = address_of(scope["path"])
        try:
            body = await whole_body(receive, max_bytes=self._max_body_bytes)
            if address is None or body is None:
                return
            request = RelayedRequest(
                scope=scope,
                receive=receive,
                send=send,
                address=address,
                principal=_principal(caller, address.agent),
                caller=caller,
                body=body,
            )
            with self.counted_at_host(caller, way):
                if not await self._is_answered_here(request):
                    await self._exchange(request, way, may_repeat=False)
        except TrunklineError as error:
            await refuse(send, address, error)

    def passes_unread(self, agent: str, caller: Caller, way: Way) -> bool:
        """Whether a request goes to the host as it is, and nothing is to be answered here."""
        if self._at_relay is not None and self._at_relay.concerns(agent):
            return False
        return self._under_way[caller.id, way.host_session] < MAX_PER_HOST

    async def _is_answered_here(self, request: RelayedRequest) -> bool:
        at_relay = self._at_relay
        return (
            at_relay is not None
            and at_relay.concerns(request.address.agent)
            and await at_relay.answer(request, is_away=False)
        )

    async def _serve(self, request: RelayedRequest) -> None:
        agent, at_relay = request.address.agent, self._at_relay
        refused = ""
        for may_repeat in (True, False):
            way = await self._way(agent, refused=refused)
            if way is None:
                break
            # Another node that has the agent looks itself what waits for it.
            if isinstance(way, Attached) and await self._is_answered_here(request):
                return
            with self.counted_at_host(request.caller, way):
                if await self._exchange(request, way, may_repeat=may_repeat):
                    return
            refused = way.host_session
        # A message that waited at a relay which stops would wait longer than it has to.
        has_moved = self._relay.has_moved(agent)
        if not has_moved and at_relay and await at_relay.answer(request, is_away=True):
            return
        raise not_attached()

    def counted_at_host(self, caller: Caller, way: Way) -> AbstractContextManager[None]:
        """Raises TooManyRequests for a caller who would keep the others from the agent."""
        session = way.host_session
        return self._counted(caller, "this agent", at_most=MAX_PER_HOST, session=session)

    async def _way(self, agent: str, *, refused: str) -> Way | None:
        """The way to the agent, as long as a request waits for it; another one than that to the
        session of a host that has refused it. Raises Unavailable."""
        within_s = self._policies.of(agent).wait_s
        way = await self._relay.connected(agent, within_s=within_s, refused=refused)
        if way is None and self._at_relay is not None and await self._at_relay.returned(agent):
            way = await self._relay.connected(agent, within_s=within_s)
        return way

    @contextmanager
    def _counted(
        self, caller: Caller, where: str, *, at_most: int, session: str = ""
    ) -> Iterator[None]:
        """Raises TooManyRequests for a caller who would keep the others out."""
        key = (caller.id, session)
        if self._under_way[key] >= at_most:
            raise TooManyRequests(
                f"You have {at_most} requests under way at {where}; wait for some of them to end",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    async def _exchange(self, request: RelayedRequest, way: Way, *, may_repeat: bool) -> bool:
        """False if the request has certainly not begun, and may be repeated."""
        stream, rest_of_body = _open(request, way)
        watcher = self._tasks.start(
            _upload(request.receive, stream, rest_of_body), name="send a request to a host"
        )
        try:
            event = await stream.next()
            while isinstance(event, Accepted):
                event = await stream.next()
            if may_repeat and isinstance(event, Cancelled) and event.is_unsent:
                # The next attempt waits for the client to leave, too.
                watcher.cancel()
                await asyncio.wait({watcher})
                return False
            await self._download(request.send, stream, request.address, event)
            return True
        finally:
            watcher.cancel()
            stream.close()

    async def _download(
        self, send: Send, stream: OpenStream, address: Address, event: StreamEvent
    ) -> None:
        """`event` is the first one."""
        if isinstance(event, Cancelled):
            raise why_ended(event)
        assert isinstance(event, Answered)
        if event.status not in _STATUSES:
            raise InvalidAgentResponse(f"The host answered with the status {event.status}")
        head = headers.of_response(event.headers, status=event.status)
        if address.below in CARD_PATHS and event.status < 400:
            head.append((PRESENCE, b"online"))
        await send({"type": "http.response.start", "status": event.status, "headers": head})
        is_stream = dict(head).get(b"content-type", b"").startswith(b"text/event-stream")
        events = WholeEvents() if is_stream else None
        while True:
            piece = await stream.next()
            if isinstance(piece, Cancelled):
                break
            assert isinstance(piece, Piece)
            data = piece.data
            if events is not None:
                data = events.feed(data) + (events.rest if piece.is_last else b"")
            if data or piece.is_last:
                more = not piece.is_last
                await send({"type": "http.response.body", "body": data, "more_body": more})
            if piece.is_last:
                return
        # The client has to learn that something is missing. Other responses than streams have a
        # length, or their connection is closed; so is that of a stream within a large event.
        if events is not None and not events.is_torn:
            frame = _error_frame(address, why_ended(piece))
            await send({"type": "http.response.body", "body": frame, "more_body": False})


def _caller(principal: Principal, agent: str) -> Caller:
    """Nothing here depends on whether the agent exists. Raises PermissionDenied."""
    operations = operations_of(principal, agent)
    if operations is not None and not operations:
        raise PermissionDenied(
            f"This credential may not call the agent {agent}; ask the operator of the relay to "
            "grant it"
        )
    return Caller(
        id=principal.id,
        operations=None if operations is None else tuple(sorted(operations)),
        chain=principal.chain,
    )


def _principal(caller: Caller, agent: str) -> Principal:
    operations = None if caller.operations is None else frozenset(caller.operations)
    return Principal(id=caller.id, grants=(Grant(agent, operations),), chain=caller.chain)


def _open(request: RelayedRequest, way: Way) -> tuple[OpenStream, bytes]:
    """The stream, and what of the body is still to be sent. Raises Unavailable."""
    scope, body = request.scope, request.body
    room = way.session.first_room
    try:
        number = way.session.open(
            agent=request.address.agent,
            caller=request.caller,
            method=scope["method"],
            target=_target(scope),
            headers=headers.of_request(scope["headers"]),
            data=body[:room],
            is_last=len(body) <= room,
        )
    except CannotOpen as error:
        raise Unavailable(
            f"The agent takes no request now: {error}", retry_after_s=_RETRY_AFTER_S
        ) from None
    stream = way.carrier.stream(number)
    way.carrier.flush()
    return stream, body[room:]


async def whole_body(receive: Receive, *, max_bytes: int) -> bytes | None:
    """The whole body, because an agent begins with nothing less; None if the client leaves. Raises
    PayloadTooLarge."""
    pieces: list[bytes] = []
    size, has_more = 0, True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        size, has_more = size + len(pieces[-1]), message.get("more_body", False)
        if size > max_bytes:
            raise PayloadTooLarge(f"The request body is larger than {max_bytes} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _upload(receive: Receive, stream: OpenStream, rest_of_body: bytes) -> None:
    """Send the rest of the body, and then wait for the client to leave."""
    try:
        if rest_of_body:
            await stream.write(rest_of_body, is_last=True)
        while (await receive())["type"] != "http.disconnect":
            pass
    except StreamCancelled:
        return
    stream.cancel("closed", "the client has left")


def _target(scope: Scope) -> str:
    """Path and query in ASCII: what a client has not encoded is encoded here."""
    raw = scope.get("raw_path")
    path = quote(scope["path"] if raw is None else raw.partition(b"?")[0], safe=_SAFE)
    query = scope["query_string"]
    return f"{path}?{quote(query, safe=_SAFE_IN_QUERIES)}" if query else path


async def refuse(send: Send, address: Address | None, error: TrunklineError) -> None:
    if address is not None and address.is_jsonrpc:
        status = http_status_for_jsonrpc(error)
        body = jsonrpc.error(jsonrpc.NULL, error, Version.V1_0)
    else:
        status, body = rest.error(error, Version.V1_0)
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if isinstance(error, Unauthenticated):
        head.append((b"www-authenticate", b'Bearer realm="trunkline"'))
    if isinstance(error, TooManyRequests | Unavailable):
        head.append((b"retry-after", b"%d" % error.retry_after_s))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def _error_frame(address: Address, error: TrunklineError) -> bytes:
    if address.is_jsonrpc:
        return sse.frame(jsonrpc.error(jsonrpc.NULL, error, Version.V1_0))
    return rest.error_frame(error, Version.V1_0)
