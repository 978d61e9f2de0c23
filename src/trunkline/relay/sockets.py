"""`HostSockets`: the WebSocket mount where hosts attach."""

import asyncio
import logging
from typing import Final

from trunkline.model.errors import (
    PermissionDenied,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
    Unavailable,
)
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import (
    TRY_AGAIN_LATER,
    Refusal,
    SocketHandler,
    UpgradeRequest,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
    WebSocketMount,
    offers,
)
from trunkline.protocol.relay.accepting_session import read_hello
from trunkline.protocol.relay.close_codes import SILENT, Close
from trunkline.protocol.relay.frames import SUBPROTOCOL, Hello, Violation
from trunkline.protocol.relay.v1.frames import MAX_FRAME_BYTES
from trunkline.relay.admission import Admission, credential_of
from trunkline.relay.carrier import Socket
from trunkline.relay.relay import Relay

_log: Final = logging.getLogger("trunkline.relay")

# Time for the first frame of a host.
HELLO_S: Final = 10.0
_RETRY_AFTER_S: Final = 30
# About the time of a restart.
STOPPED_S: Final = 1


class HostSockets:
    def __init__(
        self,
        relay: Relay,
        *,
        admission: Admission,
        clock: Clock,
        serve_v1: SocketHandler | None = None,
    ) -> None:
        """`serve_v1` serves agents of protocol v1; without it there are none."""
        self._serve_v1 = serve_v1
        self._relay = relay
        self._admission = admission
        self._clock = clock
        frame_bytes = relay.settings.session.limits.max_frame_bytes
        if serve_v1 is not None:
            # Sessions of protocol v2 check their own limit.
            frame_bytes = max(frame_bytes, MAX_FRAME_BYTES)
        self.mount: Final = WebSocketMount(
            handler=self._serve,
            check=self._check,
            subprotocols=(SUBPROTOCOL,),
            takes_no_subprotocol=serve_v1 is not None,
            limits=WebSocketLimits(max_message_bytes=frame_bytes, max_frame_bytes=frame_bytes),
        )

    async def _check(self, request: UpgradeRequest) -> Refusal | None:
        # The token of an agent of protocol v1 comes in its first frame.
        is_v1 = self._serve_v1 is not None and not offers(request, (SUBPROTOCOL,))
        try:
            principal = None
            if not is_v1:
                principal = await self._admission.admit(request.headers, address=request.peer)
            if self._relay.is_draining:
                raise Unavailable("The relay is about to stop", retry_after_s=STOPPED_S)
            if not self._relay.is_trusted:
                raise Unavailable("The relay cannot use its store", retry_after_s=STOPPED_S)
            if self._relay.is_full:
                raise Unavailable(
                    "The relay has as many hosts as it takes", retry_after_s=_RETRY_AFTER_S
                )
        except Unauthenticated as error:
            return _refusal(401, error, (b"www-authenticate", b'Bearer realm="trunkline"'))
        except PermissionDenied as error:
            return _refusal(403, error)
        except (TooManyRequests, Unavailable) as error:
            status = 429 if isinstance(error, TooManyRequests) else 503
            return _refusal(status, error, (b"retry-after", b"%d" % error.retry_after_s))
        if principal is not None:
            request.caller = principal.id
        return None

    async def _serve(self, socket: WebSocket) -> None:
        if self._serve_v1 is not None and socket.subprotocol is None:
            await self._serve_v1(socket)
            return
        await self.attach(socket, credential_of(socket.request.headers))

    async def attach(self, socket: Socket, credential: Headers) -> None:
        """Use a connection of a host, of whatever kind, until it is closed."""
        try:
            hello = await self._hello(socket)
        except WebSocketClosed:
            # The host has left before its hello.
            return
        if isinstance(hello, Close):
            await socket.close(hello.code, hello.reason)
            return
        # Once more, because the check of a WebSocket cannot hand it over, and the credential may
        # have been revoked since. From now on the relay has the session, and hears of that.
        principal = await self._admission.still_admitted(credential)
        if principal is None:
            await socket.close(TRY_AGAIN_LATER, "the relay cannot check the credential now")
            return
        if isinstance(principal, Close):
            await socket.close(principal.code, principal.reason)
            return
        resumed = "" if hello.resume is None else hello.resume.session
        attached = self._relay.session_for(principal, resumed)
        if attached is None:
            await socket.close(TRY_AGAIN_LATER, "the tenant has as many hosts as one may have")
            return
        attached.principal, attached.credential = principal, credential
        now = attached.checked_at = self._clock.monotonic()
        attached.session.connect(hello, now, token_ends_at=self._admission.ends_at(principal))
        extra = {"principal": principal.id, "session": attached.session.id}
        _log.info("a host has connected", extra=extra)
        try:
            close = await attached.carrier.carry(socket)
        finally:
            self._relay.forget_if_over(attached)
        _log.info("a host has left", extra={**extra, "code": close.code, "reason": close.reason})

    async def _hello(self, socket: Socket) -> Hello | Close:
        try:
            async with asyncio.timeout(HELLO_S):
                message = await socket.receive()
        except TimeoutError:
            return Close(SILENT, "the first frame took too long")
        try:
            return read_hello(message, self._relay.settings.session.limits)
        except Violation as violation:
            return violation.close


def _refusal(status: int, error: TrunklineError, *headers: tuple[bytes, bytes]) -> Refusal:
    return Refusal(status, f"{error.message}\n", headers)
