"""From the one who talks to the upstream to the one who records what it said."""

import asyncio
from collections import deque

from trunkline.backends.output_channel import size_of
from trunkline.model.outputs import Output

# How far the upstream may be ahead of the gateway. The first bounds what small events cost
# beside their bytes; the second is one event where they are large, which then waits alone.
MAX_AHEAD = 64
MAX_AHEAD_BYTES = 1024 * 1024


class Pipe:
    """One writer, one reader. After `end` the reader gets what is left, then None."""

    def __init__(self) -> None:
        self._said: deque[tuple[Output, int]] = deque()
        self._bytes = 0
        self.is_ended = False
        self._error: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    async def put(self, output: Output) -> None:
        """Waits while the reader is far behind, and not for one that has left."""
        if self.is_ended:
            return
        size = size_of(output)
        self._said.append((output, size))
        self._bytes += size
        _wake(self._reader)
        if len(self._said) > MAX_AHEAD or self._bytes > MAX_AHEAD_BYTES:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def end(self, error: BaseException | None = None) -> None:
        self.is_ended = True
        self._error = error
        _wake(self._reader)

    def drop(self) -> None:
        """Nobody wants what is left."""
        self._said.clear()
        self._bytes = 0
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
        output, size = self._said.popleft()
        self._bytes -= size
        is_near = len(self._said) <= MAX_AHEAD // 2 and self._bytes <= MAX_AHEAD_BYTES // 2
        if self._writer is not None and is_near:
            _wake(self._writer)
        return output


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
