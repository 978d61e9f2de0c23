"""A turn that is a request to somebody else: in a task of its own, which a cancel ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from trunkline.model.outputs import Output

# Outputs that may wait for whoever reads them.
_AHEAD: Final = 64

Emit = Callable[[Output], Awaitable[None]]


class Asked:
    """`work` emits everything, the end included. A cancel reaches it wherever it waits."""

    def __init__(self, name: str, work: Callable[[Emit], Awaitable[None]]) -> None:
        self._name = name
        self._do = work
        self._outputs: asyncio.Queue[Output | None] = asyncio.Queue(_AHEAD)
        self._task: asyncio.Task[None] | None = None
        self._is_canceled = False

    async def outputs(self) -> AsyncGenerator[Output, None]:
        if self._is_canceled:
            return
        self._task = asyncio.get_running_loop().create_task(self._work(), name=self._name)
        self._task.add_done_callback(self._wake)
        try:
            while (output := await self._next()) is not None:
                yield output
            if not self._is_canceled:
                await self._task
        finally:
            self.cancel()
            await self.ended()

    async def _next(self) -> Output | None:
        """The next output; None at the end."""
        if self._is_canceled:
            return None
        return await self._outputs.get()

    def cancel(self) -> None:
        """Stop asking, and close the connection."""
        self._is_canceled = True
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        if self._task is not None and not self._task.done():
            _ = await asyncio.wait({self._task})

    async def _work(self) -> None:
        await self._do(self._outputs.put)
        await self._outputs.put(None)

    def _wake(self, task: "asyncio.Task[None]") -> None:
        """A reader that waits learns of an end that came by cancel or by an exception."""
        if task.cancelled() or task.exception() is not None:
            while self._outputs.full():
                _ = self._outputs.get_nowait()
            self._outputs.put_nowait(None)
