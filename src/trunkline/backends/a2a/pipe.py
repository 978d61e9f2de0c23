"""From the one who talks to the upstream to the one who records what it said."""

import asyncio
from collections import deque

from trunkline.model.outputs import Output

# How far the upstream may be ahead of the gateway.
MAX_AHEAD = 64


class Pipe:
    """One writer, one reader. After `end` the reader gets what is left, then None."""

    def __init__(self) -> None:
        self._said: deque[Output] = deque()
        self.is_ended = False
        self._error: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    async def put(self, output: Output) -> None:
        """Waits while the reader is far behind, and not for one that has left."""
        if self.is_ended:
            return
        self._said.append(output)
        _wake(self._reader)
        if len(self._said) > MAX_AHEAD:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def end(self, error: BaseException | None = None) -> None:
        self.is_ended = True
        self._error = error
        _wake(self._reader)

    def drop(self) -> None:
        """Nobody wants what is left."""
        self._said.clear()
        self.end()
        _wake(self._writer)

    async def next(self) -> Output | None:
        while not self._said:
            if self._error is not None:
                raise self._error
            if self.is_ended:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        output = self._said.popleft()
        if self._writer is not None and len(self._said) <= MAX_AHEAD // 2:
            _wake(self._writer)
        return output


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
