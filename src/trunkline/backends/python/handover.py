"""Outputs on their way from an agent's task or thread to the runtime."""

import asyncio
import threading
from collections import deque

from trunkline.model.outputs import Output

# How far an agent may run ahead of the journal. Enough to wake the reader once for a
# burst of text, little enough that an agent that never pauses does not fill memory.
MAX_AHEAD = 64


class Handover:
    """Bounded, one writer, one reader; belongs to the loop that created it.

    The writer is a coroutine (`put`) or a thread (`put_from_thread`).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, from_thread: bool = False) -> None:
        self._loop = loop
        self._outputs: deque[Output] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._thread_room = threading.Semaphore(MAX_AHEAD) if from_thread else None
        self._closed = False
        self.is_ended = False
        self.error: Exception | None = None

    async def put(self, output: Output) -> None:
        while len(self._outputs) >= MAX_AHEAD and not self._closed:
            self._writer = self._loop.create_future()
            await self._writer
        self._append(output)

    def put_from_thread(self, output: Output) -> None:
        assert self._thread_room is not None
        self._thread_room.acquire()
        if self._closed:
            # Leave the door open: there is room for everything that nobody will read.
            self._thread_room.release()
        else:
            self._loop.call_soon_threadsafe(self._append, output)

    def end(self, last: Output | None = None, error: Exception | None = None) -> None:
        """The writer is through, with a last output or an error."""
        self.is_ended = True
        self.error = error
        if last is not None:
            self._append(last)
        _wake(self._reader)

    def close(self) -> None:
        """The reader is through: nothing gets in any more, and no writer waits."""
        self._closed = True
        self._outputs.clear()
        self._make_room()
        _wake(self._reader)

    async def take(self) -> Output | None:
        """The next output; None after the last one, or after `close`."""
        while not self._outputs:
            if self.is_ended or self._closed:
                return None
            self._reader = self._loop.create_future()
            await self._reader
        self._make_room()
        return self._outputs.popleft()

    def _make_room(self) -> None:
        if self._thread_room is not None:
            self._thread_room.release()
        _wake(self._writer)

    def _append(self, output: Output) -> None:
        if not self._closed:
            self._outputs.append(output)
            _wake(self._reader)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
