"""Background work: every asyncio task has an owner, a name and a place for its exception."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar

_log = logging.getLogger("trunkline.tasks")

T = TypeVar("T")


class BackgroundTasks:
    """The asyncio tasks of one owner. `close` cancels what is left and waits for it."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        # Kept, because to ask which one is running takes a system call.
        return asyncio.get_running_loop()

    def spawn(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run it in the background."""
        _ = self.start(coroutine, name=name)

    def start(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run it in the background, for a caller who wants to wait for it or to end it."""
        task = self._loop.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error(
                "background task failed",
                exc_info=error,
                extra={"owner": self._owner, "task": task.get_name()},
            )

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self, *, grace_s: float = 1.0) -> None:
        """Cancel all. A task that ignores it is left behind after the grace, and logged."""
        pending = set(self._tasks)
        for task in pending:
            task.cancel()
        if pending:
            _, stuck = await asyncio.wait(pending, timeout=grace_s)
            for task in stuck:
                _log.warning(
                    "background task ignores cancellation",
                    extra={"owner": self._owner, "task": task.get_name()},
                )


async def next_pass() -> None:
    """Let everything else that is ready run before a long piece of work goes on."""
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_set, passed)
    await passed


def _set(passed: "asyncio.Future[None]") -> None:
    if not passed.done():
        passed.set_result(None)
