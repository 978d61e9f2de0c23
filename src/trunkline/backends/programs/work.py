"""`ProgramTurn`: one turn of a program, within its time and with its failures in words."""

import logging
from abc import abstractmethod

from trunkline.backends.programs import failures
from trunkline.backends.programs.children import CannotStart, Children, TooMany
from trunkline.backends.programs.prompt import CannotTell
from trunkline.backends.turn_task import TurnTask
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import Failed
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock

_log = logging.getLogger("trunkline.process")

# How long a program may take to end once it has nothing more to say.
EXIT_S = 5.0


class ProgramTurn(TurnTask):
    def __init__(
        self,
        turn: TurnRequest,
        *,
        children: Children,
        clock: Clock,
        tasks: BackgroundTasks,
        program: str,
    ) -> None:
        super().__init__(turn, tasks)
        self._limits = children.limits
        self._clock = clock
        self._program = program

    @abstractmethod
    async def take_turn(self) -> None:
        """Put what the agent says, and what ends the turn, into the channel."""

    async def stop(self) -> None:
        """Returns when the program has ended, or has taken the news that it is not wanted."""
        self.cancel()
        await self.ended()

    async def work(self) -> None:
        timer = self.tasks.start(self._watch_time(), name=f"time {self.turn.run_id}")
        try:
            await self.take_turn()
        except CannotTell as problem:
            self.channel.put_now(Failed(str(problem)))
        except CannotStart as problem:
            _log.error("program could not be started: %s", problem, extra=self.extra())
            self.channel.put_now(Failed(failures.CANNOT_START))
        except TooMany:
            self.channel.put_now(Failed(failures.busy(self._limits.max_processes)))
        finally:
            timer.cancel()

    async def _watch_time(self) -> None:
        limit_s = self._limits.timeout_s
        await self._clock.sleep(limit_s)
        _log.warning("program took too long", extra=self.extra())
        self.channel.put_now(Failed(failures.timed_out(limit_s)))
        self.cancel_work()

    def extra(self) -> dict[str, object]:
        """The fields of a log record about the turn."""
        turn = self.turn
        return {
            "agent": turn.agent,
            "run_id": turn.run_id,
            "task_id": turn.task_id,
            "program": self._program,
        }
