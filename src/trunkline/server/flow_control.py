"""The two directions of one connection, and when each must wait."""

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
        # Whose answer is written, where it is a large one.
        self.caller = ""
        self._last_bytes = 0
        # What the client has not read, in whose name, and when it must have done so.
        self._unread_bytes = 0
        self._holder = ""
        self._unread_due = 0.0
        # What else is held for the connection, and is nobody's.
        self._counted_bytes = 0
        self._can_write: asyncio.Future[None] | None = None
        self.is_reading = True
        self._may_read = True
        # What the client was last seen to leave unread, and since when it is so much.
        self._unsent_bytes = 0
        self._stuck_since = 0.0
        self.loop = loop
        # The client does not read as fast as it is sent to.
        self.is_congested = False
        # The client has left, or was sent away.
        self.is_lost = False

    def write(self, data: bytes) -> None:
        # The event loop sends what is written in one pass of it in one system call.
        if not self.is_lost:
            self._last_bytes = len(data)
            self._transport.write(data)

    def admit(self, caller: str, size: int) -> None:
        """Before much is written. Raises what the budget has against it."""
        if not self.is_lost:
            self._budget.admit(caller, size)
            self.caller = caller

    def count(self, size: int) -> None:
        """So much more is held for the connection, or less."""
        self._counted_bytes += size
        self._budget.held_bytes += size

    def forget(self) -> None:
        """The connection is gone, and with it all that was held for it."""
        self.count(-self._counted_bytes)
        self._has_read()

    async def drain(self) -> None:
        """Wait until the client has read most of what it was sent, or has left."""
        if self._can_write is not None:
            # Shielded: others may wait for the same.
            await asyncio.shield(self._can_write)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._can_write = self.loop.create_future()
        # What was written last is held to its last byte, however much of it is sent.
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
        """For good: what comes next means nothing any more."""
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
        # A byte now and then is not reading either.
        if unsent and (self._stuck_since <= moment or self._unread_due <= moment):
            self.abort()

    def abort_if_reset(self) -> None:
        """Let go of a client that has sent its end, and refused what it was sent after that.

        Nobody reads from such a connection, so only a further write would notice.
        """
        if self.is_lost or not hasattr(select, "poll"):
            return
        poller = select.poll()
        # Errors are told without being asked for; to be readable, as at an end, is none.
        poller.register(self._transport.get_extra_info("socket").fileno(), 0)
        if poller.poll(0):
            self.abort()

    def abort(self) -> None:
        """What was written and not sent is gone."""
        self.lose()
        self._transport.abort()

    def close(self) -> None:
        """What was written is still sent."""
        self.lose()
        self._transport.close()

    def lose(self) -> None:
        self.is_lost = True
        # Not read: until the connection is gone, what was written stays where it is.
        self._let_write()
