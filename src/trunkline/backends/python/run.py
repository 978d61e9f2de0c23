"""One turn of an agent that is a plain function, in a thread of its own."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

from trunkline.backends.python.cancellation import Cancellation
from trunkline.backends.python.handover import Handover
from trunkline.backends.python.turn import Turn
from trunkline.backends.python.workers import Unfinished, work, work_in_thread
from trunkline.model.errors import AgentError
from trunkline.model.outputs import Failed, Output
from trunkline.ports.clock import Clock

log = logging.getLogger(__name__)


class Run:
    """A thread cannot be made to stop, only asked. So the outputs come over a handover that
    the reader can leave: an agent that does not look at its cancellation keeps nobody
    waiting. What the function returns may still need the loop; that part gets a task.
    """

    def __init__(
        self,
        fn: Callable[[Turn], Any],
        turn: Turn,
        *,
        name: str,
        cancellation: Cancellation,
        clock: Clock,
        grace_s: float,
        live: set["Run"],
        limit: int,
    ) -> None:
        self._fn = fn
        self._turn = turn
        self._name = name
        self._cancellation = cancellation
        self._clock = clock
        self._grace_s = grace_s
        self._live = live
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._handover = Handover(self._loop, from_thread=True)
        self._task: asyncio.Task[Output | None] | None = None
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    async def outputs(self) -> AsyncGenerator[Output, None]:
        if self._cancellation.is_set():
            return
        # The turns that were canceled count too, for as long as they really run.
        if len(self._live) >= self._limit:
            yield Failed(f"The agent is busy: it runs {self._limit} turns at a time, no more.")
            return
        self._begin()
        try:
            while (output := await self._handover.take()) is not None:
                yield output
            if self._cancellation.is_set():
                await self._until_stopped()
            elif self._handover.error is not None:
                raise self._handover.error
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Ask the agent to stop, and listen to it no longer."""
        if self._stopped.done() or self._cancellation.is_set():
            return
        self._cancellation.set()
        self._handover.close()
        if self._task is not None:
            self._task.cancel()

    @property
    def is_busy(self) -> bool:
        return not self._stopped.done()

    @property
    def stopped(self) -> asyncio.Future[None]:
        """Done when the agent's code is really over."""
        return self._stopped

    async def _until_stopped(self) -> None:
        """Wait until the agent's code is really over, but not for longer than the grace."""
        if self._stopped.done():
            return
        grace = self._loop.create_task(self._clock.sleep(self._grace_s), name="agent-grace")
        try:
            await asyncio.wait({self._stopped, grace}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            grace.cancel()
        if not self._stopped.done():
            log.warning("an agent ignores its cancellation", extra={"run": self._name})

    def _begin(self) -> None:
        context = contextvars.copy_context()
        # A daemon, so that an agent that never returns cannot keep the process alive.
        threading.Thread(
            target=context.run, args=(self._work_in_thread,), name=self._name, daemon=True
        ).start()
        self._live.add(self)

    def _spawn(self, fn: Callable[[Turn], Any]) -> None:
        self._task = self._loop.create_task(self._work(fn), name=self._name)
        self._task.add_done_callback(self._task_done)
        if self._cancellation.is_set():
            self._task.cancel()

    async def _work(self, fn: Callable[[Turn], Any]) -> Output | None:
        try:
            return await work(fn, self._turn, self._handover)
        except SystemExit as error:
            # Out of a task it would end the gateway.
            raise _as_exception(error) from error

    def _task_done(self, task: asyncio.Task[Output | None]) -> None:
        if task.cancelled():
            self._finish(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self._finish(None, error)
        else:
            self._finish(task.result())

    def _work_in_thread(self) -> None:
        try:
            last = work_in_thread(self._fn, self._turn, self._handover)
        except Unfinished as unfinished:
            rest = unfinished.rest
            self._back_to_the_loop(self._spawn, lambda turn: rest)
        except BaseException as error:  # noqa: BLE001 - whoever reads the outputs gets it
            self._back_to_the_loop(self._finish, None, error)
        else:
            self._back_to_the_loop(self._finish, last)

    def _back_to_the_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop is closed: the gateway is gone, and nobody waits for this thread.
            log.debug("an agent outlived its gateway", extra={"run": self._name})

    def _finish(self, last: Output | None, error: BaseException | None = None) -> None:
        """The agent's code is over. From here on its thread or task counts no more."""
        self._live.discard(self)
        if self._cancellation.is_set():
            if error is not None and not isinstance(error, asyncio.CancelledError):
                log.info("an agent failed while it was canceled", exc_info=error)
            error = None
        self._handover.end(last, None if error is None else _as_exception(error))
        if not self._stopped.done():
            self._stopped.set_result(None)


def _as_exception(error: BaseException) -> Exception:
    """SystemExit and CancelledError mean something to whoever runs us; the agent's do not."""
    if isinstance(error, Exception):
        return error
    failure = AgentError(f"The agent ended with {type(error).__name__}.")
    failure.__cause__ = error
    return failure
