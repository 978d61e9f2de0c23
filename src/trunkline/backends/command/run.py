"""`Run`: one turn of a command, and `Means`, the parts of the backend that turns share."""

import contextlib
import logging
from dataclasses import dataclass

from msgspec import structs

from trunkline.backends.command.format import Format, Reader, Start
from trunkline.backends.output_channel import flooded
from trunkline.backends.programs import failures
from trunkline.backends.programs.child import Child, Flooded
from trunkline.backends.programs.children import Children, TooMany
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.program import Program
from trunkline.backends.programs.prompt import (
    Attachments,
    CannotTell,
    Prompt,
    prompt_of,
    with_paths,
)
from trunkline.backends.programs.sessions import Pool, Sessions, session_id
from trunkline.backends.programs.work import EXIT_S, ProgramTurn
from trunkline.backends.turn_task import done_within
from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.model.outputs import ENDS_TURN, Failed, Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """A program that runs, and the files that it was given."""

    child: Child
    attachments: Attachments
    # It has answered before.
    is_reused: bool = False


@dataclass(slots=True, kw_only=True)
class Means:
    program: Program
    format: Format
    children: Children
    # None where each turn has a process of its own.
    pool: Pool[Speaker] | None
    sessions: Sessions
    clock: Clock
    tasks: BackgroundTasks
    # Files that are no text are put into a folder; else they are refused.
    has_folder: bool

    async def start(self, arguments: tuple[str, ...], variables: dict[str, str]) -> Child:
        """A new process. Raises CannotStart and TooMany."""
        while True:
            try:
                return await self.children.spawn(self.program, arguments, variables)
            except TooMany:
                if self.pool is None or not await self.pool.retire_one():
                    raise

    async def dismiss(self, speaker: Speaker) -> None:
        """Nothing more will be asked of it."""
        try:
            await self.children.stop(speaker.child)
        finally:
            speaker.attachments.remove()


_log = logging.getLogger("trunkline.command")

# The name under which the session's notes hold what the program calls it.
NOTE = "command.session"
TRIES = 3


