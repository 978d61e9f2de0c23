"""`PolledSocket`: the relay's end of a connection that a host makes of HTTP requests."""

import asyncio
import math
from collections import deque
from typing import Final

from trunkline.ports.authenticator import Headers
from trunkline.ports.websocket import WebSocketClosed
from trunkline.protocol.relay.close_codes import Close
from trunkline.protocol.relay.frames import SUBPROTOCOL, Violation
from trunkline.protocol.relay.polling import MAX_BATCH_BYTES, Incoming, Outgoing

# A writer waits while the host has this much to fetch.
_MAX_HELD_BYTES: Final = MAX_BATCH_BYTES


class PolledSocket:
    """A `Socket` on one side, and what the requests of the host do on the other."""

    subprotocol: Final = SUBPROTOCOL

    def __init__(self, *, principal_id: str, credential: Headers, now: float) -> None:
        self.principal_id: Final = principal_id
        # The one that it was shown last.
        self.credential = credential
        # How it was closed, by whichever side.
        self.closed: Close | None = None
        # Whether a frame has come.
        self.has_greeted = False
        # When it was opened, or closed.
        self.changed_at = now
        self._outgoing = Outgoing()
        self._incoming = Incoming()
        self._arrived: deque[bytes] = deque()
        # The poll that waits; a later one takes its place.
        self._poll = 0
        self._polled_at = now
        self._changes: asyncio.Future[None] | None = None

    @property
    def held_bytes(self) -> int:
        return self._outgoing.bytes

    # For the session.

    async def receive(self) -> bytes:
        while not self._arrived:
            if self.closed is not None:
                raise WebSocketClosed(self.closed.code, self.closed.reason)
            await self._change()
        message = self._arrived.popleft()
        if not self._arrived:
            self._wake()
        return message

    async def send(self, message: str | bytes) -> None:
        while self.closed is None and self._outgoing.bytes >= _MAX_HELD_BYTES:
            await self._change()
        if self.closed is not None:
            raise WebSocketClosed(self.closed.code, self.closed.reason)
        assert isinstance(message, bytes)
        self._outgoing.add(message)
        self._wake()

    async def close(self, code: int, reason: str) -> None:
        """The host gets what was sent before, and then this code."""
        self.drop(Close(code, reason))

    def drop(self, close: Close) -> None:
        """The connection is over, as far as this side knows."""
        if self.closed is None:
            self.closed = close
            self._wake()

    # For the requests of the host.

    async def deliver(self, first: int, batch: bytes) -> int | None:
        """Take a batch whose first message has this number, once the session has taken the one
        before. Returns the number of the last message that has come; None if one before this batch
        is missing."""
        while self._arrived and self.closed is None:
            await self._change()
        try:
            new = self._incoming.take(first, batch)
        except Violation as violation:
            await self.close(violation.close.code, violation.close.reason)
            new = []
        if new is None:
            return None
        if new and self.closed is None:
            self._arrived.extend(new)
            self._wake()
        return self._incoming.received

    async def poll(self, after: int, now: float) -> bytes | None:
        """A batch of the messages after this one, which the host has; empty if none came in time,
        or the socket is closed. None where the host cannot have just these."""
        if not self._outgoing.confirm(after):
            return None
        self._poll += 1
        self._polled_at = now
        self._wake()
        own = self._poll
        while True:
            batch, last = self._outgoing.batch()
            if self._poll != own or self.closed is not None or last > after:
                # A later poll may have confirmed messages, and then gets the next ones itself.
                return batch if self._outgoing.confirmed == after else b""
            await self._change()

    def end_poll(self, *, before: float) -> None:
        """Answer a poll that has waited since before that time."""
        if self._polled_at < before:
            self._polled_at = math.inf
            self._poll += 1
            self._wake()

    # What both wait for.

    async def _change(self) -> None:
        if self._changes is None or self._changes.done():
            self._changes = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changes)

    def _wake(self) -> None:
        if self._changes is not None and not self._changes.done():
            self._changes.set_result(None)
