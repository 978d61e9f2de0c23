"""`PollingHosts`: the ASGI application where hosts attach by HTTP requests alone, because their
network lets no WebSocket pass."""

import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from trunkline.background import BackgroundTasks
from trunkline.model.errors import (
    PermissionDenied,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL, NORMAL, TRY_AGAIN_LATER, WebSocketClosed
from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    FORBIDDEN,
    NOT_AUTHENTICATED,
    OUT_OF_ORDER,
    Close,
)
from trunkline.protocol.relay.frames import SUBPROTOCOL
from trunkline.protocol.relay.polling import POLL_S, Offer, Opened, Received, close_of
from trunkline.relay.admission import Admission, credential_of
from trunkline.relay.polling.polled_socket import PolledSocket
from trunkline.relay.polling.polling_http import (
    Receive,
    Refused,
    Reply,
    Scope,
    Send,
    batch_reply,
    body_of,
    number,
    send_refusal,
    send_reply,
    short,
)
from trunkline.relay.relay import Relay
from trunkline.relay.sockets import STOPPED_S, HostSockets

_TICK_S: Final = 1.0
# How long the code of a closed connection can be asked for.
_CLOSED_S: Final = 60.0
# How many of them at most, and how much of what their hosts have not fetched.
_MAX_CLOSED: Final = 1000
_MAX_CLOSED_BYTES: Final = 16 * 1024 * 1024
# Connections of one principal on which no frame has come yet.
_MAX_SILENT: Final = 256
# Requests at the same time whose credentials are being checked, so that a flood of wrong ones does
# not fill the memory. Requests of open connections need no check.
_MAX_CHECKS: Final = 64
# The one that is under way on a connection, and its repetition.
_MAX_BATCHES: Final = 2
_RETRY_AFTER_S: Final = 30
_decode_offer: Final = msgspec.json.Decoder(Offer).decode


