"""`FlowControl`: the back-pressure of one connection, in both directions."""

import asyncio
import select

from trunkline.server.memory_budget import MIN_RATE_BYTES, MemoryBudget


class FlowControl:
    """A transport with back-pressure, shared by the connection and its requests."""

    __slots__ = (
        "_budget",
        "_can_write",
        "_counted_bytes",
        "_holder",
        "_last_bytes",
        "_may_read",
        "_stuck_since",
        "_transport",
        "_unread_bytes",
        "_unread_due",
        "_unsent_bytes",
        "caller",
        "is_congested",
        "is_lost",
        "is_reading",
        "loop",
    )

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, budget: MemoryBudget
    ) -> None:
        self._transport = transport
        self._budget = budget
        # The caller whose large response is being written.
        self.caller = ""
        self._last_bytes = 0
        # The bytes that the client has not read, the caller they are held for, and their deadline.
        self._unread_bytes = 0
        self._holder = ""
        self._unread_due = 0.0
        # Other bytes that are held for the connection, for no caller.
        self._counted_bytes = 0
        self._can_write: asyncio.Future[None] | None = None
        self.is_reading = True
        self._may_read = True
        # The unread bytes at the last look, and the time since when their number is the same.
        self._unsent_bytes = 0
        self._stuck_since = 0.0
        self.loop = loop
        # The client does not read as fast as it is sent to.
        self.is_congested = False
        # The client has left, or the gateway has closed the connection.
        self.is_lost = False

    def write(self, data: bytes) -> None:
        # The event loop sends all writes of one pass in one system call.
        if not self.is_lost:
            self._last_bytes = len(data)
            self._transport.write(data)

    def admit(self, caller: str, size: int) -> None:
        """Ask for room before a large write. Raises TooManyRequests or Unavailable."""
        if not self.is_lost:
            self._budget.admit(caller, size)
            self.caller = caller

    def count(self, size: int) -> None:
        """Count `size` more bytes as held for the connection; fewer if it is negative."""
        self._counted_bytes += size
        self._budget.held_bytes += size

    def forget(self) -> None:
        """Release all bytes that were held for the connection, which has ended."""
        self.count(-self._counted_bytes)
        self._has_read()

    async def drain(self) -> None:
        """Wait until the client has read most of its unread bytes, or has left."""
        if self._can_write is not None:
            # Shielded: others may wait for the same.
            await asyncio.shield(self._can_write)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._can_write = self.loop.create_future()
        # The transport holds the last write until its last byte is sent.
        size = max(self._last_bytes, self._transport.get_write_buffer_size())
        self._unread_bytes, self._holder = size, self.caller
        self._unread_due = self.loop.time() + size / MIN_RATE_BYTES
        self._budget.hold(self._holder, size)

    def resume_writing(self) -> None:
        """The client has read most of it."""
        self._has_read()
        self._let_write()

    def _has_read(self) -> None:
        if self._unread_bytes:
            self._budget.release(self._holder, self._unread_bytes)
            self._unread_bytes = 0
            self.caller = ""

    def _let_write(self) -> None:
        if self._can_write is not None:
            self._can_write.set_result(None)
            self._can_write = None
            self.is_congested = False

    def pause_reading(self) -> None:
        if self.is_reading and not self.is_lost:
            self.is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_reading and self._may_read and not self.is_lost:
            self.is_reading = True
            self._transport.resume_reading()

    def stop_reading(self) -> None:
        """Read no more from the client."""
        self.pause_reading()
        self._may_read = False

    def abort_if_stuck_since(self, moment: float, now: float) -> None:
        """Give up a client that has to read before anything goes on, and has read nothing.

        To be asked now and then: whether it reads shows in what is left.
        """
        unsent = 0
        if self.is_congested or self.is_lost:
            unsent = self._transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent_bytes:
            self._unsent_bytes, self._stuck_since = unsent, now
        # A client that reads a byte now and then counts as stuck, too.
        if unsent and (self._stuck_since <= moment or self._unread_due <= moment):
            self.abort()

    def abort_if_reset(self) -> None:
        """Drop a client that has closed its side and then refused bytes that were sent to it.

        Nobody reads from such a connection, so only a further write would notice.
        """
        if self.is_lost or not hasattr(select, "poll"):
            return
        poller = select.poll()
        # poll reports errors without being asked; a readable socket at its end is not an error.
        poller.register(self._transport.get_extra_info("socket").fileno(), 0)
        if poller.poll(0):
            self.abort()

    def abort(self) -> None:
        """Close without sending the bytes that are still buffered."""
        self.lose()
        self._transport.abort()

    def close(self) -> None:
        """Close after the buffered bytes are sent."""
        self.lose()
        self._transport.close()

    def lose(self) -> None:
        self.is_lost = True
        # Writers wake up; the count stays, as do the buffered bytes, until the connection ends.
        self._let_write()
