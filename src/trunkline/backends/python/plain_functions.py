"""`PlainFunctionRun`: one turn of an agent that is a plain function, in a thread of its own."""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from trunkline.backends.output_channel import OutputChannel
from trunkline.backends.python.async_functions import AsyncFunctionRun, as_exception
from trunkline.backends.python.decorator import Agent, AgentFunction
from trunkline.backends.python.outputs import Answer, TurnEnd, end_in, outputs_of_result
from trunkline.backends.python.turn import Cancellation, Turn
from trunkline.backends.turn_task import done_within
from trunkline.model.outputs import ENDS_TURN, Failed, Output
from trunkline.ports.clock import Clock

log = logging.getLogger(__name__)


class PlainFunctionRun(Struct, eq=False, kw_only=True, weakref=True):
    """A thread cannot be made to stop, only asked. So the outputs come over a channel that the
    reader can leave, and an agent that ignores its cancellation keeps no reader waiting. If the
    function returns an awaitable or an async iterator, an `AsyncFunctionRun` takes over on the
    loop: a decorator may hide that the function is a coroutine function.
    """

    agent: Agent
    turn: Turn
    name: str
    cancellation: Cancellation
    clock: Clock
    grace_s: float
    # The runs of the agent whose threads have not ended.
    live: set["PlainFunctionRun"]
    # Makes the run of the rest that needs the loop.
    go_on: Callable[[AgentFunction, Turn], AsyncFunctionRun]
    loop: asyncio.AbstractEventLoop
    channel: OutputChannel
    # Done when the agent's code is really over.
    stopped: asyncio.Future[None]
    _rest: Any = None

    async def outputs(self) -> AsyncGenerator[Output, None]:
        if self.cancellation.is_set():
            return
        # Canceled turns count too, until their threads end.
        if len(self.live) >= self.agent.max_threads:
            yield Failed(
                f"The agent is busy: it runs {self.agent.max_threads} turns at a time, no more."
            )
            return
        self.live.add(self)
        context = contextvars.copy_context()
        # A daemon, so that an agent that never returns cannot keep the process alive.
        threading.Thread(
            target=context.run, args=(self._work,), name=self.name, daemon=True
        ).start()
        try:
            while (output := await self.channel.take()) is not None:
                yield output
            if self.cancellation.is_set():
                await self._until_stopped()
            elif self._rest is not None:
                rest = self.go_on(lambda turn: self._rest, self.turn)
                async with aclosing(rest.outputs()) as outputs:
                    async for output in outputs:
                        yield output
        finally:
            if self.stopped.done():
                self.live.discard(self)
            self.cancel()

    def cancel(self) -> None:
        """Ask the agent to stop, and ignore its further outputs."""
        if not self.stopped.done() and not self.cancellation.is_set():
            self.cancellation.set()
            self.channel.close()

    @property
    def is_busy(self) -> bool:
        return not self.stopped.done()

    async def _until_stopped(self) -> None:
        """Wait until the agent's code is really over, but not for longer than the grace."""
        if self.is_busy and not await done_within(self.stopped, self.grace_s, self.clock):
            log.warning("an agent ignores its cancellation", extra={"run": self.name})

    def _work(self) -> None:
        """Run the agent, in the thread."""
        last: Output | None = None
        failure: BaseException | None = None
        try:
            last = self._play()
        except BaseException as error:  # noqa: BLE001 - the reader of the outputs gets it
            failure = error
        try:
            self.loop.call_soon_threadsafe(self._finish, last, failure)
        except RuntimeError:
            # The loop is closed: the gateway has ended and no longer waits for this thread.
            log.debug("an agent outlived its gateway", extra={"run": self.name})

    def _play(self) -> Output | None:
        """Returns the last output instead of putting it, because it may go out only after the
        `finally` blocks of the function."""
        try:
            result = self.agent.fn(self.turn)
            if inspect.isawaitable(result) or hasattr(result, "__aiter__"):
                self._rest = result
                return None
            if inspect.isgenerator(result):
                return self._stream(result)
            *outputs, last = outputs_of_result(result)
        except (TurnEnd, BaseExceptionGroup) as error:
            return _output_of_end(error)
        for output in outputs:
            self.channel.put_from_thread(output)
        return last

    def _stream(self, values: Generator[object, Any, object]) -> Output | None:
        answer = Answer(streams=True)
        is_over = False
        try:
            while not is_over and not self.turn.is_canceled:
                try:
                    value = next(values)
                except StopIteration as stop:
                    value, is_over = stop.value, True
                for output in answer.outputs(value):
                    if isinstance(output, ENDS_TURN):
                        return output
                    self.channel.put_from_thread(output)
        except (TurnEnd, BaseExceptionGroup) as error:
            return answer.completed(_output_of_end(error))
        finally:
            values.close()
        return answer.end()

    def _finish(self, last: Output | None, failure: BaseException | None) -> None:
        """On the loop, when the agent's code is over: its thread no longer counts."""
        if self._rest is None or self.cancellation.is_set():
            self.live.discard(self)
        if failure is not None and self.cancellation.is_set():
            log.info("an agent failed while it was canceled", exc_info=failure)
        if last is not None:
            self.channel.put_now(last)
        self.channel.finish(None if failure is None else as_exception(failure))
        self.stopped.set_result(None)


def _output_of_end(error: BaseException) -> Output:
    if (end := end_in(error)) is None:
        raise error
    return end.output
