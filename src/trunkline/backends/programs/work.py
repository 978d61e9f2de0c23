"""One turn of a program, from its reader's point of view: begun, heard, stopped, over."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

from trunkline.backends.programs import failures
from trunkline.backends.programs.children import CannotStart, Children, TooMany
from trunkline.backends.programs.outbox import Outbox
from trunkline.backends.programs.prompt import CannotTell
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import ENDS_TURN, Failed, Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock

_log = logging.getLogger("trunkline.process")

# How long a program may take to end once it has nothing more to say.
EXIT_S = 5.0


class Work(ABC):
    """The work is done by a task of its own, so that a program is wound down properly
    whenever and however its reader leaves. Stopping it cancels `work`, once.
    """

    def __init__(
        self,
        turn: TurnRequest,
        *,
        children: Children,
        clock: Clock,
        tasks: BackgroundTasks,
        program: str,
    ) -> None:
        self.turn = turn
        self.outbox = Outbox()
        self._limits = children.limits
        self._clock = clock
        self._tasks = tasks
        self._program = program
        self._task: asyncio.Task[None] | None = None
        self._is_canceled = False

    @abstractmethod
    async def work(self) -> None:
        """Take the turn: put into the outbox what the agent says, and what ends the turn."""

    async def outputs(self) -> AsyncGenerator[Output, None]:
        if self._is_canceled:
            return
        self._task = self._tasks.start(self._run(), name=f"program {self.turn.run_id}")
        has_ended = False
        try:
            while (output := await self.outbox.take()) is not None:
                has_ended = isinstance(output, ENDS_TURN)
                yield output
                if has_ended:
                    return
        finally:
            if not has_ended:
                self.cancel()

    def cancel(self) -> None:
        """Stop the program, and listen to it no longer."""
        self.outbox.leave()
        self._stop()

    async def over(self) -> None:
        """Wait until the program is, or has taken the news that it is not wanted."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def _stop(self) -> None:
        if not self._is_canceled:
            self._is_canceled = True
            if self._task is not None:
                self._task.cancel()

    async def _run(self) -> None:
        timer = self._tasks.start(self._watch_time(), name=f"time {self.turn.run_id}")
        error: Exception | None = None
        try:
            await self.work()
        except CannotTell as problem:
            self.outbox.add(Failed(str(problem)))
        except CannotStart as problem:
            _log.error("program could not be started: %s", problem, extra=self.extra())
            self.outbox.add(Failed(failures.CANNOT_START))
        except TooMany:
            maximum = self._limits.max_processes
            self.outbox.add(Failed(failures.busy(maximum)))
        except Exception as problem:  # noqa: BLE001 - whoever reads the outputs gets it
            error = problem
        finally:
            timer.cancel()
            self.outbox.end(error)

    async def _watch_time(self) -> None:
        limit_s = self._limits.timeout_s
        await self._clock.sleep(limit_s)
        _log.warning("program took too long", extra=self.extra())
        self.outbox.add(Failed(failures.timed_out(limit_s)))
        self._stop()

    def extra(self) -> dict[str, object]:
        """What a log record says about the turn."""
        turn = self.turn
        return {
            "agent": turn.agent,
            "run_id": turn.run_id,
            "task_id": turn.task_id,
            "program": self._program,
        }
