"""The thread that waits for the disk, so that the event loop does not."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_Done = Callable[[Any, BaseException | None], None]


class CommitThread:
    """Runs one piece of work after the other, and reports each to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._work: SimpleQueue[tuple[Callable[[], Any], _Done] | None] = SimpleQueue()
        # A daemon: a process that was not closed properly still exits, and loses
        # nothing that it had acknowledged.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Any], done: _Done) -> None:
        self._work.put((work, done))

    def stop(self) -> None:
        """Let what was handed in finish, then end the thread."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            try:
                result, error = work(), None
            except Exception as failure:  # noqa: BLE001 - goes to the one who waits for it
                result, error = None, failure
            try:
                self._loop.call_soon_threadsafe(done, result, error)
            except RuntimeError:
                # The loop was closed before the store, and with it all who wait.
                return
