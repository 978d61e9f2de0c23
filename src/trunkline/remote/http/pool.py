"""`Pool`: the connections to peers, in use and idle."""

import asyncio
from collections import deque
from typing import Final

from trunkline.remote.errors import PeerUnreachable
from trunkline.remote.http.connection import Connection, broken_off
from trunkline.remote.http.connector import Connector
from trunkline.remote.http.request import Origin

# Requests at the same time; further ones wait.
MAX_IN_USE: Final = 100
# Additional connections for requests that are not streams: a stream stays open as long as its
# task works, and must not block a request to read or cancel the task.
SPARE: Final = 20
# Peers close idle connections after 5 to 75 s; a request on a closed one would fail.
MAX_IDLE_S: Final = 15.0


def closed_by_us() -> PeerUnreachable:
    return PeerUnreachable("the connection to the agent was closed by us", reason="CLOSED")


class Pool:
    def __init__(self, connector: Connector, *, max_in_use: int = MAX_IN_USE) -> None:
        self._connector = connector
        self._max_in_use = max_in_use
        # Places taken by connections, those that are being opened included.
        self._taken = 0
        # Requests that wait for a place; streams have a queue of their own.
        self._calls: deque[asyncio.Future[None]] = deque()
        self._streams: deque[asyncio.Future[None]] = deque()
        self._in_use: set[Connection] = set()
        # The most recently used one is at the end.
        self._idle: dict[Origin, list[Connection]] = {}
        self._sockets: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._all_closed: asyncio.Future[None] | None = None

    async def take(
        self, origin: Origin, *, connect_s: float, is_new: bool = False, is_stream: bool = False
    ) -> Connection:
        """A connection for one request, after which it returns to the pool. Raises RemoteError.

        With `is_new` it has not been used before.
        """
        if self._taken >= self._max_in_use:
            await self._place(is_stream=is_stream)
        if self._is_closed:
            raise closed_by_us()
        kept = None if is_new else self._idle.get(origin)
        while kept:
            connection = kept.pop()
            if connection.is_fit(MAX_IDLE_S):
                self._taken += 1
                self._in_use.add(connection)
                return connection
            connection.abort()
        self._taken += 1
        try:
            connection = await self._made(origin, connect_s)
        except BaseException:
            self._leave_place()
            raise
        self._in_use.add(connection)
        return connection

    async def _place(self, *, is_stream: bool) -> None:
        """Wait for a place; a request that is woken takes it before any other can."""
        most = self._max_in_use + (0 if is_stream else SPARE)
        while self._taken >= most and not self._is_closed:
            waiter = asyncio.get_running_loop().create_future()
            (self._streams if is_stream else self._calls).append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter.done() and not waiter.cancelled():
                    # This request was woken and gives its place to the next.
                    self._wake_next()
                raise

    def _leave_place(self) -> None:
        self._taken -= 1
        if self._calls or self._streams:
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first that may go on now; calls come before streams."""
        if not _wake_one(self._calls) and self._taken < self._max_in_use:
            _wake_one(self._streams)

    async def _made(self, origin: Origin, connect_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        connection = await self._connector.connect(
            origin, lambda: Connection(loop, origin, self), within_s=connect_s
        )
        if self._is_closed:
            connection.abort()
            raise closed_by_us()
        if connection.is_lost:
            lost = broken_off()
            lost.is_unsent = True
            raise lost
        return connection

    def opened(self, connection: Connection) -> None:
        self._sockets.add(connection)

    def free(self, connection: Connection) -> None:
        self._release(connection)
        if self._is_closed:
            connection.abort()
            return
        self._idle.setdefault(connection.origin, []).append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(MAX_IDLE_S, self._close_idle)

    def lost(self, connection: Connection) -> None:
        self._release(connection)
        idle = self._idle.get(connection.origin, ())
        if connection in idle:
            self._idle[connection.origin].remove(connection)

    def closed(self, connection: Connection) -> None:
        self._sockets.discard(connection)
        if not self._sockets and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)

    def _release(self, connection: Connection) -> None:
        if connection in self._in_use:
            self._in_use.discard(connection)
            self._leave_place()

    def _close_idle(self) -> None:
        """Close expired connections. One timer for all is cheaper than one for each."""
        loop = asyncio.get_running_loop()
        self._sweep = None
        for kept in [*self._idle.values()]:
            for connection in [*kept]:
                if not connection.is_fit(MAX_IDLE_S):
                    connection.abort()
        self._idle = {origin: kept for origin, kept in self._idle.items() if kept}
        if self._idle:
            self._sweep = loop.call_later(MAX_IDLE_S, self._close_idle)

    async def close(self) -> None:
        """Close all connections; requests that are under way fail."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        while _wake_one(self._calls) or _wake_one(self._streams):
            pass
        for connection in [*self._sockets]:
            connection.end(closed_by_us())
        if self._sockets:
            self._all_closed = asyncio.get_running_loop().create_future()
            await self._all_closed


def _wake_one(waiting: "deque[asyncio.Future[None]]") -> bool:
    """Whether one was still waiting."""
    while waiting:
        waiter = waiting.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return True
    return False
