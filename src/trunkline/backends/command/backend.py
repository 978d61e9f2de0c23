"""Puts a program behind the `Backend` port."""

from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Format
from trunkline.backends.command.run import Run, Speaker
from trunkline.backends.command.settings import CommandBackend as CommandSettings
from trunkline.backends.command.text import TextFormat
from trunkline.backends.kind import Resources
from trunkline.backends.programs.backend import ProgramBackend
from trunkline.backends.programs.children import Limits, limits_of
from trunkline.backends.programs.program import Program, program_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock


class CommandBackend(ProgramBackend[Run, Speaker]):
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
        super().__init__("command", program, clock=clock, limits=limits, keeps_for_s=keeps_for_s)
        self._format = format
        self._has_folder = has_folder

    def turn_task(self, turn: TurnRequest) -> Run:
        return Run(self, turn, self._format, has_folder=self._has_folder)

    async def dismiss(self, kept: Speaker) -> None:
        try:
            await self.children.stop(kept.child)
        finally:
            kept.attachments.remove()


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
