"""`Host`: keeps the agents of this gateway attached to a relay."""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL
from trunkline.protocol.relay.addresses import address_of
from trunkline.protocol.relay.close_codes import FATAL, NORMAL, Close
from trunkline.protocol.relay.events import (
    Draining,
    HostEvent,
    Leased,
    Opened,
    TokenWanted,
    Welcomed,
)
from trunkline.protocol.relay.frames import SUBPROTOCOL
from trunkline.protocol.relay.host_session import HostSession
from trunkline.protocol.relay.reconnects import Reconnects
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.carrier import Carrier, Socket
from trunkline.relay.dialing import DialFailed
from trunkline.relay.exchanges import App, Exchange
from trunkline.relay.relayed_callers import RelayedCallers, principal_of
from trunkline.relay.v1_host import V1Host, V1HostSettings

_log: Final = logging.getLogger("trunkline.relay")

_TICK_S: Final = 1.0


class HostState(StrEnum):
    CONNECTING = "connecting"
    ATTACHED = "attached"
    # The relay does not want this host again, as it is configured.
    REFUSED = "refused"


class HostSettings(Struct, frozen=True, kw_only=True):
    # ws:// or wss://, where the relay takes hosts.
    url: str
    # The handle of each agent here, by its name at the relay: tenant and id.
    agents: Mapping[str, str]
    # "auto" goes by what the relay chooses.
    protocol: Literal["auto", "v2", "v1"] = "auto"
    # What the callers of a relay of protocol v1 may call; None means all operations.
    v1_operations: frozenset[str] | None = None
    session: SessionSettings = SessionSettings()

    @property
    def relay(self) -> str:
        """Tells the callers of this relay from those of others."""
        return urlsplit(self.url).netloc


class Host:
    def __init__(
        self,
        settings: HostSettings,
        *,
        app: App,
        callers: RelayedCallers,
        token: Callable[[], Awaitable[str]],
        clock: Clock,
        dial: Callable[[str, str], Awaitable[Socket]],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`app` serves the requests. `token` is asked before each attempt, and when the last one is
        about to end."""
        self.state = HostState.CONNECTING
        # Why there is no connection, for people.
        self.trouble = ""
        self._settings = settings
        self._app = app
        self._callers = callers
        self._token = token
        self._clock = clock
        self._dial = dial
        self._chance = chance
        self._tasks = BackgroundTasks("host of a relay")
        self._reconnects = Reconnects()
        self._is_stopping = False
        self.session: Final = HostSession(
            settings.session, now=clock.monotonic(), agents=[*settings.agents]
        )
        self._carrier: Final = Carrier(
            self.session, clock=clock, tasks=self._tasks, on_event=self._on_event
        )
        self._v1: Final = V1Host(
            V1HostSettings(
                relay=settings.relay, agents=settings.agents, operations=settings.v1_operations
            ),
            app=app,
            callers=callers,
            tasks=self._tasks,
            clock=clock,
            on_greeted=self._attached,
        )

    @property
    def attached_agents(self) -> Mapping[str, int]:
        """The agents that can be called through the relay now, each with the epoch of its lease. A
        relay of protocol v1 gives no leases."""
        if self._v1.attached:
            return {self._v1.attached: 0}
        return self.session.leases if self.session.is_connected else {}

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")
        self._tasks.spawn(self._run(), name="keep a relay")

    async def drain(self, *, grace_s: float) -> None:
        """Take no more requests, and wait until those under way have ended."""
        self._is_stopping = True
        until = self._clock.monotonic() + grace_s
        self.session.drain(grace_s, self._clock.monotonic())
        self._carrier.flush()
        self._v1.drain()
        while self._clock.monotonic() < until and (self.session.is_connected or self._v1.attached):
            await self._clock.sleep(_TICK_S)

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self) -> None:
        while not self._is_stopping:
            retry_after_s = 0.0
            try:
                token = await self._token()
                socket = await self._dial(self._settings.url, token)
            except DialFailed as failed:
                close = Close(failed.code, failed.message)
                retry_after_s = failed.retry_after_s
            else:
                close = await self._carry(socket, token)
            if close.code in FATAL:
                self.state, self.trouble = HostState.REFUSED, close.reason
                _log.error(
                    "the relay refuses this host, which does not try again",
                    extra={"code": close.code, "reason": close.reason},
                )
                return
            self.state, self.trouble = HostState.CONNECTING, close.reason
            wait_s = self._reconnects.failed(
                self._clock.monotonic(), self._chance(), retry_after_s=retry_after_s
            )
            _log.warning(
                "there is no connection to the relay",
                extra={"reason": close.reason, "code": close.code, "next_try_s": round(wait_s, 1)},
            )
            await self._clock.sleep(wait_s)

    async def _carry(self, socket: Socket, token: str) -> Close:
        if socket.subprotocol == SUBPROTOCOL:
            self.session.connect(self._clock.monotonic())
            return await self._carrier.carry(socket)
        if self._settings.protocol != "v2":
            return await self._v1.carry(socket, token)
        await socket.close(NORMAL, "")
        return Close(ABNORMAL, f"what answers there does not speak {SUBPROTOCOL}")

    def _attached(self) -> None:
        self._reconnects.connected(self._clock.monotonic())
        self.state, self.trouble = HostState.ATTACHED, ""

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            self._carrier.tick()

    def _on_event(self, event: HostEvent) -> None:
        match event:
            case Opened():
                # Here and not in the task, so that the pieces behind it find their stream.
                exchange = Exchange(self._carrier, event)
                self._tasks.spawn(self._serve(exchange, event), name="relayed request")
            case Welcomed(is_resumed):
                self._attached()
                _log.info("connected to the relay", extra={"resumed": is_resumed})
            case Leased(epochs):
                _log.info("attached to the relay", extra={"agents": ", ".join(epochs)})
            case TokenWanted():
                self._tasks.spawn(self._reauthenticate(), name="new token")
            case Draining(within_s):
                _log.info("the relay is about to stop", extra={"within_s": within_s})
            case _:
                return

    async def _serve(self, exchange: Exchange, opened: Opened) -> None:
        handle = self._settings.agents.get(opened.agent, "")
        address = address_of(unquote(opened.target.partition("?")[0]))
        is_address = address is not None and address.agent == opened.agent
        # RFC 9112, 3.2: a target is in ASCII, whatever else it stands for.
        if not handle or not is_address or not opened.target.isascii():
            # The relay reaches the agents that were offered to it, and nothing else of the gateway.
            exchange.refuse("nothing of the agent is at this address")
            return
        principal = principal_of(opened.caller, relay=self._settings.relay, handle=handle)
        credential = self._callers.admit(principal)
        try:
            await exchange.serve(self._app, credential)
        finally:
            self._callers.leave(credential)

    async def _reauthenticate(self) -> None:
        self.session.reauthenticate(await self._token())
        self._carrier.flush()
