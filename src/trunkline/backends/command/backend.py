"""`CommandBackend`: a program behind the `Backend` port, and `Run`, one of its turns."""

import contextlib
import logging
from dataclasses import dataclass

from msgspec import structs

from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Format, Reader, Start
from trunkline.backends.command.settings import CommandBackend as CommandSettings
from trunkline.backends.command.text import TextFormat
from trunkline.backends.kind import Resources
from trunkline.backends.programs import failures
from trunkline.backends.programs.backend import EXIT_S, ProgramBackend, ProgramTurn
from trunkline.backends.programs.child import Child, Flooded
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.prompt import (
    Attachments,
    CannotTell,
    Prompt,
    prompt_of,
    with_paths,
)
from trunkline.model.outputs import ENDS_TURN, Failed, Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.tools import LendsTools

_log = logging.getLogger("trunkline.command")

# The note of a session that holds the program's name for it.
NOTE = "command.session"
TRIES = 3


@dataclass(slots=True, eq=False)
class Speaker:
    """A program that runs, and the files that it was given."""

    child: Child
    attachments: Attachments
    # The program has answered before.
    is_reused: bool = False


class CommandBackend(ProgramBackend["Run", Speaker]):
    def __init__(
        self, settings: CommandSettings, *, clock: Clock, lends_tools: LendsTools | None = None
    ) -> None:
        super().__init__(
            "command",
            settings,
            clock=clock,
            keeps=settings.session == "session",
            lends_tools=lends_tools,
        )
        self.settings = settings
        self.format = _format(settings)

    def turn_task(self, turn: TurnRequest) -> "Run":
        return Run(turn, self)

    async def dismiss(self, kept: Speaker) -> None:
        try:
            await self.children.stop(kept.child)
        finally:
            kept.attachments.remove()


def _format(settings: CommandSettings) -> Format:
    match settings.format:
        case "text":
            return TextFormat(settings.command, end_line=settings.end_line)
        case "claude":
            return ClaudeFormat()
        case "codex":
            return CodexFormat()


