"""`AsyncFunctionRun`: one turn of an async agent, in the task that reads its outputs.

The runtime has a task for every turn already, so the run needs neither a task nor a queue. An
agent that swallows its cancellation blocks that task alone; the runtime stops waiting for it
after a grace.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from types import AsyncGeneratorType
from typing import Any

from msgspec import Struct

from trunkline.backends.python.decorator import AgentFunction
from trunkline.backends.python.outputs import Answer, end_in, outputs_of_result
from trunkline.backends.python.turn import Cancellation, Turn
from trunkline.model.errors import AgentError
from trunkline.model.outputs import ENDS_TURN, Output, Text


class AsyncFunctionRun(Struct, eq=False):
    fn: AgentFunction
    turn: Turn
    run_id: str
    cancellation: Cancellation
    # Contains the run until its outputs end.
    live: dict[str, "AsyncFunctionRun"]
    # A parameter, because `get_running_loop` makes a system call.
    loop: asyncio.AbstractEventLoop
    # The reader's task while it is inside the agent's code, where a cancel must reach.
    _task: asyncio.Task[Any] | None = None
    _cancel_sent: bool = False
    _over: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        self.live[self.run_id] = self

    async def outputs(self) -> AsyncGenerator[Output, None]:
        cancellation = self.cancellation
        if cancellation.is_set():
            self._leave()
            return
        loop = self.loop
        self._task = asyncio.current_task(loop)
        answer = Answer(streams=True)
        ending: Output | None = None
        values: Any = None
        try:
            values = self.fn(self.turn)
            # Most agents are generators, and this cheap test spares them the expensive ones.
            if type(values) is not AsyncGeneratorType:
                if inspect.isawaitable(values):
                    values = await values
                if not hasattr(values, "__aiter__"):
                    values = _one(outputs_of_result(values))
            async for value in values:
                for output in () if cancellation.happened else answer.outputs(value):
                    if type(output) is not Text and isinstance(output, ENDS_TURN):
                        ending = output
                        break
                    self._task = None
                    yield output
                    self._task = asyncio.current_task(loop)
                # A canceled generator is closed where it yields, even if it swallowed the cancel.
                if ending is not None or cancellation.happened:
                    break
            else:
                # The iterator has ended by itself, so `_close` need not close it.
                values = None
            ending = ending or answer.end()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again unless it means an end
            ending = self._ending(error, answer)
        finally:
            # A turn is over when the agent's `finally` blocks have run.
            await self._close(values)
        if ending is not None and not cancellation.happened:
            yield ending

    def cancel(self) -> None:
        """Ask the agent to stop, and ignore its further outputs."""
        if self.cancellation.is_set():
            return
        self.cancellation.set()
        if self._task is not None:
            self._cancel_sent = True
            self._task.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether the agent's code runs now, and does not wait for the reader."""
        return self._task is not None

    @property
    def stopped(self) -> asyncio.Future[None]:
        """Done when the agent's code is really over."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
            if self.live.get(self.run_id) is not self:
                self._over.set_result(None)
        return self._over

    def _ending(self, error: BaseException, answer: Answer) -> Output | None:
        """The end that the exception stands for. Raises any other exception for the reader."""
        if isinstance(error, asyncio.CancelledError):
            if self._is_for_reader():
                raise error
            if self.cancellation.is_set():
                return None
        end = end_in(error)
        if end is not None:
            return answer.completed(end.output)
        raise as_exception(error)

    def _is_for_reader(self) -> bool:
        """Whether a CancelledError is meant for the reader; `cancel` means the agent alone."""
        task = asyncio.current_task()
        assert task is not None
        if self._cancel_sent:
            self._cancel_sent = False
            task.uncancel()
        return task.cancelling() > 0

    async def _close(self, values: Any) -> None:
        try:
            if values is not None and (close := getattr(values, "aclose", None)) is not None:
                await close()
        finally:
            self._task = None
            self._leave()
            if self._over is not None and not self._over.done():
                self._over.set_result(None)

    def _leave(self) -> None:
        if self.live.get(self.run_id) is self:
            del self.live[self.run_id]


def as_exception(error: BaseException) -> Exception:
    """The exception for the reader: an agent's SystemExit must not end the gateway."""
    if isinstance(error, Exception):
        return error
    failure = AgentError(f"The agent ended with {type(error).__name__}.")
    failure.__cause__ = error
    return failure


async def _one(outputs: list[Output]) -> AsyncIterator[Output]:
    for output in outputs:
        yield output
