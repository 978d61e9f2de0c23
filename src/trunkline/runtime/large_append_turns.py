"""`LargeAppendTurns`: lets one task at a time have a large append under way.

A large append takes several times its size in memory, and blocks the event loop for a while.
"""

import asyncio
from collections import deque

from msgspec import Struct, field

from trunkline.model.values import SETTLED
from trunkline.runtime.live_task import LiveTask

# A larger append waits until no other task has one under way. So does the end of a task that
# recorded more than this, because it assembles the whole answer.
LARGE_APPEND_BYTES = 1024 * 1024


class LargeAppendTurns(Struct, eq=False):
    # The task that has a large append under way.
    holder: LiveTask | None = None
    # Tasks whose large append waits for its turn.
    waiting: deque[LiveTask] = field(default_factory=deque)
    # Agents whose last output waits for it.
    _waiters: list[asyncio.Future[None]] = []

    def must_wait(self, live: LiveTask) -> bool:
        """Whether the next append of a task that recorded much must wait. It takes the turn
        otherwise, if it is large."""
        size = live.recorded_bytes - live.flushed_bytes
        is_large = size > LARGE_APPEND_BYTES or live.state in SETTLED
        if is_large and self.holder is None:
            self.holder = live
        return is_large and self.holder is not live

    async def free(self, live: LiveTask) -> None:
        """Wait until no other task has a large append under way."""
        while self.holder is not None and self.holder is not live:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def take(self, live: LiveTask) -> None:
        """Let other large appends wait until the event just recorded is stored."""
        if self.holder is None and live.is_dirty:
            self.holder = live

    def end(self) -> None:
        self.holder = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
