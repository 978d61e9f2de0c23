"""`Wire`: WebSockets in memory between hosts and a relay, which a test cuts."""

import asyncio
from collections import deque
from typing import TypeVar

from tests.bindings.asgi import Http

from trunkline.background import BackgroundTasks
from trunkline.ports.websocket import (
    ABNORMAL,
    NORMAL,
    WebSocket,
    WebSocketClosed,
    WebSocketMount,
)
from trunkline.protocol.relay.close_codes import FORBIDDEN, NOT_AUTHENTICATED
from trunkline.protocol.relay.frames import SUBPROTOCOL
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.server.asgi import AsgiRequest, Message


class End(WebSocket):
    """One end of a connection; what it sends, the other end receives."""

    subprotocol: str | None = SUBPROTOCOL
    peer = ""

    def __init__(self) -> None:
        self.other: End = self
        self.closed: WebSocketClosed | None = None
        # How many messages may be on their way to this end.
        self.room = 1_000_000
        self._messages: deque[bytes] = deque()
        self._changes: asyncio.Future[None] | None = None

    async def receive(self) -> str | bytes:
        while not self._messages:
            if self.closed is not None:
                raise self.closed
            await self._change()
        self.other.wake()
        return self._messages.popleft()

    async def send(self, message: str | bytes) -> None:
        assert isinstance(message, bytes)
        while self.closed is None and len(self.other._messages) >= self.other.room:
            await self._change()
        if self.closed is not None:
            raise self.closed
        self.other._messages.append(message)
        self.other.wake()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        self._end(WebSocketClosed(code, reason))
        self.other._end(WebSocketClosed(code, reason))

    def cut(self) -> None:
        """Lose the connection, and what is on its way."""
        for end in (self, self.other):
            end._messages.clear()
            end._end(WebSocketClosed(ABNORMAL, "cut"))

    def _end(self, closed: WebSocketClosed) -> None:
        if self.closed is None:
            self.closed = closed
            self.wake()

    async def _change(self) -> None:
        if self._changes is None or self._changes.done():
            self._changes = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changes)

    def wake(self) -> None:
        if self._changes is not None and not self._changes.done():
            self._changes.set_result(None)


class TextEnd(End):
    """One of protocol v1, whose messages are texts."""

    subprotocol = None

    async def send(self, message: str | bytes) -> None:
        await super().send(message.encode() if isinstance(message, str) else message)


AnEnd = TypeVar("AnEnd", bound=End)


class Wire:
    """Dials the mount of a relay."""

    def __init__(self, mount: WebSocketMount, tasks: BackgroundTasks) -> None:
        self._mount = mount
        self._tasks = tasks
        # The ends of hosts, the oldest first.
        self.ends: list[End] = []
        self.is_down = False
        # What it asks of hosts while it is down.
        self.retry_after_s = 0.0

    async def dial(self, url: str, token: str) -> End:
        return await self.connect(f"Bearer {token}")

    async def connect(self, authorization: str) -> End:
        if self.is_down:
            raise DialFailed("the relay is down", retry_after_s=self.retry_after_s)
        headers = {"authorization": authorization, "sec-websocket-protocol": SUBPROTOCOL}
        return await self._open(End(), End(), headers)

    async def connect_v1(self) -> "TextEnd":
        """As an agent of protocol v1, which shows its token later."""
        return await self._open(TextEnd(), TextEnd(), {})

    async def _open(self, host: AnEnd, relay: End, headers: dict[str, str]) -> AnEnd:
        scope = Http(method="GET", path="/agent", headers=headers).scope()
        host.other, relay.other = relay, host
        relay.request = AsgiRequest.of(scope, _nothing)
        assert self._mount.check is not None
        refusal = await self._mount.check(relay.request)
        if refusal is not None:
            raise DialFailed(
                refusal.text.strip(),
                code=_CODES.get(refusal.status, ABNORMAL),
                retry_after_s=float(dict(refusal.headers).get(b"retry-after", b"0")),
            )
        self._tasks.spawn(self._serve(relay), name="mount")
        self.ends.append(host)
        return host

    async def _serve(self, end: End) -> None:
        await self._mount.handler(end)
        await end.close()

    @property
    def open_ends(self) -> list[End]:
        return [end for end in self.ends if end.closed is None]

    def cut(self) -> None:
        for end in self.open_ends:
            end.cut()


_CODES = {401: NOT_AUTHENTICATED, 403: FORBIDDEN}


async def _nothing() -> Message:
    raise AssertionError("a handshake has no body")