class Run(ProgramTurn):
    def __init__(self, means: Means, turn: TurnRequest) -> None:
        super().__init__(
            turn,
            children=means.children,
            clock=means.clock,
            tasks=means.tasks,
            program=means.program.name,
        )
        self._means = means
        self._session = session_id(turn)
        self._noted = ""

    async def take_turn(self) -> None:
        if self._means.format.has_memory or self._means.pool is not None:
            async with self._means.sessions.lock(self._session):
                await self._play()
        else:
            await self._play()

    async def _play(self) -> None:
        known = self._noted = await self._recall()
        prompt = prompt_of(self.turn.message.parts)
        for left in reversed(range(TRIES)):
            start = Start(prompt=prompt, session_id=self._session, known=known)
            again = await self._try(start, is_last=not left)
            if again is None:
                return
            known = again

    async def _try(self, start: Start, *, is_last: bool) -> str | None:
        """None when the turn is over; else what to start the program with once more."""
        speaker, prompt = await self._speaker(start)
        reader = self._means.format.reader()
        try:
            told = self._means.format.message(prompt)
        except CannotTell:
            await self._leave_alone(speaker)
            raise
        try:
            last = await self._hear(speaker, reader, told)
            if isinstance(last, Failed):
                errors = str(speaker.child.errors)
                again = None if is_last else self._means.format.try_again(start, reader, errors)
                self._tell_operator(speaker, reader, last, again)
                if again is not None:
                    await self._means.dismiss(speaker)
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
        means = self._means
        speaker = means.pool.take(self._session) if means.pool is not None else None
        if speaker is not None and not speaker.child.is_running:
            await means.dismiss(speaker)
            speaker = None
        if speaker is not None:
            try:
                return speaker, self._placed(start.prompt, speaker.attachments)
            except CannotTell:
                await self._leave_alone(speaker)
                raise
            except BaseException:
                # Its folder is gone or full, and nobody else knows of it any more.
                await means.dismiss(speaker)
                raise
        attachments = Attachments()
        try:
            prompt = self._placed(start.prompt, attachments)
            # A program that is kept may be given files later.
            is_open = means.has_folder and (means.pool is not None or attachments.is_used)
            folder = str(attachments.folder) if is_open else ""
            start = structs.replace(start, prompt=prompt, folder=folder)
            arguments = means.format.arguments(means.program.argv, start)
            child = await means.start(arguments, self._variables())
        except BaseException:
            attachments.remove()
            raise
        return Speaker(child, attachments), prompt

    def _placed(self, prompt: Prompt, attachments: Attachments) -> Prompt:
        """The prompt with only such files as the program takes in the message itself."""
        own = tuple(file for file in prompt.files if self._means.format.takes(file))
        others = [file for file in prompt.files if file not in own]
        if others and not self._means.has_folder:
            raise CannotTell(failures.takes_no_file(others[0].media_type))
        text = with_paths(prompt.text, attachments.write(others))
        return Prompt(text=text, files=own)

    async def _hear(self, speaker: Speaker, reader: Reader, told: bytes) -> Output:
        """Tell the program, and pass on what it says; returns what ends the turn."""
        limits = self._means.children.limits
        try:
            if speaker.is_reused:
                speaker.child.begin_answer()
            speaker.child.write(told)
            if self._means.format.reads_once:
                speaker.child.end_input()
            return await self._read(speaker, reader)
        except Flooded:
            return Failed(flooded(limits.max_output_bytes))
        except LineTooLong:
            return Failed(failures.line_too_long(limits.max_line_bytes))

    async def _read(self, speaker: Speaker, reader: Reader) -> Output:
        child = speaker.child
        while True:
            data = await child.line() if self._means.format.has_lines else await child.read()
            if data is None or (not data and not self._means.format.has_lines):
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
        child, pool = speaker.child, self._means.pool
        if pool is not None and reader.is_done and child.is_alive:
            pool.put(self._session, Speaker(child, speaker.attachments, is_reused=True))
            return
        child.end_input()
        try:
            if reader.is_done:
                await child.exits_within(EXIT_S)
        finally:
            await self._means.dismiss(speaker)

    async def _leave_alone(self, speaker: Speaker) -> None:
        """The message is at fault, not the program."""
        if speaker.is_reused and self._means.pool is not None:
            self._means.pool.put(self._session, speaker)
        else:
            await self._means.dismiss(speaker)

    async def _wind_down(self, speaker: Speaker, reader: Reader) -> None:
        """The turn was stopped. A program that understands may go on with the next one."""
        word = self._means.format.interrupt()
        if word and speaker.child.is_alive:
            speaker.child.write(word)
            hearing = self.tasks.start(
                self._hear_out(speaker, reader), name=f"hear out {self.turn.run_id}"
            )
            grace_s = self._means.children.limits.stop_grace_s
            await done_within(hearing, grace_s, self._means.clock)
            hearing.cancel()
        if self._means.pool is not None and reader.is_done:
            await self._release(speaker, reader)
        else:
            await self._means.dismiss(speaker)

    async def _hear_out(self, speaker: Speaker, reader: Reader) -> None:
        with contextlib.suppress(Flooded, LineTooLong):
            while not reader.is_done and (line := await speaker.child.line()) is not None:
                for _ in reader.feed(line):
                    pass

    async def _recall(self) -> str:
        session = self.turn.session
        if session is None or not self._means.format.has_memory:
            return ""
        return await session.recall(NOTE) or ""

    async def _note(self, known: str) -> None:
        if not known or known == self._noted or self.turn.session is None:
            return
        self._noted = known
        try:
            await self.turn.session.keep(NOTE, known)
        except StoreError as error:
            _log.error("a session could not be noted", extra=self.extra(), exc_info=error)

    def _variables(self) -> dict[str, str]:
        return {"TRUNKLINE_SESSION": self._session, "TRUNKLINE_TASK": self.turn.task_id}

    def _tell_operator(
        self, speaker: Speaker, reader: Reader, last: Failed, again: str | None
    ) -> None:
        program, child = self._means.program, speaker.child
        code = child.exited.result() if child.exited.done() else None
        words = program.without_secrets(
            "\n".join(filter(None, (reader.trouble, str(child.errors))))
        )
        extra = self.extra() | {"exit_code": code, "stderr": words}
        if again is not None:
            _log.info("program is started anew: %s", words, extra=extra)
        else:
            _log.warning("program failed: %s", last.reason, extra=extra)
