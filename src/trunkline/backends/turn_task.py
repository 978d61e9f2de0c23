"""`TurnTask`: a turn that a background task carries out, and `TurnTaskBackend` that runs them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from trunkline.backends.output_channel import OutputChannel
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import ENDS_TURN, Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock


class TurnTask(ABC):
    """One turn. `work` runs in a separate asyncio task, so that it can wind down properly
    whenever and however the reader leaves. A cancel reaches it wherever it waits, once.
    """

    # Whether the work continues after the reader got the end of the turn, and ends by itself.
    winds_down = True

    def __init__(
        self, turn: TurnRequest, tasks: BackgroundTasks, channel: OutputChannel | None = None
    ) -> None:
        self.turn = turn
        self.channel = channel or OutputChannel()
        self.tasks = tasks
        self._task: asyncio.Task[None] | None = None
        self._is_canceled = False

    @abstractmethod
    async def work(self) -> None:
        """Put the outputs of the agent into the channel, up to the one that ends the turn."""

    async def outputs(self) -> AsyncGenerator[Output, None]:
        if self._is_canceled:
            return
        self._task = self.tasks.start(self._run(), name=f"turn {self.turn.run_id}")
        has_ended = False
        try:
            while not has_ended and (output := await self.channel.take()) is not None:
                has_ended = isinstance(output, ENDS_TURN)
                if has_ended and self.channel.is_flooded:
                    await self.stop()
                yield output
        finally:
            if not (has_ended and self.winds_down):
                self.cancel()

    def cancel(self) -> None:
        """End the outputs at once, and the work soon."""
        self.channel.close()
        self.cancel_work()

    def cancel_work(self) -> None:
        if not self._is_canceled:
            self._is_canceled = True
            if self._task is not None:
                self._task.cancel()

    async def stop(self) -> None:
        """Cancel the turn, also where the agent runs elsewhere."""
        self.cancel()

    async def ended(self) -> None:
        """Wait until the work has ended, or has wound down."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        failure: Exception | None = None
        try:
            await self.work()
        except Exception as error:  # noqa: BLE001 - the reader of the outputs gets it
            failure = error
        finally:
            self.channel.finish(failure)


T = TypeVar("T", bound=TurnTask)


class TurnTaskBackend(ABC, Generic[T]):
    """The common part of all backends whose turns are `TurnTask`s."""

    may_reply_directly = False
    is_pure = False
    # Most agents end with the gateway, or with their connection to it.
    can_resume = False

    def __init__(self, owner: str) -> None:
        self.tasks = BackgroundTasks(owner)
        # Weak: a reader that never begins to iterate never reports its end.
        self._turns: WeakValueDictionary[str, T] = WeakValueDictionary()

    @abstractmethod
    def turn_task(self, turn: TurnRequest) -> T: ...

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        task = self._turns[turn.run_id] = self.turn_task(turn)
        return task.outputs()

    def turn_of(self, run_id: str) -> T | None:
        return self._turns.get(run_id)

    async def cancel(self, run_id: str) -> None:
        if (turn := self.turn_of(run_id)) is not None:
            await turn.stop()

    def cancel_turns(self) -> None:
        """Cancel all turns. Agents that run elsewhere continue."""
        for turn in tuple(self._turns.values()):
            turn.cancel()

    async def end_turns(self) -> None:
        """Cancel all turns, and wait until they have wound down."""
        self.cancel_turns()
        for turn in tuple(self._turns.values()):
            await turn.ended()

    async def close(self) -> None:
        await self.end_turns()
        await self.tasks.close()


async def done_within(future: "asyncio.Future[Any]", seconds: float, clock: Clock) -> bool:
    """Wait for the future, but no longer than `seconds`; returns whether it is done."""
    async with asyncio.TaskGroup() as group:
        timer = group.create_task(clock.sleep(seconds))
        try:
            await asyncio.wait({future, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
    return future.done()
