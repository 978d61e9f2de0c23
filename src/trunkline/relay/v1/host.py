"""`V1Host`: keeps an agent of this gateway attached to a relay that speaks protocol v1.

Such a relay does not say who calls, so all of its callers are one principal here. It takes one
agent for each token, and has neither streams nor cancellation.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import TrunklineError
from trunkline.model.principal import Grant, Principal
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL, WebSocketClosed
from trunkline.protocol.errors import wire
from trunkline.protocol.relay.addresses import path_of
from trunkline.protocol.relay.close_codes import FORBIDDEN, GOING_AWAY, Close
from trunkline.protocol.relay.v1 import frames as v1
from trunkline.protocol.relay.v1.agent_session import Asked, Greeted, V1AgentSession
from trunkline.protocol.relay.v1.calls import INTERNAL_ERROR, answer_of, failed, read_call
from trunkline.protocol.versions import Version
from trunkline.relay.carrier import Socket
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.in_process import Answer, App, call

_log: Final = logging.getLogger("trunkline.relay")

_TICK_S: Final = 1.0
# As many requests as a host takes over protocol v2.
MAX_REQUESTS: Final = 256
_TOO_MANY: Final = v1.ErrorPayload(
    INTERNAL_ERROR, f"the agent has {MAX_REQUESTS} requests under way; try again later"
)
_STOPS: Final = v1.ErrorPayload(INTERNAL_ERROR, "the agent is about to stop; try again later")
_NO_CARD: Final = b"{}"
_CARD: Final = "/.well-known/agent.json"


class V1HostSettings(Struct, frozen=True, kw_only=True):
    # Host and port of the relay.
    relay: str
    # The handle of each agent here, by its name at the relay: tenant and id.
    agents: Mapping[str, str]
    # What the callers of the relay may call; None means all operations.
    operations: frozenset[str] | None = None


class V1Host:
    def __init__(
        self,
        settings: V1HostSettings,
        *,
        app: App,
        callers: RelayedCallers,
        tasks: BackgroundTasks,
        clock: Clock,
        on_greeted: Callable[[], None] = lambda: None,
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        """`app` serves the requests. `on_greeted` learns that the relay has taken the agent, and
        `on_request` of each request."""
        # The agent that can be called through the relay now; empty if there is none.
        self.attached = ""
        self.is_draining = False
        self._settings = settings
        self._app = app
        self._callers = callers
        self.tasks: Final = tasks
        self.clock: Final = clock
        self._on_greeted = on_greeted
        self._on_request = on_request

    async def carry(self, socket: Socket, token: str) -> Close:
        """Serve the requests that come over the socket until it is closed. Returns how."""
        if len(self._settings.agents) != 1:
            close = Close(
                FORBIDDEN,
                "a relay of protocol v1 takes one agent for each token: name one in [relay]",
            )
            await socket.close(close.code, close.reason)
            return close
        session = V1AgentSession(
            agent=self._agent,
            token=token,
            card=await self._card(),
            now=self.clock.monotonic(),
        )
        try:
            return await _Connection(self, socket, session).carry()
        finally:
            self.attached = ""

    def drain(self) -> None:
        """Take no more requests. The connection is closed once those under way have ended."""
        self.is_draining = True

    async def serve(self, request: v1.RequestPayload) -> v1.ResponsePayload:
        self._on_request()
        try:
            rpc = read_call(request)
        except TrunklineError as error:
            return failed(request.id, v1.ErrorPayload(wire(error).code, error.message))
        headers = {b"content-type": b"application/json", b"a2a-version": rpc.version.encode()}
        # A relay that leaves it out, or says 0, has no time of its own.
        timeout_s = (request.timeout_ms or v1.DEFAULT_TIMEOUT_MS) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._call("POST", "", headers, rpc.body)
            return answer_of(request.id, answer.body)
        except TimeoutError:
            text = (
                f"the agent needs longer than {timeout_s:g} s; "
                "its task continues, and ListTasks shows it"
            )
        except Exception:  # noqa: BLE001 - logged here; the client learns nothing of it
            _log.exception("a relayed request failed", extra={"agent": self._agent})
            text = "internal error"
        return failed(request.id, v1.ErrorPayload(INTERNAL_ERROR, text))

    async def _card(self) -> bytes:
        answer = await self._call("GET", _CARD, {b"a2a-version": Version.V0_3.encode()})
        # An agent that speaks A2A 1.0 alone has no card of 0.3.
        if answer.status != HTTPStatus.OK:
            answer = await self._call("GET", _CARD, {})
        return answer.body if answer.status == HTTPStatus.OK and answer.body else _NO_CARD

    async def _call(
        self, method: str, below: str, headers: Mapping[bytes, bytes], body: bytes = b""
    ) -> Answer:
        credential = self._callers.admit(self._principal)
        try:
            return await call(
                self._app,
                method,
                f"{path_of(self._agent)}{below}",
                headers={**headers, b"authorization": credential},
                body=body,
            )
        finally:
            self._callers.leave(credential)

    @property
    def _agent(self) -> str:
        return next(iter(self._settings.agents))

    @property
    def _principal(self) -> Principal:
        settings = self._settings
        tenant = self._agent.partition("/")[0]
        return Principal(
            id=f"relay:{settings.relay}/{tenant}",
            grants=(Grant(settings.agents[self._agent], settings.operations),),
        )

    def greeted(self, agent: str) -> None:
        self.attached = agent
        _log.info(
            "attached to a relay of protocol v1, which does not tell its callers apart",
            extra={"agents": agent, "principal": self._principal.id},
        )
        self._on_greeted()


class _Connection:
    def __init__(self, host: V1Host, socket: Socket, session: V1AgentSession) -> None:
        self._host = host
        self._socket = socket
        self._session = session
        self._has_output = asyncio.Event()
        self._is_open = True

    async def carry(self) -> Close:
        helpers = (
            self._host.tasks.start(self._write(), name="write to a relay"),
            self._host.tasks.start(self._tick(), name="tick"),
        )
        close = Close(ABNORMAL, "")
        try:
            while True:
                self._session.receive(await self._socket.receive())
                self._flush()
        except WebSocketClosed as closed:
            close = Close(closed.code, self._session.trouble or closed.reason)
        finally:
            self._is_open = False
            for helper in helpers:
                helper.cancel()
        return self._session.closing or close

    def _flush(self) -> None:
        for event in self._session.take_events():
            match event:
                case Greeted(agent):
                    self._host.greeted(agent)
                case Asked(request) if self._host.is_draining:
                    self._session.answer(failed(request.id, _STOPS))
                case Asked(request) if len(self._session.asked) > MAX_REQUESTS:
                    self._session.answer(failed(request.id, _TOO_MANY))
                case Asked(request):
                    # In order of arrival; each runs by itself from then on.
                    self._host.tasks.spawn(self._serve(request), name="relayed request")
        self._has_output.set()

    async def _serve(self, request: v1.RequestPayload) -> None:
        answer = await self._host.serve(request)
        if not self._is_open:
            _log.warning(
                "the connection to the relay was lost before an answer could be sent; "
                "the task of the request is kept",
                extra={"request": request.id, "method": request.method[:64]},
            )
            return
        self._session.answer(answer)
        self._flush()

    async def _write(self) -> None:
        """The one writer of the socket."""
        try:
            while True:
                self._has_output.clear()
                for message in self._session.take_output():
                    await self._socket.send(message)
                if (closing := self._session.closing) is not None:
                    await self._socket.close(closing.code, closing.reason)
                    return
                await self._has_output.wait()
        except WebSocketClosed:
            # Whoever reads from it learns the same.
            return

    async def _tick(self) -> None:
        while True:
            await self._host.clock.sleep(_TICK_S)
            self._session.tick(self._host.clock.monotonic())
            if self._host.is_draining and not self._session.asked:
                self._session.closing = Close(GOING_AWAY, "the agent stops")
            self._flush()
