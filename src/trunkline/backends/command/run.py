"""`Run`: one turn of a command, from the start of its program to its end."""

import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from trunkline.backends.command.format import Format, Reader, Start
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
from trunkline.backends.turn_task import done_within
from trunkline.model.outputs import ENDS_TURN, Failed, Output
from trunkline.ports.backend import TurnRequest

_log = logging.getLogger("trunkline.command")

# The name under which the session's notes hold what the program calls it.
NOTE = "command.session"
TRIES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """A program that runs, and the files that it was given."""

    child: Child
    attachments: Attachments
    # It has answered before.
    is_reused: bool = False


class Run(ProgramTurn):
    log = _log

    def __init__(
        self,
        backend: ProgramBackend[Any, Speaker],
        turn: TurnRequest,
        format: Format,
        *,
        has_folder: bool,
    ) -> None:
        """`has_folder`: files that are no text are put into a folder; else they are refused."""
        super().__init__(turn, backend)
        self._backend = backend
        self._format = format
        self._has_folder = has_folder
        self._noted = ""

    async def take_turn(self) -> None:
        if self._format.has_memory or self._backend.keeps:
            async with self._backend.sessions.lock(self.session):
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
        """None when the turn is over; else what to start the program with once more."""
        speaker, prompt = await self._speaker(start)
        reader = self._format.reader()
        try:
            told = self._format.message(prompt)
        except CannotTell:
            await self._leave_alone(speaker)
            raise
        try:
            last = await self._hear(speaker, reader, told)
            if isinstance(last, Failed):
                errors = str(speaker.child.errors)
                again = None if is_last else self._format.try_again(start, reader, errors)
                self._tell_operator(speaker, reader, last, again)
                if again is not None:
                    await self._backend.dismiss(speaker)
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

    async def _speaker(self, start: Start) -> tuple[Speaker, Prompt]:
        """The program that is kept for the session, or a new one; and what to tell it."""
        backend = self._backend
        speaker = backend.pool.take(self.session)
        if speaker is not None and not speaker.child.is_running:
            await backend.dismiss(speaker)
            speaker = None
        if speaker is not None:
            try:
                return speaker, self._placed(start.prompt, speaker.attachments)
            except CannotTell:
                await self._leave_alone(speaker)
                raise
            except BaseException:
                # Its folder is gone or full, and no other turn knows of it.
                await backend.dismiss(speaker)
                raise
        attachments = Attachments()
        try:
            prompt = self._placed(start.prompt, attachments)
            # A program that is kept may be given files later.
            is_open = self._has_folder and (backend.keeps or attachments.is_used)
            folder = str(attachments.folder) if is_open else ""
            start = structs.replace(start, prompt=prompt, folder=folder)
            arguments = self._format.arguments(backend.program.argv, start)
            child = await backend.spawn(arguments, self._variables())
        except BaseException:
            attachments.remove()
            raise
        return Speaker(child, attachments), prompt

    def _placed(self, prompt: Prompt, attachments: Attachments) -> Prompt:
        """The prompt with only such files as the program takes in the message itself."""
        own = tuple(file for file in prompt.files if self._format.takes(file))
        others = [file for file in prompt.files if file not in own]
        if others and not self._has_folder:
            raise CannotTell(failures.takes_no_file(others[0].media_type))
        text = with_paths(prompt.text, attachments.write(others))
        return Prompt(text=text, files=own)

    async def _hear(self, speaker: Speaker, reader: Reader, told: bytes) -> Output:
        """Tell the program, and pass on what it says; returns what ends the turn."""
        try:
            if speaker.is_reused:
                speaker.child.begin_answer()
            speaker.child.write(told)
            if self._format.reads_once:
                speaker.child.end_input()
            return await self._read(speaker, reader)
        except (Flooded, LineTooLong) as error:
            return Failed(self.over_limit(error))

    async def _read(self, speaker: Speaker, reader: Reader) -> Output:
        child = speaker.child
        while True:
            data = await child.line() if self._format.has_lines else await child.read()
            if data is None or (not data and not self._format.has_lines):
                break
            for output in reader.feed(data):
                if isinstance(output, ENDS_TURN):
                    return output
                await self.channel.put(output)
            await self._note(reader.known)
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
        if self._backend.keeps and reader.is_done and child.is_alive:
            self._backend.pool.put(
                self.session, Speaker(child, speaker.attachments, is_reused=True)
            )
            return
        child.end_input()
        try:
            if reader.is_done:
                await child.exits_within(EXIT_S)
        finally:
            await self._backend.dismiss(speaker)

    async def _leave_alone(self, speaker: Speaker) -> None:
        """The message is at fault, not the program."""
        if speaker.is_reused and self._backend.keeps:
            self._backend.pool.put(self.session, speaker)
        else:
            await self._backend.dismiss(speaker)

    async def _wind_down(self, speaker: Speaker, reader: Reader) -> None:
        """The turn was stopped. A program that understands may go on with the next one."""
        word = self._format.interrupt()
        if word and speaker.child.is_alive:
            speaker.child.write(word)
            hearing = self.tasks.start(
                self._hear_out(speaker, reader), name=f"hear out {self.turn.run_id}"
            )
            grace_s = self.limits.stop_grace_s
            await done_within(hearing, grace_s, self._backend.clock)
            hearing.cancel()
        if self._backend.keeps and reader.is_done:
            await self._release(speaker, reader)
        else:
            await self._backend.dismiss(speaker)

    async def _hear_out(self, speaker: Speaker, reader: Reader) -> None:
        with contextlib.suppress(Flooded, LineTooLong):
            while not reader.is_done and (line := await speaker.child.line()) is not None:
                for _ in reader.feed(line):
                    pass

    async def _note(self, known: str) -> None:
        if known and known != self._noted:
            self._noted = known
            await self.keep(NOTE, known)

    def _variables(self) -> dict[str, str]:
        return {"TRUNKLINE_SESSION": self.session, "TRUNKLINE_TASK": self.turn.task_id}

    def _tell_operator(
        self, speaker: Speaker, reader: Reader, last: Failed, again: str | None
    ) -> None:
        program, child = self._backend.program, speaker.child
        code = child.exited.result() if child.exited.done() else None
        words = program.without_secrets(
            "\n".join(filter(None, (reader.trouble, str(child.errors))))
        )
        extra = self.extra() | {"exit_code": code, "stderr": words}
        if again is not None:
            _log.info("program is started anew: %s", words, extra=extra)
        else:
            _log.warning("program failed: %s", last.reason, extra=extra)
