"""`bounded`: a request within its limits in time, until its caller aborts it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.tools import Signal
from trunkline.remote.errors import RemoteError
from trunkline.remote.tool.failures import ToolFailure, aborted, timed_out

T = TypeVar("T")


class Limit:
    """The work ends after a silence of `idle_s`, or after `cap_s` in all."""

    def __init__(self, clock: Clock, *, idle_s: float, cap_s: float | None = None) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._end = clock.monotonic() + (idle_s if cap_s is None else cap_s)
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
    signal: Signal | None = None,
    *,
    at: Callable[[Literal["idle", "cap"]], ToolFailure] = lambda _: timed_out(),
) -> T:
    """The result of `work`. Raises a failure when the limit is reached or the signal is set.

    When it returns, `work` has ended.
    """
    if signal is not None and signal.is_set():
        raise aborted()
    why: list[ToolFailure] = []

    async def end_at_limit() -> None:
        end(at(await limit.reached()))

    async def end_at_signal(signal: Signal) -> None:
        await signal.wait()
        end(aborted())

    def end(failure: ToolFailure) -> None:
        if not why:
            why.append(failure)
            scope.reschedule(asyncio.get_running_loop().time())

    watchers, scope = BackgroundTasks("remote_agent"), asyncio.timeout(None)
    try:
        async with scope:
            watchers.spawn(end_at_limit(), name="remote_agent limit")
            if signal is not None:
                watchers.spawn(end_at_signal(signal), name="remote_agent signal")
            result = await work()
        if not scope.expired():
            return result
    except (TimeoutError, RemoteError, ToolFailure):
        # Work that was ended may fail while it cleans up; the caller learns why it was ended.
        if not scope.expired():
            raise
    finally:
        await watchers.close()
    raise why[0]
