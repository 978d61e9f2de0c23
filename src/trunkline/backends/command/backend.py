"""Puts a program behind the `Backend` port."""

from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Format
from trunkline.backends.command.run import Means, Run
from trunkline.backends.command.settings import CommandBackend as CommandSettings
from trunkline.backends.command.text import TextFormat
from trunkline.backends.kind import Resources
from trunkline.backends.programs.children import Children, Limits, limits_of
from trunkline.backends.programs.doctor import warn_if_missing
from trunkline.backends.programs.program import Program, program_of
from trunkline.backends.programs.sessions import Pool, Sessions
from trunkline.backends.turn_task import TurnTaskBackend
from trunkline.ports.backend import Notes, TurnRequest
from trunkline.ports.clock import Clock


class CommandBackend(TurnTaskBackend[Run]):
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
        super().__init__("command")
        self._children = Children(clock, limits or Limits())
        means = Means(
            program=program,
            format=format,
            children=self._children,
            pool=None,
            sessions=Sessions(),
            clock=clock,
            tasks=self.tasks,
            has_folder=has_folder,
        )
        if keeps_for_s is not None:
            means.pool = Pool(clock=clock, tasks=self.tasks, idle_s=keeps_for_s, end=means.dismiss)
        self._means = means

    async def open(self, agent: str, notes: Notes) -> None:
        warn_if_missing(agent, self._means.program)

    def turn_task(self, turn: TurnRequest) -> Run:
        return Run(self._means, turn)

    async def close(self) -> None:
        await self.end_turns()
        if self._means.pool is not None:
            await self._means.pool.close()
        await self._children.close()
        await self.tasks.close()


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
