"""How long a request may take, and who else may end it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from trunkline.ports.clock import Clock
from trunkline.ports.tools import Signal
from trunkline.remote.tool.failures import ToolFailure, aborted

T = TypeVar("T")


class Limit:
    """Silence of `idle_s` ends the work, and so does `cap_s` in all."""

    def __init__(self, clock: Clock, *, idle_s: float, cap_s: float) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._end = clock.monotonic() + cap_s
        self._heard = clock.monotonic()

    def touch(self) -> None:
        self._heard = self._clock.monotonic()

    async def reached(self) -> Literal["idle", "cap"]:
        while True:
            now, silence_ends = self._clock.monotonic(), self._heard + self._idle_s
            if now >= self._end:
                return "cap"
            if now >= silence_ends:
                return "idle"
            await self._clock.sleep(min(silence_ends, self._end) - now)


async def bounded(
    work: Callable[[], Coroutine[Any, Any, T]],
    limit: Limit,
    signal: Signal | None,
    *,
    at: Callable[[Literal["idle", "cap"]], ToolFailure],
) -> T:
    """The result of `work`; a failure when the limit is reached or the signal is given.

    When it returns, `work` has ended, and nothing of it is left behind.
    """
    if signal is not None and signal.is_set():
        raise aborted()
    loop = asyncio.get_running_loop()
    main = loop.create_task(work(), name="remote_agent")
    timer = loop.create_task(limit.reached(), name="remote_agent limit")
    ends: set[asyncio.Task[Any]] = {main, timer}
    if signal is not None:
        ends.add(loop.create_task(_given(signal), name="remote_agent signal"))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if main.done():
            return main.result()
        if timer.done():
            raise at(timer.result())
        raise aborted()
    finally:
        for task in ends:
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


async def _given(signal: Signal) -> None:
    await signal.wait()
