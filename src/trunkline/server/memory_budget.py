"""`MemoryBudget`: the bytes that the gateway holds for its callers, and their limits.

It counts bodies that are being received, requests that wait behind another one on their
connection, and responses that clients have not read. A body or a response of up to `SMALL_BYTES`
is always admitted, so that callers with small requests are served while a few others hold a lot.
"""

from msgspec import Struct

from trunkline.model.errors import TooManyRequests, Unavailable

# The size of a small message; nearly all requests and answers are smaller.
SMALL_BYTES = 64 * 1024
# The lowest rate at which a client may send or read, in bytes per second: a slow modem is faster.
MIN_RATE_BYTES = 16 * 1024
RETRY_AFTER_S = 5


class MemoryBudget(Struct, eq=False):
    max_bytes: int
    held_bytes: int = 0
    _by_caller: dict[str, int] = {}

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= self.max_bytes

    @property
    def is_scarce(self) -> bool:
        """Whether more than half is held, so that clients that read nothing get less time."""
        return self.held_bytes * 2 > self.max_bytes

    def held_for(self, caller: str) -> int:
        return self._by_caller.get(caller, 0)

    def admit(self, caller: str, size: int) -> None:
        """Raises TooManyRequests or Unavailable where `size` more bytes are too many.

        One caller may have half of the budget. The last quarter is for small messages. A caller
        that holds nothing may have one message of any size; otherwise a large task could not be
        read at all.
        """
        own = self._by_caller.get(caller, 0) if caller else 0
        if own and own + size > self.max_bytes // 2:
            raise TooManyRequests(
                f"The gateway holds {own} bytes for you already, in requests that you have not "
                "finished and answers that you have not read; read them, then try again",
                retry_after_s=RETRY_AFTER_S,
            )
        held, quarter = self.held_bytes, self.max_bytes // 4
        if held > quarter and held + size > self.max_bytes - quarter:
            raise Unavailable(
                "The gateway holds as much for its callers as it may (server.max_held_bytes); "
                "what was done stays done: read the task again later",
                retry_after_s=RETRY_AFTER_S,
            )

    def hold(self, caller: str, size: int) -> None:
        self.held_bytes += size
        if caller:
            self._by_caller[caller] = self._by_caller.get(caller, 0) + size

    def release(self, caller: str, size: int) -> None:
        self.held_bytes -= size
        if caller:
            left = self._by_caller[caller] - size
            if left:
                self._by_caller[caller] = left
            else:
                del self._by_caller[caller]
