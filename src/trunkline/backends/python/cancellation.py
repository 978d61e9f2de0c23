"""Whether the caller of a turn gave up."""

import asyncio

from msgspec import Struct


class Cancellation(Struct, eq=False):
    """Set on the loop, read from any thread."""

    happened: bool = False
    _event: asyncio.Event | None = None

    def is_set(self) -> bool:
        return self.happened

    def set(self) -> None:
        self.happened = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        if self.happened:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()
