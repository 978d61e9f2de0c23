"""`FlowControl`: the back-pressure of one connection, in both directions."""

import asyncio
import select

from msgspec import Struct

from trunkline.server.memory_budget import MIN_RATE_BYTES, MemoryBudget


class FlowControl(Struct, eq=False):
    """A transport with back-pressure, shared by the connection and its requests."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    budget: MemoryBudget
    # The caller whose large response is being written.
    caller: str = ""
    is_reading: bool = True
    # Whether the client reads more slowly than the gateway writes.
    is_congested: bool = False
    # Whether the client has closed its side of the connection, and sends no more.
    has_ended: bool = False
    # Whether the client has left, or the gateway has closed the connection.
    is_lost: bool = False
    _last_bytes: int = 0
    # The bytes that the client has not read, the caller they are held for, and their deadline.
    _unread_bytes: int = 0
    _holder: str = ""
    _unread_due: float = 0.0
    # Other bytes that are held for the connection, which count for no caller.
    _counted_bytes: int = 0
    _can_write: asyncio.Future[None] | None = None
    _may_read: bool = True
    # The unread bytes at the last look, and the time since when their number is the same.
    _unsent_bytes: int = 0
    _stuck_since: float = 0.0

    def write(self, data: bytes) -> None:
        # The event loop sends all writes of one pass in one system call.
        if not self.is_lost:
            self._last_bytes = len(data)
            self.transport.write(data)

    def admit(self, caller: str, size: int) -> None:
        """Ask for room before a large write. Raises TooManyRequests or Unavailable."""
        if not self.is_lost:
            self.budget.admit(caller, size)
            self.caller = caller

    def count(self, size: int) -> None:
        """Count `size` more bytes as held for the connection; fewer if it is negative."""
        self._counted_bytes += size
        self.budget.held_bytes += size

    def forget(self) -> None:
        """Release all bytes that were held for the connection, which has ended."""
        self.count(-self._counted_bytes)
        self._has_read()

    async def drain(self) -> None:
        """Wait until the client has read most of its unread bytes, or has left."""
        if self._can_write is not None:
            # Shielded, because other writers may wait for the same future.
            await asyncio.shield(self._can_write)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._can_write = self.loop.create_future()
        # The transport holds the last write until its last byte is sent.
        size = max(self._last_bytes, self.transport.get_write_buffer_size())
        self._unread_bytes, self._holder = size, self.caller
        self._unread_due = self.loop.time() + size / MIN_RATE_BYTES
        self.budget.hold(self._holder, size)

    def resume_writing(self) -> None:
        """Let writers continue: the client has read most of its bytes."""
        self._has_read()
        self._let_write()

    def _has_read(self) -> None:
        if self._unread_bytes:
            self.budget.release(self._holder, self._unread_bytes)
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
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_reading and self._may_read and not self.is_lost:
            self.is_reading = True
            self.transport.resume_reading()

    def stop_reading(self) -> None:
        """Read no more from the client."""
        self.pause_reading()
        self._may_read = False

    def start_reading(self) -> None:
        """Read again, also after `stop_reading`."""
        self._may_read = True
        self.resume_reading()

    def end_writing(self) -> None:
        """Tell the client that no more comes, after the buffered bytes. Reading goes on."""
        if not self.is_lost and not self.transport.is_closing():
            self.transport.write_eof()

    def abort_if_stuck_since(self, moment: float, now: float) -> None:
        """Drop a client that has not read since `moment`, although bytes wait for it.

        Called regularly: the number of unsent bytes shows whether the client reads.
        """
        unsent = 0
        if self.is_congested or self.is_lost:
            unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent_bytes:
            self._unsent_bytes, self._stuck_since = unsent, now
        # A client that reads only a byte now and then counts as stuck as well.
        if unsent and (self._stuck_since <= moment or self._unread_due <= moment):
            self.abort()

    def abort_if_reset(self) -> None:
        """Drop a client that has closed its side and then refused bytes that were sent to it.

        The gateway no longer reads from such a connection, so only a further write would notice.
        """
        if self.is_lost or not hasattr(select, "poll"):
            return
        poller = select.poll()
        # poll reports errors without being asked; a readable socket at its end is not an error.
        poller.register(self.transport.get_extra_info("socket").fileno(), 0)
        if poller.poll(0):
            self.abort()

    def abort(self) -> None:
        """Close without sending the bytes that are still buffered."""
        self.lose()
        self.transport.abort()

    def close(self) -> None:
        """Close after the buffered bytes are sent."""
        self.lose()
        self.transport.close()

    def lose(self) -> None:
        self.is_lost = True
        # Writers wake up. The buffered bytes, and their count, stay until the connection ends.
        self._let_write()
