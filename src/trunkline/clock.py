"""The system's clock, ids and chance: what whoever brings no other gets."""

import asyncio
import os
import random
import time
import uuid

# Random tails, which are 64 bits each, are drawn in blocks of so many.
_TAILS = 512
# The first hexadecimal digit of a tail, which has the variant in its two upper bits.
_VARIANT = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}
# Counters as they are written, because to look one up takes a tenth of formatting it.
_COUNTS = [f"{count:03x}" for count in range(0x1000)]


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Called for every request, so without a function of ours around it.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Uuid7Ids:
    """UUIDs of version 7: 48 bits of time, a counter within the millisecond, 62 random bits.

    They sort by time, so that new rows land beside each other in the store's indices.
    """

    def __init__(self) -> None:
        self._ms = 0
        self._prefix = ""
        self._count = 0
        # Random tails, drawn in blocks: one call of the system for many ids.
        self._tails: list[str] = []

    def new(self) -> str:
        ms = time.time_ns() // 1_000_000
        if ms <= self._ms and self._count < 0xFFF:
            self._count += 1
        else:  # a new millisecond, or more than 4096 in one: borrow from the next
            self._ms = max(ms, self._ms + 1)
            self._count = 0
            stamp = f"{self._ms:012x}"
            self._prefix = f"{stamp[:8]}-{stamp[8:]}-7"
        if not self._tails:
            self._tails = _random_tails()
        return f"{self._prefix}{_COUNTS[self._count]}-{self._tails.pop()}"


def _random_tails() -> list[str]:
    """The last 64 bits of so many ids: the variant's two bits and 62 random ones."""
    digits = os.urandom(_TAILS * 8).hex()
    return [
        f"{_VARIANT[digits[at]]}{digits[at + 1 : at + 4]}-{digits[at + 4 : at + 16]}"
        for at in range(0, len(digits), 16)
    ]


class Uuid4Ids:
    """Ids of which nothing can be told, not even when they were made."""

    def new(self) -> str:
        return str(uuid.uuid4())


def chance() -> float:
    """At least 0, less than 1: spreads retries, and needs no secrecy."""
    return random.random()


def new_key() -> str:
    """An idempotency key, or the id of a message, that nobody else will use."""
    return os.urandom(16).hex()
