"""`ProgramBackend` and `ProgramTurn`: the parts of a backend that every kind of program needs."""

import logging
from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Generic, TypeVar

from trunkline.backends.output_channel import flooded
from trunkline.backends.programs import failures
from trunkline.backends.programs.child import Child, Flooded
from trunkline.backends.programs.children import CannotStart, Children, TooMany
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.prompt import CannotTell
from trunkline.backends.programs.sessions import Kept, Pool, Sessions, session_id
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.turn_task import T, TurnTask, TurnTaskBackend, done_within
from trunkline.model.errors import StoreError
from trunkline.model.outputs import Failed
from trunkline.ports.backend import Notes, TurnRequest
from trunkline.ports.call_path import CALL_PATH, CallPath
from trunkline.ports.clock import Clock
from trunkline.ports.tools import LendsTools, LentTools
from trunkline.protocol import call_chain

_log = logging.getLogger("trunkline.process")

# A program may take this long to end after it has closed its output.
EXIT_S = 5.0


def _path_variables(path: CallPath) -> dict[str, str]:
    """The variables by which the commands of Trunkline know that an agent runs them. A process that
    serves several turns has those of the first."""
    variables: dict[str, str] = {}
    if path.chain:
        variables[call_chain.VARIABLE] = call_chain.encode(path.chain)
    if path.is_isolated:
        variables[call_chain.ISOLATED] = "1"
    return variables


class ProgramBackend(TurnTaskBackend[T], Generic[T, Kept]):
    """Starts a program, and keeps processes between the turns of a session where it `keeps`.

    All programs end with the gateway.
    """

    def __init__(
        self,
        owner: str,
        settings: ProgramSettings,
        *,
        clock: Clock,
        keeps: bool,
        lends_tools: LendsTools | None,
    ) -> None:
        """`keeps`: a process serves all turns of one session. Else each turn has its own."""
        super().__init__(owner)
        self.lends_tools = lends_tools if settings.tools else None
        self.clock = clock
        self.children = Children(settings, clock)
        self.keeps = keeps
        self.pool: Pool[Kept] = Pool(
            clock=clock, tasks=self.tasks, idle_s=settings.idle_s, end=self.dismiss
        )
        self.sessions = Sessions()

    @abstractmethod
    async def dismiss(self, kept: Kept) -> None:
        """End the process: no turn will use it again."""

    async def open(self, agent: str, notes: Notes) -> None:
        # A warning only: the program may be installed while the gateway runs.
        if (missing := self.children.program.missing()) is not None:
            _log.warning("%s. %s", missing.what, missing.remedy, extra={"agent": agent})

    async def presence(self) -> bool:
        """Whether the program is where it would be started."""
        return self.children.program.missing() is None

    async def spawn(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        tools: LentTools | None = None,
    ) -> Child:
        """A new process. Raises CannotStart and TooMany."""
        variables = {**(variables or {}), **_path_variables(CALL_PATH.get())}
        while True:
            try:
                return await self.children.spawn(arguments, variables, tools=tools)
            except TooMany:
                if not await self.pool.retire_one():
                    raise

    async def hear_out(self, hearing: Coroutine[Any, Any, None]) -> bool:
        """Read the rest of an answer that was stopped; whether it ended within the grace."""
        task = self.tasks.start(hearing, name="hear out")
        has_ended = await done_within(task, self.children.settings.stop_grace_s, self.clock)
        task.cancel()
        return has_ended

    async def close(self) -> None:
        await self.end_turns()
        await self.pool.close()
        await self.children.close()
        await self.tasks.close()


B = TypeVar("B", bound=ProgramBackend[Any, Any])


class ProgramTurn(TurnTask, Generic[B]):
    """One turn, which ends in time, and whose failures become outputs."""

    log: ClassVar[logging.Logger] = _log

    def __init__(self, turn: TurnRequest, backend: B) -> None:
        super().__init__(turn, backend.tasks)
        self.backend = backend
        self.limits = backend.children.settings
        self.session = session_id(turn)
        # What is given back at the end of the turn.
        self._lent = AsyncExitStack()
        self._tools: LentTools | None = None

    @abstractmethod
    async def take_turn(self) -> None:
        """Put the outputs of the agent into the channel, up to the one that ends the turn."""

    async def stop(self) -> None:
        """Returns when the program has ended, or has obeyed and is kept."""
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
            self.channel.put_now(Failed(failures.CANNOT_START, is_unreachable=True))
        except TooMany:
            self.channel.put_now(Failed(failures.busy(self.limits.max_processes)))
        finally:
            timer.cancel()
            await self._lent.aclose()

    async def lent_tools(self, kept: Child | None = None) -> LentTools | None:
        """The tools of the turn, for a new process or for one that was `kept`; None where it has
        none. They end a minute after the turn."""
        lender = self.backend.lends_tools
        has_none = kept is not None and kept.tool_token is None
        if lender is None or has_none:
            return None
        if self._tools is None:
            token = None if kept is None else kept.tool_token
            lending = lender.lend(self.turn, self.limits.tools, token=token)
            self._tools = await self._lent.enter_async_context(lending)
        return self._tools

    async def recall(self, name: str) -> str:
        session = self.turn.session
        return (await session.recall(name) or "") if session is not None else ""

    async def keep(self, name: str, text: str) -> None:
        """Store a note. A failure is logged, and the turn continues."""
        if self.turn.session is None:
            return
        try:
            await self.turn.session.keep(name, text)
        except StoreError as error:
            self.log.error("a session could not be noted", extra=self.extra(), exc_info=error)

    def over_limit(self, error: Flooded | LineTooLong) -> str:
        if isinstance(error, Flooded):
            return flooded(self.limits.max_output_bytes)
        return failures.line_too_long(self.limits.max_line_bytes)

    async def _watch_time(self) -> None:
        limit_s = self.limits.timeout_s
        await self.backend.clock.sleep(limit_s)
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
            "program": self.backend.children.program.name,
        }
