"""`ScriptedBackend`: an agent that does what the message says, steered by `Gates`."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from trunkline.backends.scripted.recording import outputs_of_turn, turn_of
from trunkline.backends.scripted.script import Command, ScriptError, outputs_of, parse
from trunkline.background import BackgroundTasks
from trunkline.model import outputs
from trunkline.model.outputs import ENDS_TURN, Failed, Output
from trunkline.model.recordings import Recording
from trunkline.model.values import text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock

_NO_RECORDING: Final = Recording(turns=())


class Gates:
    """Runs wait at a gate until it is opened. An open gate stays open."""

    def __init__(self) -> None:
        self._open: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def wait(self, name: str) -> None:
        self._reached[name].set()
        await self._open[name].wait()

    def open(self, name: str) -> None:
        self._open[name].set()

    async def reached(self, name: str) -> None:
        """Wait until a run has reached the gate."""
        await self._reached[name].wait()


class ScriptedBackend:
    """`docs/guides/testing.md` has the commands. A message without any is echoed.

    With `resumable`, a run that a restart has cut off plays its commands again from the first,
    like an agent that went on in the meantime and repeats everything it has said.

    A test sees what happened in `turns` and `canceled` (the latest thousand of each), and
    steers runs with `gates`. `turn_log` is a file with a line for each turn that ran, which
    outlives the process and so shows a turn that ran twice. With a `recording` it plays that, and
    follows no commands.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        direct: bool = False,
        resumable: bool = False,
        turn_log: str | Path = "",
        recording: Recording = _NO_RECORDING,
    ) -> None:
        self.may_reply_directly = direct
        self.is_pure = False
        self.can_resume = resumable
        self.gates = Gates()
        self.turns: deque[TurnRequest] = deque(maxlen=1000)
        self.canceled: deque[str] = deque(maxlen=1000)
        self._clock = clock
        self._turn_log = turn_log
        self._recording = recording
        self._runs: WeakValueDictionary[str, _Run] = WeakValueDictionary()

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        self.turns.append(turn)
        run = self._runs[turn.run_id] = _Run(turn)
        return self._play(run)

    async def cancel(self, run_id: str) -> None:
        self.canceled.append(run_id)
        if (run := self._runs.get(run_id)) is not None:
            run.cancel()

    async def close(self) -> None:
        for run in tuple(self._runs.values()):
            run.ignores_cancel = False
            run.cancel()

    async def _play(self, run: "_Run") -> AsyncGenerator[Output, None]:
        if self._turn_log:
            _log_turn(self._turn_log, run.turn)
        if self._recording.turns:
            async for output in self._replay(run):
                yield output
            return
        commands = parse(text_of(run.turn.message.parts))
        if not commands and not run.is_over:
            yield outputs.Final(run.turn.message.parts)
        for command in commands:
            try:
                async for output in self._do(command, run):
                    # An agent that ignores its cancellation is not over, so its output goes on.
                    if run.is_over:
                        return
                    yield output
                    if isinstance(output, ENDS_TURN):
                        return
            except ScriptError as error:
                yield Failed(str(error))
                return
            if run.is_over:
                return

    async def _replay(self, run: "_Run") -> AsyncGenerator[Output, None]:
        for pause_s, output in outputs_of_turn(turn_of(self._recording, run.turn)):
            if pause_s:
                await run.pause(self._clock.sleep(pause_s))
            if run.is_over:
                return
            yield output
            if isinstance(output, ENDS_TURN):
                return

    async def _do(self, command: Command, run: "_Run") -> AsyncGenerator[Output, None]:
        match command.name:
            case "delay":
                await run.pause(self._clock.sleep(command.number(command.rest)))
            case "hang":
                while not run.is_over:
                    await run.pause(asyncio.Event().wait())
            case "wait":
                await run.pause(self.gates.wait(command.rest))
            case "open":
                self.gates.open(command.rest)
            case "ignore-cancel":
                run.ignores_cancel = True
            case "crash":
                raise RuntimeError(command.rest or "the script told the agent to crash")
            case _:
                for pause_s, output in outputs_of(command, run.turn):
                    if pause_s:
                        await run.pause(self._clock.sleep(pause_s))
                    yield output


def _log_turn(path: str | Path, turn: TurnRequest) -> None:
    # One write in append mode keeps the lines of several processes apart.
    with open(path, "a") as log:
        log.write(f"{turn.task_id} {turn.message.message_id} {turn.run_id}\n")


class _Run:
    def __init__(self, turn: TurnRequest) -> None:
        self.turn = turn
        self.ignores_cancel = False
        self._is_canceled = False
        self._tasks = BackgroundTasks("scripted agent")
        self._pause: asyncio.Future[Any] | None = None

    @property
    def is_over(self) -> bool:
        return self._is_canceled and not self.ignores_cancel

    def cancel(self) -> None:
        self._is_canceled = True
        if self._pause is not None and not self.ignores_cancel:
            self._pause.cancel()

    async def pause(self, what: Coroutine[Any, Any, object]) -> None:
        """Wait for it, or for the cancel."""
        if self.is_over:
            what.close()
            return
        # Not a TaskGroup, which ends some passes of the loop later than its task.
        self._pause = self._tasks.start(what, name=f"pause {self.turn.run_id}")
        try:
            await asyncio.wait({self._pause})
        finally:
            self._pause.cancel()
