"""`socket_pair`: two connected sockets in this process, for a relay and a host that share it."""

import asyncio
from collections import deque

from trunkline.ports.websocket import WebSocketClosed
from trunkline.protocol.relay.frames import SUBPROTOCOL


class LoopbackSocket:
    """One of the two; what it sends, the other one receives.

    It holds what was not received yet. Credit and acknowledgement of the sessions bound that.
    """

    def __init__(self) -> None:
        self._other = self
        self._closed: WebSocketClosed | None = None
        self._messages: deque[str | bytes] = deque()
        self._reader: asyncio.Future[None] | None = None

    @property
    def subprotocol(self) -> str | None:
        return SUBPROTOCOL

    def connect(self, other: "LoopbackSocket") -> None:
        self._other = other

    async def receive(self) -> str | bytes:
        while not self._messages:
            if self._closed is not None:
                raise self._closed
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._messages.popleft()

    async def send(self, message: str | bytes) -> None:
        if self._closed is not None:
            raise self._closed
        self._other._messages.append(message)
        self._other._wake()

    async def close(self, code: int, reason: str) -> None:
        if self._closed is None:
            for end in (self, self._other):
                end._closed = WebSocketClosed(code, reason)
                end._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def socket_pair() -> tuple[LoopbackSocket, LoopbackSocket]:
    one, other = LoopbackSocket(), LoopbackSocket()
    one.connect(other)
    other.connect(one)
    return one, other