class PollingHosts:
    def __init__(
        self,
        relay: Relay,
        *,
        sockets: HostSockets,
        admission: Admission,
        clock: Clock,
        path: str,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        """`path` is where it is mounted: that of the WebSocket, and `CONNECTIONS_PATH`."""
        self._relay = relay
        self._sockets = sockets
        self._admission = admission
        self._clock = clock
        self._path = path
        self._new_id = new_id
        self._tasks = BackgroundTasks("hosts that poll")
        self._open: dict[str, PolledSocket] = {}
        self._closed: dict[str, PolledSocket] = {}
        # Those on which no frame has come yet, by their principals.
        self._silent: Counter[str] = Counter()
        self._checks = 0
        self._batches: Counter[PolledSocket] = Counter()

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def open_sockets(self) -> Collection[PolledSocket]:
        return self._open.values()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._answer(scope, receive)
        except Refused as refused:
            await send_refusal(send, refused)
        else:
            await send_reply(send, reply)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        """Raises Refused."""
        below = scope["path"].removeprefix(self._path).split("/")[1:]
        match scope["method"], below:
            case "POST", []:
                return await self._create(scope, receive)
            case "GET", [id, "frames"]:
                return await self._poll(await self._find(scope, id), scope)
            case "POST", [id, "frames"]:
                return await self._deliver(await self._find(scope, id), scope, receive)
            case "DELETE", [id]:
                return await self._delete(await self._find(scope, id), receive)
            case _, [] | [_] | [_, "frames"]:
                raise Refused(405, BAD_FRAME, "this method is for another address")
            case _:
                raise Refused(404, BAD_FRAME, "nothing is at this address")

    async def _create(self, scope: Scope, receive: Receive) -> Reply:
        headers = dict(scope["headers"])
        principal_id = await self._principal_of(headers, _address_of(scope))
        body = await body_of(receive, headers)
        try:
            offer = _decode_offer(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refused(400, BAD_FRAME, 'the body is {"protocols":[...]}') from None
        if SUBPROTOCOL not in offer.protocols:
            raise Refused(400, BAD_FRAME, f"the relay speaks {SUBPROTOCOL}")
        self._check_room(principal_id)
        id, now = self._new_id(), self._clock.monotonic()
        socket = self._open[id] = PolledSocket(
            principal_id=principal_id, credential=credential_of(headers), now=now
        )
        self._silent[principal_id] += 1
        self._tasks.spawn(self._attach(id, socket), name="serve a host that polls")
        opened = Opened(connection=id, protocol=SUBPROTOCOL)
        return Reply(msgspec.json.encode(opened), 201)

    def _check_room(self, principal_id: str) -> None:
        if self._silent[principal_id] >= _MAX_SILENT:
            raise Refused(
                429, TRY_AGAIN_LATER, "too many connections have no hello", retry_after_s=1
            )
        if self._relay.is_draining:
            raise Refused(
                503, TRY_AGAIN_LATER, "the relay is about to stop", retry_after_s=STOPPED_S
            )
        if not self._relay.is_trusted:
            raise Refused(
                503, TRY_AGAIN_LATER, "the relay cannot use its store", retry_after_s=STOPPED_S
            )
        most = self._relay.settings.max_sessions
        if self._relay.is_full or len(self._open) >= most:
            raise Refused(
                503,
                TRY_AGAIN_LATER,
                "the relay has as many hosts as it takes",
                retry_after_s=_RETRY_AFTER_S,
            )

    async def _attach(self, id: str, socket: PolledSocket) -> None:
        try:
            await self._sockets.attach(socket, socket.credential)
        except WebSocketClosed:
            # Before the hello. The host gets the code with its next request.
            return
        finally:
            await socket.close(NORMAL, "")
            self._greeted(socket)
            socket.changed_at = self._clock.monotonic()
            self._closed[id] = self._open.pop(id)
            self._forget_closed(socket.changed_at)

    def _greeted(self, socket: PolledSocket) -> None:
        if not socket.has_greeted:
            socket.has_greeted = True
            self._silent -= Counter({socket.principal_id: 1})

    async def _find(self, scope: Scope, id: str) -> PolledSocket:
        """The connection, for the principal that opened it: the id is no credential."""
        headers = dict(scope["headers"])
        credential = credential_of(headers)
        socket = self._open.get(id) or self._closed.get(id)
        if socket is not None and _is_same(credential, socket.credential):
            # The relay checks it from time to time, as that of any connection.
            return socket
        principal_id = await self._principal_of(headers, _address_of(scope))
        if socket is None or socket.principal_id != principal_id:
            raise Refused(404, ABNORMAL, "the relay does not have this connection")
        socket.credential = credential
        return socket

    async def _principal_of(self, headers: Headers, address: str) -> str:
        if self._checks >= _MAX_CHECKS:
            raise Refused(503, TRY_AGAIN_LATER, "too many credentials at once", retry_after_s=1)
        self._checks += 1
        try:
            return (await self._admission.admit(headers, address=address)).id
        except Unauthenticated as error:
            raise Refused(401, NOT_AUTHENTICATED, error.message) from None
        except PermissionDenied as error:
            raise Refused(403, FORBIDDEN, error.message) from None
        except (TooManyRequests, Unavailable) as error:
            status = 429 if isinstance(error, TooManyRequests) else 503
            raise Refused(
                status, TRY_AGAIN_LATER, error.message, retry_after_s=error.retry_after_s
            ) from None
        finally:
            self._checks -= 1

    async def _poll(self, socket: PolledSocket, scope: Scope) -> Reply:
        after = number(scope, "after")
        batch = await socket.poll(after, self._clock.monotonic())
        if batch is None:
            raise Refused(409, OUT_OF_ORDER, f"frame {after} cannot be the last one")
        if not batch and socket.closed is not None:
            raise Refused(410, socket.closed.code, socket.closed.reason)
        return batch_reply(batch)

    async def _deliver(self, socket: PolledSocket, scope: Scope, receive: Receive) -> Reply:
        first = number(scope, "first")
        with self._counted(socket):
            batch = await body_of(receive, dict(scope["headers"]))
            received = await socket.deliver(first, batch)
        if received is None:
            raise Refused(409, OUT_OF_ORDER, f"a frame before {first} is missing")
        if socket.closed is not None:
            raise Refused(410, socket.closed.code, socket.closed.reason)
        if received:
            self._greeted(socket)
        return Reply(msgspec.json.encode(Received(received)))

    @contextmanager
    def _counted(self, socket: PolledSocket) -> Iterator[None]:
        if self._batches[socket] >= _MAX_BATCHES:
            raise Refused(429, TRY_AGAIN_LATER, "one batch after the other", retry_after_s=1)
        self._batches[socket] += 1
        try:
            yield
        finally:
            self._batches[socket] -= 1
            if not self._batches[socket]:
                del self._batches[socket]

    async def _delete(self, socket: PolledSocket, receive: Receive) -> Reply:
        body = await body_of(receive, {})
        close = close_of(body)
        if body and close is None:
            raise Refused(400, BAD_FRAME, 'the body is {"code":NUMBER,"reason":TEXT}')
        close = close or Close(NORMAL, "")
        await socket.close(close.code, short(close.reason))
        return Reply()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            now = self._clock.monotonic()
            for socket in self._open.values():
                socket.end_poll(before=now - POLL_S)
            self._forget_closed(now)

    def _forget_closed(self, now: float) -> None:
        held_bytes = sum(socket.held_bytes for socket in self._closed.values())
        # The oldest come first.
        for id, socket in [*self._closed.items()]:
            is_too_much = held_bytes > _MAX_CLOSED_BYTES or len(self._closed) > _MAX_CLOSED
            if socket.changed_at > now - _CLOSED_S and not is_too_much:
                return
            held_bytes -= socket.held_bytes
            del self._closed[id]


def _is_same(one: Headers, other: Headers) -> bool:
    return hmac.compare_digest(_joined(one), _joined(other))


def _joined(credential: Headers) -> bytes:
    return b"\n".join(b"%b:%b" % item for item in sorted(credential.items()))


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else str(client[0])
