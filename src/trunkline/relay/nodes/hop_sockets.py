"""`HopSockets`: the WebSocket mount where other relay nodes reach the agents of this one."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import (
    Refusal,
    UpgradeRequest,
    WebSocket,
    WebSocketLimits,
    WebSocketMount,
)
from trunkline.protocol.relay.accepting_session import read_hello
from trunkline.protocol.relay.close_codes import NOT_AUTHENTICATED, SILENT, Close
from trunkline.protocol.relay.events import Opened
from trunkline.protocol.relay.frames import Hello, Violation
from trunkline.protocol.relay.hop_credentials import (
    SUBPROTOCOL,
    HopCredential,
    is_valid,
    read_header,
)
from trunkline.protocol.relay.hop_sessions import HolderSession
from trunkline.relay.carrier import Carrier
from trunkline.relay.nodes.hop_secret import HopSecret
from trunkline.relay.nodes.hops import HOP_SETTINGS, TICK_S

_log: Final = logging.getLogger("trunkline.relay")

HOP_PATH: Final = "/relay-node"
_HELLO_S: Final = 10.0
_REFUSED: Final = Refusal(401, "Only relay nodes of the same store connect here\n")
_LEAVING: Final = Refusal(503, "The relay node is about to stop\n")

HolderCarrier = Carrier[HolderSession]
# Serves a request of another node.
Serve = Callable[[HolderCarrier, Opened], None]


class HopSockets:
    def __init__(self, node: str, *, secret: HopSecret, serve: Serve, clock: Clock) -> None:
        """`node` is the name of this one."""
        self._node = node
        self._secret = secret
        self._serve_request = serve
        self._clock = clock
        # By the node at the other end.
        self._carriers: dict[str, HolderCarrier] = {}
        self._is_leaving = False
        self._tasks = BackgroundTasks("hops to the relay")
        frame_bytes = HOP_SETTINGS.limits.max_frame_bytes
        self.mount: Final = WebSocketMount(
            handler=self._serve,
            check=self._check,
            subprotocols=(SUBPROTOCOL,),
            limits=WebSocketLimits(max_message_bytes=frame_bytes, max_frame_bytes=frame_bytes),
        )

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")

    @property
    def streams(self) -> int:
        """The requests of other nodes that are under way here."""
        return sum(len(carrier.session.streams) for carrier in self._carriers.values())

    def leave(self) -> None:
        """Let the other nodes begin no more requests here."""
        self._is_leaving = True
        for carrier in self._carriers.values():
            carrier.session.drain(0, self._clock.monotonic())
            carrier.flush()

    async def close(self) -> None:
        for carrier in self._carriers.values():
            carrier.session.end("the relay node stops")
            carrier.flush()
        await self._tasks.close()

    async def _check(self, request: UpgradeRequest) -> Refusal | None:
        if self._is_leaving:
            return _LEAVING
        credential = await self._admit(request)
        if credential is None:
            return _REFUSED
        request.caller = f"relay-node:{credential[0].entry}"
        return None

    async def _admit(self, request: UpgradeRequest) -> tuple[HopCredential, bytes] | None:
        """The credential, and the secret that it was made with."""
        value = request.header(b"authorization") or ""
        credential = read_header(value, self._node)
        if credential is None:
            return None
        for is_known in (True, False):
            try:
                accepted = await self._secret.accepted(is_known=is_known)
            except StoreError:
                return None
            for secret in accepted:
                if is_valid(value, credential, secret):
                    return credential, secret
        return None

    async def _serve(self, socket: WebSocket) -> None:
        admitted = await self._admit(socket.request)
        if admitted is None:
            await socket.close(NOT_AUTHENTICATED, "the credential does not count any more")
            return
        hello = await self._hello(socket)
        if isinstance(hello, Close):
            await socket.close(hello.code, hello.reason)
            return
        credential, secret = admitted
        carrier = self._carrier(credential, secret, hello)
        carrier.session.connect(hello, self._clock.monotonic())
        await carrier.carry(socket)

    async def _hello(self, socket: WebSocket) -> Hello | Close:
        try:
            async with asyncio.timeout(_HELLO_S):
                message = await socket.receive()
        except TimeoutError:
            return Close(SILENT, "the first frame took too long")
        try:
            return read_hello(message, HOP_SETTINGS.limits)
        except Violation as violation:
            return violation.close

    def _carrier(self, credential: HopCredential, secret: bytes, hello: Hello) -> HolderCarrier:
        """The session that the other node asks to resume, where it is here; else a new one."""
        known = self._carriers.get(credential.entry)
        resumed = "" if hello.resume is None else hello.resume.session
        if known is not None and not known.session.is_ended:
            if known.session.id == resumed:
                return known
            known.session.end("the relay node has begun anew")
            known.flush()
        session = HolderSession(
            HOP_SETTINGS,
            now=self._clock.monotonic(),
            id=secrets.token_hex(16),
            key=credential.session_key(secret),
        )
        carrier: HolderCarrier = Carrier(
            session, clock=self._clock, tasks=self._tasks, on_event=lambda event: on_event(event)
        )
        on_event = partial(self._on_event, carrier)
        self._carriers[credential.entry] = carrier
        return carrier

    def _on_event(self, carrier: HolderCarrier, event: object) -> None:
        if isinstance(event, Opened):
            self._serve_request(carrier, event)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            for node, carrier in [*self._carriers.items()]:
                carrier.tick()
                if carrier.session.is_ended:
                    del self._carriers[node]
