"""Outputs of a run on their way to whoever reads the turn."""

import asyncio
from collections import deque

from trunkline.model.outputs import Output

# How far a run may be ahead of its reader. What is beyond waits in the program's pipe.
MAX_WAITING = 64


class Outbox:
    """One side puts, one side takes. Either may leave first."""

    def __init__(self) -> None:
        self._waiting: deque[Output] = deque()
        self._ended = False
        self._error: BaseException | None = None
        self._is_left = False
        self._moved = asyncio.Event()

    async def put(self, output: Output) -> None:
        """Waits while the reader is behind. Dropped when it has left."""
        while len(self._waiting) >= MAX_WAITING and not self._is_left:
            self._moved.clear()
            await self._moved.wait()
        self.add(output)

    def add(self, output: Output) -> None:
        """The same without waiting."""
        if not self._is_left and not self._ended:
            self._waiting.append(output)
            self._moved.set()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing follows. With an error, the reader gets it in the end."""
        if not self._ended:
            self._ended, self._error = True, error
            self._moved.set()

    def leave(self) -> None:
        """Nobody reads any more: what waits is dropped, and whoever puts goes on at once."""
        self._is_left = True
        self._waiting.clear()
        self._moved.set()

    async def take(self) -> Output | None:
        """The next output; None at the end."""
        while not self._waiting:
            if self._is_left:
                return None
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            self._moved.clear()
            await self._moved.wait()
        self._moved.set()
        return self._waiting.popleft()
