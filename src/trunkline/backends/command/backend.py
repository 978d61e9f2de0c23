"""Puts a program behind the `Backend` port."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Format
from trunkline.backends.command.means import Means
from trunkline.backends.command.run import Run
from trunkline.backends.command.settings import CommandBackend as CommandSettings
from trunkline.backends.command.text import TextFormat
from trunkline.backends.kind import Resources
from trunkline.backends.programs.children import Children, Limits, limits_of
from trunkline.backends.programs.missing import warn_if_missing
from trunkline.backends.programs.pool import Pool
from trunkline.backends.programs.program import Program, program_of
from trunkline.backends.programs.scope import Sessions
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import Output
from trunkline.ports.backend import Notes, TurnRequest
from trunkline.ports.clock import Clock


class CommandBackend:
    may_reply_directly = False
    is_pure = False
    # A program dies with the gateway; what it has said by then is what there is.
    can_resume = False

    def __init__(
        self,
        program: Program,
        format: Format,
        *,
        clock: Clock,
        limits: Limits | None = None,
        keeps_for_s: float | None = None,
        has_folder: bool = False,
    ) -> None:
        """`keeps_for_s`: a process serves the turns of one session, and ends when it was idle
        for so long. None: each turn has a process of its own."""
        self._tasks = BackgroundTasks("command")
        self._children = Children(clock, limits or Limits())
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()
        means = Means(
            program=program,
            format=format,
            children=self._children,
            pool=None,
            sessions=Sessions(),
            clock=clock,
            tasks=self._tasks,
            has_folder=has_folder,
        )
        if keeps_for_s is not None:
            means.pool = Pool(clock=clock, tasks=self._tasks, idle_s=keeps_for_s, end=means.dismiss)
        self._means = means

    async def open(self, agent: str, notes: Notes) -> None:
        warn_if_missing(agent, self._means.program)

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        run = self._runs[turn.run_id] = Run(self._means, turn)
        return run.outputs()

    async def cancel(self, run_id: str) -> None:
        if (run := self._runs.get(run_id)) is not None:
            run.cancel()
            await run.over()

    async def close(self) -> None:
        runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*(run.over() for run in runs))
        if self._means.pool is not None:
            await self._means.pool.close()
        await self._children.close()
        await self._tasks.close()


def make(settings: CommandSettings, resources: Resources) -> CommandBackend:
    return CommandBackend(
        program_of(settings),
        _format(settings),
        clock=resources.clock,
        limits=limits_of(settings),
        keeps_for_s=settings.idle_s if settings.session == "session" else None,
        has_folder=settings.files == "folder",
    )


def _format(settings: CommandSettings) -> Format:
    match settings.format:
        case "text":
            return TextFormat(settings.command, end_line=settings.end_line)
        case "claude":
            return ClaudeFormat()
        case "codex":
            return CodexFormat()
