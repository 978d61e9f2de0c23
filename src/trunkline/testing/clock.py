"""`FakeClock` and `SequentialIds`: time and ids that a test decides."""

import asyncio
import heapq
import types
from collections.abc import Generator

# Rounds of the loop in which a woken task can finish its work. A chain of futures takes one
# round per link; the longest in the gateway have about a dozen.
_ROUNDS = 64


class FakeClock:
    """Stands still until `advance`, which wakes sleepers one by one in order of time."""

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed_s = 0.0
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed_s * 1000)

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await _one_round()
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The running number keeps sleepers that wake at the same time in the order of their calls.
        self._order += 1
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, self._order, wake))
        self._tell_watchers()
        await wake

    async def advance(self, seconds: float) -> None:
        """Let time pass. Returns when the sleepers that woke, and the tasks they woke, have run.

        It cannot see threads: wait for what they produce instead.
        """
        until = self._elapsed_s + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            due, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                self._elapsed_s = due
                wake.set_result(None)
                await settle()
        self._elapsed_s = until

    def jump(self, seconds: float) -> None:
        """Set the wall clock, forward or back; no time passes, and no sleeper wakes."""
        self._start_ms += round(seconds * 1000)

    @property
    def sleeping(self) -> int:
        return sum(not wake.done() for _, _, wake in self._sleepers)

    async def wait_until_sleeping(self, count: int = 1) -> None:
        """Wait until that many tasks sleep, so that `advance` cannot come too early."""
        if self.sleeping < count:
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((count, watcher))
            await watcher

    def _tell_watchers(self) -> None:
        for count, watcher in self._watchers:
            if self.sleeping >= count and not watcher.done():
                watcher.set_result(None)
        self._watchers = [item for item in self._watchers if not item[1].done()]


class SequentialIds:
    """`id-000001`, `id-000002`, …"""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._last = 0

    def new(self) -> str:
        self._last += 1
        return f"{self._prefix}-{self._last:06d}"


async def settle() -> None:
    """Let all tasks run until each of them waits."""
    for _ in range(_ROUNDS):
        await _one_round()


@types.coroutine
def _one_round() -> Generator[None, None, None]:
    yield
