"""`Transports`: dials a relay by WebSocket, or by long poll where the network lets no WebSocket
pass."""

import logging
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL, NORMAL, WebSocketClosed
from trunkline.protocol.relay.close_codes import FATAL, SILENT
from trunkline.relay.carrier import Socket
from trunkline.relay.hosts import dialing
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.hosts.long_poll import LongPollSocket, dial_long_poll, http_url
from trunkline.relay.hosts.relay_http import Http, OwnHttp

_log: Final = logging.getLogger("trunkline.relay")

Transport: TypeAlias = Literal["auto", "websocket", "long-poll"]
# While a long poll works, a WebSocket is tried after these times: the network may have changed.
_FIRST_S: Final = 300.0
_LONGEST_S: Final = 3600.0
# The relay waits for the first frame for ten seconds.
_READY_S: Final = 5.0


class Transports:
    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        open_http: Callable[[str], Http] | None = None,
    ) -> None:
        """`open_http` makes what one connection asks a URL by; the client of the gateway, unless it
        is given."""
        self._transport = transport
        self._clock = clock
        self._open_http = open_http or OwnHttp
        self._tasks = BackgroundTasks("transports of relays")
        # The URLs at which a WebSocket did not work last.
        self._blocked: set[str] = set()
        # WebSockets that were opened in place of a long poll, and when.
        self._ready: dict[str, tuple[Socket, float]] = {}

    async def close(self) -> None:
        await self._tasks.close()

    async def dial(self, url: str, token: str) -> Socket:
        """Raises DialFailed."""
        if self._transport == "websocket":
            return await dialing.dial(url, token)
        if self._transport == "long-poll":
            return await self._poll(url, token)
        ready = await self._opened_before(url)
        if ready is not None:
            return ready
        if url not in self._blocked:
            return await self._by_websocket(url, token)
        try:
            return await self._by_long_poll(url, token)
        except DialFailed as failed:
            if failed.code in FATAL:
                raise
            self._blocked.discard(url)
            return await self._by_websocket(url, token)

    async def _opened_before(self, url: str) -> Socket | None:
        ready, opened_at = self._ready.pop(url, (None, 0.0))
        if ready is None or self._clock.monotonic() - opened_at < _READY_S:
            return ready
        # Nobody has used it, and the relay waits no longer.
        await ready.close(NORMAL, "")
        return None

    async def _by_websocket(self, url: str, token: str) -> Socket:
        try:
            return _Watched(await dialing.dial(url, token), lambda: self._blocked.add(url))
        except DialFailed as failed:
            if not failed.may_pass:
                raise
            try:
                return await self._by_long_poll(url, token)
            except DialFailed as also:
                if also.code in FATAL:
                    raise
                # No relay has answered, so the status of the upgrade refuses nothing for good.
                raise DialFailed(failed.message) from None

    async def _by_long_poll(self, url: str, token: str) -> Socket:
        socket = await self._poll(url, token)
        self._blocked.add(url)
        _log.info("no WebSocket passes, so the relay is reached by long polls")
        self._tasks.spawn(self._look_again(url, socket), name="try a WebSocket")
        return socket

    async def _poll(self, url: str, token: str) -> LongPollSocket:
        http = self._open_http(http_url(url))
        return await dial_long_poll(url, token, http=http, clock=self._clock, tasks=self._tasks)

    async def _look_again(self, url: str, socket: LongPollSocket) -> None:
        """Give a long poll up for a WebSocket, once one can be opened."""
        wait_s = _FIRST_S
        while True:
            await self._clock.sleep(wait_s)
            if socket.closed is not None:
                return
            wait_s = min(2 * wait_s, _LONGEST_S)
            try:
                ready = await dialing.dial(url, socket.token)
            except DialFailed:
                continue
            self._blocked.discard(url)
            watched = _Watched(ready, lambda: self._blocked.add(url))
            self._ready[url] = watched, self._clock.monotonic()
            _log.info("a WebSocket to the relay is open, which takes the place of long polls")
            socket.drop(WebSocketClosed(ABNORMAL, "the session goes on over a WebSocket"))
            return


class _Watched:
    """A WebSocket; tells whether it was opened and then let no message pass."""

    def __init__(self, socket: Socket, on_blocked: Callable[[], None]) -> None:
        self._socket = socket
        self._on_blocked = on_blocked
        self._has_heard = False

    @property
    def subprotocol(self) -> str | None:
        return self._socket.subprotocol

    async def receive(self) -> str | bytes:
        try:
            message = await self._socket.receive()
        except WebSocketClosed as closed:
            self._judge(closed.code)
            raise
        self._has_heard = True
        return message

    async def send(self, message: str | bytes) -> None:
        await self._socket.send(message)

    async def close(self, code: int, reason: str) -> None:
        self._judge(code)
        await self._socket.close(code, reason)

    def _judge(self, code: int) -> None:
        if not self._has_heard and code in (ABNORMAL, SILENT):
            self._on_blocked()
