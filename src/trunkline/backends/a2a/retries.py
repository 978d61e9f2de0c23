"""`Retries`: calls to an upstream agent that are repeated until it can be reached."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from trunkline.ports.clock import Clock
from trunkline.remote.errors import RemoteError

T = TypeVar("T")

# Between two attempts to reach an agent.
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 10.0


class Retries:
    def __init__(
        self,
        clock: Clock,
        *,
        retry_s: float,
        on_failure: Callable[[RemoteError], None],
        on_waiting: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_waiting` is told once for each call that has to wait."""
        self._clock = clock
        self._retry_s = retry_s
        self._on_failure = on_failure
        self._on_waiting = on_waiting

    async def until_done(
        self, call: Callable[[], Awaitable[T]], may_repeat: Callable[[RemoteError], bool]
    ) -> T:
        until = self._clock.monotonic() + self._retry_s
        pause_s, is_told = FIRST_RETRY_S, False
        while True:
            try:
                return await call()
            except RemoteError as error:
                if not may_repeat(error) or self._clock.monotonic() + pause_s > until:
                    raise
                self._on_failure(error)
            if not is_told:
                is_told = True
                await self._on_waiting()
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_RETRY_S)
