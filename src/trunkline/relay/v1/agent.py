"""`V1Agent`: an agent that speaks protocol v1, attached to the relay of this process.

Towards the relay it is a host with one agent, whose connection is in memory. So leases, limits,
the mailbox and other nodes are the same for agents of both protocols.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

from trunkline.background import BackgroundTasks
from trunkline.model.card import AgentCard
from trunkline.model.errors import CallerError, TooManyRequests, TrunklineError
from trunkline.model.principal import Grant, Principal
from trunkline.ports.clock import Clock
from trunkline.protocol.cards import etag
from trunkline.protocol.relay import deliveries
from trunkline.protocol.relay.addresses import address_of
from trunkline.protocol.relay.close_codes import NORMAL, Close
from trunkline.protocol.relay.events import Cancelled, HostEvent, Leased, Opened, Piece
from trunkline.protocol.relay.frames import Limits
from trunkline.protocol.relay.host_session import HostSession
from trunkline.protocol.relay.session import SessionSettings
from trunkline.protocol.relay.v1.relay_session import MAX_PENDING
from trunkline.relay.carrier import Carrier, OpenStream, Socket
from trunkline.relay.hosts.exchanges import Exchange
from trunkline.relay.known_agents import FORMS, CardCopy, KnownAgents
from trunkline.relay.loopback import socket_pair
from trunkline.relay.requests import Receive, RelayedRequest, Scope, Send
from trunkline.relay.v1.operations import V1Operations

# Time for the relay to give the agent its lease.
LEASE_S: Final = 10.0
# Requests whose agent has left have their errors at once, and this long to be sent to the relay.
_ERRORS_S: Final = 1.0
_CARD_PATHS: Final = frozenset(
    {"/.well-known/agent-card.json", "/.well-known/agent.json", "/agent-card.json"}
)
_SETTINGS: Final = SessionSettings(limits=Limits(max_streams=MAX_PENDING))


class Bindings(Protocol):
    """Serves requests in every version and binding of A2A."""

    async def serve(
        self, request: RelayedRequest, operations: V1Operations, card: AgentCard | None, /
    ) -> None: ...


class V1Agent:
    def __init__(
        self,
        agent: str,
        operations: V1Operations,
        *,
        card: bytes,
        decoded_card: AgentCard | None,
        bindings: Bindings,
        known: KnownAgents,
        clock: Clock,
    ) -> None:
        """`agent` is tenant and id at the relay. `card` is what clients get, also from `known`."""
        self._known = known
        self._agent = agent
        self._operations = operations
        self._card = card
        self._decoded_card = decoded_card
        self._bindings = bindings
        self._tasks = BackgroundTasks("agent of protocol v1")
        self._requests: set[asyncio.Task[None]] = set()
        self._leased = asyncio.Event()
        self._is_leaving = False
        session = HostSession(_SETTINGS, now=clock.monotonic(), agents=[agent])
        self._carrier = Carrier(session, clock=clock, tasks=self._tasks, on_event=self._on_event)
        self._clock = clock
        self._end, self._relay_end = socket_pair()
        self._attaching: asyncio.Task[None] | None = None

    def tick(self) -> None:
        self._carrier.tick()

    def attach(self, attach: Callable[[Socket], Awaitable[None]]) -> asyncio.Task[Close]:
        """Connect to the relay. The task ends when the relay ends the session, and tells how."""
        self._carrier.session.connect(self._clock.monotonic())
        self._attaching = self._tasks.start(_until_closed(attach, self._relay_end), name="attach")
        return self._tasks.start(self._carrier.carry(self._end), name="carry")

    async def leased(self) -> None:
        """Once the relay sends requests for the agent here, and knows its card."""
        await self._leased.wait()
        # The relay would ask for it, and the agent may leave before that.
        copy = CardCopy(body=self._card, etag=etag(self._card))
        await self._known.remember(self._agent, dict.fromkeys(FORMS, copy))

    async def leave(self) -> None:
        """The agent is gone, and its requests have failed."""
        self._is_leaving = True
        if self._requests:
            await asyncio.wait(self._requests, timeout=_ERRORS_S)
        # Here and not by the carrier, which would be too late for the end of the connection.
        for message in self._carrier.session.take_output():
            await self._end.send(message)

    async def close(self) -> None:
        await self._end.close(NORMAL, "the agent has left")
        if self._attaching is not None:
            # The relay reads what was sent, and then the end.
            await asyncio.wait({self._attaching}, timeout=_ERRORS_S)
        await self._tasks.close()

    def _on_event(self, event: HostEvent) -> None:
        match event:
            case Opened() if self._is_leaving:
                stream = self._carrier.stream(event.stream)
                stream.cancel("refused", "the agent has left")
                stream.close()
            case Opened(task=""):
                # Here and not in the task, so that the pieces behind it find their stream.
                exchange = Exchange(self._carrier, event)
                app = partial(self._serve, event)
                self._start(exchange.serve(app, b""), name="request for an older agent")
            case Opened():
                stream = self._carrier.stream(event.stream)
                self._start(self._deliver(event, stream), name="delivery to an older agent")
            case Leased(epochs) if self._agent in epochs:
                self._leased.set()
            case _:
                return

    def _start(self, work: Any, *, name: str) -> None:
        task = self._tasks.start(work, name=name)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _serve(self, opened: Opened, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope["path"])
        if address is None or address.agent != self._agent:
            # The relay has no other requests for this session.
            raise ValueError(f"a request for {scope['path']!r} came to {self._agent}")
        body, has_more = b"", True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, has_more = body + message["body"], message["more_body"]
        if scope["method"] in ("GET", "HEAD") and address.below in _CARD_PATHS:
            await self._send_card(send)
            return
        operations = opened.caller.operations
        principal = Principal(
            id=opened.caller.id,
            grants=(Grant(self._agent, None if operations is None else frozenset(operations)),),
            chain=opened.caller.chain,
        )
        request = RelayedRequest(
            scope=scope,
            receive=receive,
            send=send,
            address=address,
            principal=principal,
            caller=opened.caller,
            body=body,
        )
        await self._bindings.serve(request, self._operations, self._decoded_card)

    async def _send_card(self, send: Send) -> None:
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self._card)),
            (b"etag", etag(self._card).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self._card})

    async def _deliver(self, opened: Opened, stream: OpenStream) -> None:
        """Accept a message from the mailbox once the agent has answered it, because nothing else
        says that the agent got it."""
        session = self._carrier.session
        try:
            body = await _body(stream)
            if body is None:
                return
            status, text = await self._taken(opened, body)
            if stream.end is not None:
                # The relay has not waited, and delivers the message again.
                return
            if status == HTTPStatus.NO_CONTENT:
                session.accept(opened.stream)
            session.answer(
                opened.stream, status=status, headers=[], data=text.encode(), is_last=True
            )
            self._carrier.flush()
        finally:
            stream.close()

    async def _taken(self, opened: Opened, body: bytes) -> tuple[int, str]:
        """The status of the answer to a delivery, and its text."""
        try:
            delivery = deliveries.decode(body, task_id=opened.task)
            await self._operations.deliver(opened.caller.id, delivery)
        except CallerError as error:
            is_temporary = isinstance(error, TooManyRequests)
            status = HTTPStatus.SERVICE_UNAVAILABLE if is_temporary else HTTPStatus.BAD_REQUEST
            return status, error.message
        except TrunklineError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, error.message
        return HTTPStatus.NO_CONTENT, ""


async def _body(stream: OpenStream) -> bytes | None:
    pieces: list[bytes] = []
    while True:
        event = await stream.next()
        if isinstance(event, Cancelled):
            return None
        assert isinstance(event, Piece)
        pieces.append(event.data)
        if event.is_last:
            return b"".join(pieces)


async def _until_closed(attach: Callable[[Socket], Awaitable[None]], socket: Socket) -> None:
    try:
        await attach(socket)
    finally:
        await socket.close(NORMAL, "the relay has left")
