"""The system's clock, and ids that are random and sort by time."""

import asyncio
import os
import time

_RANDOM_BLOCK_BYTES = 4096


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Uuid7Ids:
    """UUIDs of version 7: 48 bits of time, a counter within the millisecond, 62 random bits.

    They sort by time, so that new rows land beside each other in the store's indices.
    """

    def __init__(self) -> None:
        self._ms = 0
        self._count = 0
        self._random = ""
        self._used = 0

    def new(self) -> str:
        ms = time.time_ns() // 1_000_000
        if ms > self._ms:
            self._ms = ms
            self._count = 0
        elif self._count < 0xFFF:
            self._count += 1
        else:  # more than 4096 in a millisecond: borrow from the next one
            self._ms += 1
            self._count = 0
        used = self._used
        if used + 16 > len(self._random):
            self._random = os.urandom(_RANDOM_BLOCK_BYTES).hex()
            used = 0
        self._used = used + 16
        tail = self._random[used : used + 16]
        stamp = f"{self._ms:012x}"
        variant = "89ab"[int(tail[0], 16) & 3]
        return f"{stamp[:8]}-{stamp[8:]}-7{self._count:03x}-{variant}{tail[1:4]}-{tail[4:]}"
