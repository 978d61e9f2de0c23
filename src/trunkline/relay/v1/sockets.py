"""`V1Sockets`: takes the WebSockets of agents that speak protocol v1.

Their token comes in the first frame, so such a socket is open before it is known whose it is. What
it may cost until then is limited.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from trunkline.background import BackgroundTasks
from trunkline.engine.attempts import source_of
from trunkline.model.errors import (
    PermissionDenied,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
)
from trunkline.model.principal import ATTACH, Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import WebSocket, WebSocketClosed
from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    FORBIDDEN,
    NOT_AUTHENTICATED,
    OVER_LIMIT,
    SILENT,
    Close,
)
from trunkline.protocol.relay.frames import Violation
from trunkline.protocol.relay.v1 import frames as v1
from trunkline.protocol.relay.v1.relay_session import V1RelaySession, read_auth
from trunkline.relay.admission import Admission
from trunkline.relay.carrier import Socket
from trunkline.relay.v1.agent import LEASE_S, V1Agent
from trunkline.relay.v1.connection import V1Connection

_log: Final = logging.getLogger("trunkline.relay")

# Time for the first frame.
AUTH_S: Final = 30.0
# Sockets that have not shown a token yet: of all sources, and of one. Many agents may be behind one
# NAT and come back at the same time.
MAX_GREETING: Final = 512
MAX_GREETING_PER_SOURCE: Final = 256
_TICK_S: Final = 1.0
_EVERY: Final = "*"


class Refused(Exception):
    """The agent is not attached. The text goes into its `error` frame."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.close: Final = Close(code, text)


class MakeAgent(Protocol):
    def __call__(self, agent: str, connection: V1Connection, card: bytes, /) -> V1Agent:
        """Raises ValueError for a card that cannot be served."""
        ...


class V1Sockets:
    def __init__(
        self,
        *,
        admission: Admission,
        attach: Callable[[Socket, Headers], Awaitable[None]],
        make_agent: MakeAgent,
        clock: Clock,
        auth_s: float = AUTH_S,
    ) -> None:
        """`attach` is what takes the connections of hosts."""
        self._admission = admission
        self._attach = attach
        self._make_agent = make_agent
        self._clock = clock
        self._auth_s = auth_s
        self._agents: set[V1Agent] = set()
        self._tasks = BackgroundTasks("agents of protocol v1")
        self._greeting: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._agents)

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")

    async def close(self) -> None:
        await self._tasks.close()

    async def serve(self, socket: WebSocket) -> None:
        try:
            with self._limited(source_of(socket.peer)):
                auth = await self._auth(socket)
                principal, headers = await self._admit(auth, socket.peer)
            socket.request.caller = principal.id
            await self._carry(socket, auth, _agent_of(principal), headers)
        except Refused as refused:
            await _refuse(socket, refused.close)
        except WebSocketClosed:
            return

    @contextmanager
    def _limited(self, source: str) -> Iterator[None]:
        """Raises Refused."""
        if (
            self._greeting.total() >= MAX_GREETING
            or self._greeting[source] >= MAX_GREETING_PER_SOURCE
        ):
            raise Refused(OVER_LIMIT, "too many connections without a token; try again later")
        self._greeting[source] += 1
        try:
            yield
        finally:
            self._greeting[source] -= 1
            if not self._greeting[source]:
                del self._greeting[source]

    async def _auth(self, socket: WebSocket) -> v1.Auth:
        try:
            async with asyncio.timeout(self._auth_s):
                return read_auth(await socket.receive())
        except TimeoutError:
            raise Refused(SILENT, "auth required") from None
        except Violation as violation:
            raise Refused(violation.close.code, violation.close.reason) from None

    async def _admit(self, auth: v1.Auth, address: str) -> tuple[Principal, Headers]:
        headers = {b"authorization": b"Bearer " + auth.token.encode("utf-8", "replace")}
        try:
            return await self._admission.admit(headers, address=address), headers
        except Unauthenticated:
            raise Refused(NOT_AUTHENTICATED, "invalid token") from None
        except PermissionDenied:
            raise Refused(FORBIDDEN, "this token may not attach an agent") from None
        except TooManyRequests:
            raise Refused(OVER_LIMIT, "too many attempts; try again later") from None
        except TrunklineError:
            raise Refused(OVER_LIMIT, "the relay cannot check tokens now") from None

    async def _carry(self, socket: WebSocket, auth: v1.Auth, name: str, headers: Headers) -> None:
        connection = V1Connection(socket, V1RelaySession(prefix=secrets.token_hex(8)))
        try:
            agent = self._make_agent(name, connection, bytes(auth.agent_card))
        except ValueError as error:
            raise Refused(BAD_FRAME, str(error)) from None
        self._agents.add(agent)
        try:
            close = await self._attached(socket, agent, name, connection, headers)
        finally:
            self._agents.discard(agent)
            await agent.close()
        extra = {"agent": name, "code": close.code, "reason": close.reason}
        _log.info("an agent of protocol v1 has left", extra=extra)

    async def _attached(
        self,
        socket: WebSocket,
        agent: V1Agent,
        name: str,
        connection: V1Connection,
        headers: Headers,
    ) -> Close:
        at_relay = agent.attach(lambda end: self._attach(end, headers))
        leased = self._tasks.start(agent.leased(), name="wait for a lease")
        await asyncio.wait({at_relay, leased}, timeout=LEASE_S, return_when=_FIRST)
        is_leased = leased.done()
        leased.cancel()
        if at_relay.done():
            return await _refuse(socket, at_relay.result())
        if not is_leased:
            return await _refuse(socket, Close(SILENT, "the relay is busy; try again later"))
        tenant, _, id = name.partition("/")
        await socket.send(v1.encode(v1.AuthOk(agent_id=id, tenant=tenant)))
        connection.begin()
        _log.info("an agent of protocol v1 is attached", extra={"agent": name})
        answers = self._tasks.start(connection.serve(), name="read from an older agent")
        try:
            await asyncio.wait({at_relay, answers}, return_when=_FIRST)
        finally:
            answers.cancel()
        if answers.done():
            await agent.leave()
            # The relay may have closed it, for a frame that is none.
            return await _refuse(socket, answers.result())
        return await _refuse(socket, at_relay.result())

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            for agent in [*self._agents]:
                agent.tick()


_FIRST: Final = asyncio.FIRST_COMPLETED


def _agent_of(principal: Principal) -> str:
    """The one agent that the credential is for: the frame does not count. Raises Refused."""
    patterns = [role.removeprefix(ATTACH) for role in principal.roles if role.startswith(ATTACH)]
    if len(patterns) != 1 or _EVERY in patterns[0]:
        raise Refused(
            FORBIDDEN, "token missing required agent_id claim: it must be for one agent alone"
        )
    return patterns[0]


async def _refuse(socket: WebSocket, close: Close) -> Close:
    try:
        await socket.send(v1.encode(v1.Failed(close.reason)))
    except WebSocketClosed:
        return close
    await socket.close(close.code, close.reason)
    return close
