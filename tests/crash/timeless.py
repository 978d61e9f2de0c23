"""`TimelessStore`: a crashing store whose calls take no time of a fake clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from trunkline.ports.store import Store
from trunkline.testing import CrashingStore
from trunkline.testing.clock import settle

T = TypeVar("T")


class TimelessStore(CrashingStore):
    """Tells when all calls are answered. A test that waits for it before it lets time pass does
    not end a lease because the disk is slow."""

    def __init__(
        self, inner: Store, *, crash_on: int, when: Literal["before", "after"] = "before"
    ) -> None:
        super().__init__(inner, crash_on=crash_on, when=when)
        self.under_way = 0
        self.answered = asyncio.Event()

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        self.under_way += 1
        self.answered.clear()
        try:
            return await super()._pass_on(call)
        finally:
            self.under_way -= 1
            if not self.under_way:
                self.answered.set()


async def all_answered(*stores: TimelessStore) -> None:
    await settle()
    while at_work := [store for store in stores if store.under_way]:
        await at_work[0].answered.wait()
        # An answer may lead to the next call.
        await settle()
