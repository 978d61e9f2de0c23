"""`Wakeups`: wakes the readers of streams, a few in each pass of the event loop."""

import asyncio
from collections import deque

from msgspec import Struct, field

# A reader that wakes up writes to its socket, which takes 20 to 40 µs. A send takes about ten
# passes of the loop from its request to its answer, so waking readers may cost half a millisecond
# in each pass.
MAX_AWAKE = 16


class Wakeups(Struct, eq=False):
    """Shared by all readers of one runtime.

    A reader counts as awake from its wake-up until it runs. While `limit` readers are awake, others
    wait. Each reader that runs makes room for one more, which wakes up in the next pass of the
    event loop, behind everything that is ready by then. Readers that wait for the same news form a
    crowd, and crowds take turns, so that a task with one reader does not wait for the 10,000 of
    another task.
    """

    limit: int = MAX_AWAKE
    _awake: int = 0
    _crowds: deque[deque[asyncio.Future[None]]] = field(default_factory=deque)
    # The crowd that new readers of the same `_news` join.
    _joining: deque[asyncio.Future[None]] | None = None
    _news: object = None

    def wake(self, waiter: "asyncio.Future[None]", news: object) -> None:
        """Wake the reader that waits for the future, now or when its turn comes. `news` identifies
        its crowd."""
        if self._awake < self.limit:
            self._awake += 1
            waiter.set_result(None)
        else:
            self._wait(waiter, news)

    async def turn(self) -> None:
        """Continue in a later pass of the event loop, together with fewer than `limit` others."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        if self._awake < self.limit:
            self._awake += 1
            loop.call_soon(self._resolve, waiter)
        else:
            self._wait(waiter, self)
        try:
            await waiter
        finally:
            if waiter.done() and not waiter.cancelled():
                self.went_on()

    def _resolve(self, waiter: "asyncio.Future[None]") -> None:
        if waiter.done():
            self.went_on()
        else:
            waiter.set_result(None)

    def _wait(self, waiter: "asyncio.Future[None]", news: object) -> None:
        if self._joining is None or self._news is not news:
            self._joining = deque()
            self._news = news
            self._crowds.append(self._joining)
        self._joining.append(waiter)

    def went_on(self) -> None:
        """Count a reader as running that was woken, and wake others in its place."""
        self._awake -= 1
        crowds = self._crowds
        while crowds and self._awake < self.limit:
            crowd = crowds.popleft()
            waiter = crowd.popleft()
            if crowd:
                crowds.append(crowd)
            elif crowd is self._joining:
                self._joining = self._news = None
            # A reader that left meanwhile needs no wake-up.
            if not waiter.done():
                self._awake += 1
                waiter.set_result(None)