class Run(ProgramTurn[CommandBackend]):
    """One turn of a command, from the start of its program to its end."""

    log = _log

    def __init__(self, turn: TurnRequest, backend: CommandBackend) -> None:
        super().__init__(turn, backend)
        self._format = backend.format
        # Files that are not text are put into a folder; else they are refused.
        self._has_folder = backend.settings.files == "folder"
        self._noted = ""

    async def take_turn(self) -> None:
        if self._format.has_memory or self.backend.keeps:
            async with self.backend.sessions.lock(self.session):
                await self._play()
        else:
            await self._play()

    async def _play(self) -> None:
        known = self._noted = await self.recall(NOTE) if self._format.has_memory else ""
        prompt = prompt_of(self.turn.message.parts)
        for left in reversed(range(TRIES)):
            start = Start(prompt=prompt, session_id=self.session, known=known)
            again = await self._try(start, is_last=not left)
            if again is None:
                return
            known = again

    async def _try(self, start: Start, *, is_last: bool) -> str | None:
        """None when the turn is over; else `Start.known` for another start of the program."""
        speaker, told = await self._speaker(start)
        reader = self._format.reader()
        try:
            last = await self._hear(speaker, reader, told)
            if isinstance(last, Failed):
                errors = str(speaker.child.errors)
                again = None if is_last else self._format.try_again(start, reader, errors)
                self._tell_operator(speaker, reader, last, again)
                if again is not None:
                    await self.backend.dismiss(speaker)
                    return again
        except BaseException:
            await self._wind_down(speaker, reader)
            raise
        try:
            await self.channel.put(last)
        finally:
            # Also when the turn is stopped while its end waits to be read.
            await self._release(speaker, reader)
        return None

    async def _speaker(self, start: Start) -> tuple[Speaker, bytes]:
        """The program that is kept for the session, or a new one; and its input."""
        speaker = self.backend.pool.take(self.session)
        if speaker is not None and not speaker.child.is_running:
            await self.backend.dismiss(speaker)
            speaker = None
        attachments = Attachments() if speaker is None else speaker.attachments
        try:
            prompt = self._placed(start.prompt, attachments)
            if speaker is None:
                child = await self._spawned(structs.replace(start, prompt=prompt), attachments)
                speaker = Speaker(child, attachments)
            else:
                await self.lent_tools(speaker.child)
            return speaker, self._format.message(prompt)
        except BaseException as error:
            if speaker is None:
                attachments.remove()
            elif speaker.is_reused and isinstance(error, CannotTell):
                # The message is at fault, not the program.
                self.backend.pool.put(self.session, speaker)
            else:
                await self.backend.dismiss(speaker)
            raise

    async def _spawned(self, start: Start, attachments: Attachments) -> Child:
        # A later turn may have files for a program that is kept.
        if self._has_folder and (self.backend.keeps or attachments.is_used):
            start = structs.replace(start, folder=str(attachments.folder))
        tools = await self.lent_tools()
        if tools is not None:
            start = structs.replace(start, mcp_url=tools.mcp_url)
        arguments = self._format.arguments(self.limits.command, start)
        variables = {"TRUNKLINE_SESSION": self.session, "TRUNKLINE_TASK": self.turn.task_id}
        return await self.backend.spawn(arguments, variables, tools=tools)

    def _placed(self, prompt: Prompt, attachments: Attachments) -> Prompt:
        """The prompt with only such files as the program takes in the message itself."""
        own = tuple(file for file in prompt.files if self._format.takes(file))
        others = [file for file in prompt.files if file not in own]
        if others and not self._has_folder:
            raise CannotTell(failures.takes_no_file(others[0].media_type))
        text = with_paths(prompt.text, attachments.write(others))
        return Prompt(text=text, files=own)

    async def _hear(self, speaker: Speaker, reader: Reader, told: bytes) -> Output:
        """Send the input, and pass the outputs on; returns the one that ends the turn."""
        try:
            if speaker.is_reused:
                speaker.child.begin_answer()
            speaker.child.write(told)
            if self._format.reads_once:
                speaker.child.end_input()
            return await self._read(speaker.child, reader)
        except (Flooded, LineTooLong) as error:
            return Failed(self.over_limit(error))

    async def _read(self, child: Child, reader: Reader) -> Output:
        while True:
            data = await child.line() if self._format.has_lines else await child.read() or None
            if data is None:
                break
            for output in reader.feed(data):
                if isinstance(output, ENDS_TURN):
                    return output
                await self.channel.put(output)
            if reader.known and reader.known != self._noted:
                self._noted = reader.known
                await self.keep(NOTE, reader.known)
        if not await child.exits_within(EXIT_S):
            return Failed(failures.STUCK)
        for output in reader.end(child.exited.result()):
            if isinstance(output, ENDS_TURN):
                return output
            await self.channel.put(output)
        return Failed(failures.NO_ANSWER)

    async def _release(self, speaker: Speaker, reader: Reader) -> None:
        """The turn is over; the program is kept for the next one, or ends."""
        child = speaker.child
        if self.backend.keeps and reader.is_done and child.is_alive:
            speaker.is_reused = True
            self.backend.pool.put(self.session, speaker)
            return
        child.end_input()
        try:
            if reader.is_done:
                await child.exits_within(EXIT_S)
        finally:
            await self.backend.dismiss(speaker)

    async def _wind_down(self, speaker: Speaker, reader: Reader) -> None:
        """The turn was stopped. A program that obeys in time is kept for the next one."""
        word = self._format.interrupt()
        if word and speaker.child.is_alive:
            speaker.child.write(word)
            await self.backend.hear_out(self._hear_out(speaker.child, reader))
        if self.backend.keeps and reader.is_done:
            await self._release(speaker, reader)
        else:
            await self.backend.dismiss(speaker)

    async def _hear_out(self, child: Child, reader: Reader) -> None:
        with contextlib.suppress(Flooded, LineTooLong):
            while not reader.is_done and (line := await child.line()) is not None:
                for _ in reader.feed(line):
                    pass

    def _tell_operator(
        self, speaker: Speaker, reader: Reader, last: Failed, again: str | None
    ) -> None:
        child = speaker.child
        code = child.exited.result() if child.exited.done() else None
        words = self.limits.without_secrets(f"{reader.trouble}\n{child.errors}".strip())
        extra = self.extra() | {"exit_code": code, "stderr": words}
        if again is not None:
            _log.info("program is started anew: %s", words, extra=extra)
        else:
            _log.warning("program failed: %s", last.reason, extra=extra)


def make(settings: CommandSettings, resources: Resources) -> CommandBackend:
    return CommandBackend(settings, clock=resources.clock, lends_tools=resources.lends_tools)
