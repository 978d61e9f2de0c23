"""The system's clock and chance, for who brings no other."""

import asyncio
import os
import random
import time
import uuid


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def chance() -> float:
    """At least 0, less than 1: spreads retries, and needs no secrecy."""
    return random.random()


def new_key() -> str:
    """An idempotency key, or the id of a message, that nobody else will use."""
    return os.urandom(16).hex()


class Uuid4Ids:
    """Ids of which nothing can be told, not even when they were made."""

    def new(self) -> str:
        return str(uuid.uuid4())
