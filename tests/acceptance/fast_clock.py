"""Runs the command line with a clock that is `CLOCK_FACTOR` times as fast, so that heartbeats,
waits and limits of time pass sooner. With `CLOCK_AHEAD_S` it is wrong by so much."""

import asyncio
import os
import time

from trunkline.cli import main
from trunkline.clock import SystemClock
from trunkline.remote import websocket


def hurry(factor: float) -> None:
    def monotonic() -> float:
        return time.monotonic() * factor

    async def sleep(self: SystemClock, seconds: float) -> None:
        await asyncio.sleep(seconds / factor)

    # How long a peer that is gone may take to answer a close.
    websocket._CLOSE_S /= factor  # type: ignore[misc]
    SystemClock.monotonic = staticmethod(monotonic)
    SystemClock.sleep = sleep  # type: ignore[method-assign]


def go_wrong(ahead_s: float) -> None:
    def now_ms(self: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + round(ahead_s * 1000)

    SystemClock.now_ms = now_ms  # type: ignore[method-assign]


if __name__ == "__main__":
    hurry(float(os.environ["CLOCK_FACTOR"]))
    go_wrong(float(os.environ.get("CLOCK_AHEAD_S", "0")))
    main()
