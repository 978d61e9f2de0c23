"""Whether the caller of a turn gave up."""

import asyncio


class Cancellation:
    """Set on the loop, read from any thread."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: asyncio.Event | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        if self._is_set:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()
