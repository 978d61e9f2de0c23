"""The language of the scripted agent: one command per line, and the outputs of each."""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Block,
    DirectReply,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
    StageEnded,
    StageStarted,
    Text,
    TextPreview,
    TextReplaced,
    ToolCalled,
    ToolSummarized,
)
from trunkline.model.values import Artifact, Part
from trunkline.ports.backend import TurnRequest


class ScriptError(ValueError):
    """The script is at fault; its author reads the text."""


class Command(Struct, frozen=True):
    name: str
    rest: str = ""

    def words(self, count: int) -> list[str]:
        """The first words; the last of them is everything that remains."""
        words = self.rest.split(maxsplit=count - 1)
        if len(words) < count:
            raise ScriptError(f"{self.name}: {count} words expected, in {self.rest!r}")
        return words

    def number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ScriptError(f"{self.name}: {text!r} is not a number") from None

    def json(self, text: str) -> Any:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ScriptError(f"{self.name}: {text!r} is not JSON: {error}") from None

    def repeats(self, text: str) -> tuple[int, float]:
        """`10` or `10 every 0.5`: how often, and the seconds before each."""
        count, _, every = text.partition("every")
        return int(self.number(count.strip() or "1")), self.number(every.strip() or "0")


# An output with the seconds to wait before it.
Timed: TypeAlias = tuple[float, Output]


def _stream(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    """`10`, `10 every 0.5` or `10 of 4096 every 0.5`; `of` is the length of each piece."""
    before, has_length, after = command.rest.partition(" of ")
    count, every_s = command.repeats(before)
    length = 0
    if has_length:
        length, every_s = command.repeats(after)
    for number in range(1, count + 1):
        yield every_s, Text(f"{number} ".rjust(length, "."))


def _stage(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    yield 0, StageStarted()


def _tool(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    for phase in ("start", "result"):
        yield 0, _tool_call(command, command.rest, phase)


def _tool_event(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    phase, rest = command.words(2)
    yield 0, _tool_call(command, rest, phase)


def _tool_call(command: Command, about: str, phase: str) -> ToolCalled:
    name, _, data = about.partition(" ")
    return ToolCalled(
        call_id=f"call-{name}",
        name=name,
        phase="result" if phase == "error" else phase,
        data=command.json(data) if data.strip() else None,
        is_error=phase == "error",
    )


def _parts(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    try:
        parts = msgspec.json.decode(command.rest, type=tuple[Part, ...])
    except msgspec.MsgspecError as error:
        raise ScriptError(f"parts: a JSON list of parts expected: {error}") from None
    yield 0, Final(parts)


def _artifact(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    kind, _, rest = command.rest.partition(" ")
    about = Command(f"artifact {kind}", rest)
    match kind:
        case "text":
            name, text = about.words(2)
            part = Part(text=text)
        case "file":
            name, media_type, content = about.words(3)
            part = Part(raw=content.encode(), media_type=media_type, filename=name)
        case "url":
            name, media_type, url = about.words(3)
            part = Part(url=url, media_type=media_type, filename=name)
        case "data":
            name, part = "data", Part(data=about.json(rest))
        case _:
            raise ScriptError(f"artifact: text, file, url or data expected, not {kind!r}")
    yield 0, ArtifactEmitted(artifact=Artifact(artifact_id=name, name=name, parts=(part,)))


def _chunks(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    name, rest = command.words(2)
    count, every_s = command.repeats(rest)
    for number in range(1, count + 1):
        part = Part(text=f"{name} {number} of {count}\n")
        artifact = Artifact(artifact_id=name, name=name, parts=(part,))
        is_last = number == count
        yield every_s, ArtifactEmitted(artifact=artifact, append=number > 1, last_chunk=is_last)


def _show(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    session = turn.session
    known = msgspec.to_builtins(msgspec.structs.replace(turn, session=None))
    known["session"] = None if session is None else msgspec.to_builtins(session.context())
    if command.rest not in known:
        raise ScriptError(f"show: one of {', '.join(known)} expected, not {command.rest!r}")
    yield 0, Final((Part(data=known[command.rest]),))


_OF_TEXT: dict[str, Callable[[str], Output]] = {
    "say": Text,
    "replace": TextReplaced,
    "preview": TextPreview,
    "refuse": Refused,
    "fail": Failed,
}
_OF_PARTS: dict[str, Callable[[tuple[Part, ...]], Output]] = {
    "block": Block,
    "stage-end": StageEnded,
    "summary": ToolSummarized,
    "note": Note,
    "ask": Question,
    "auth": AuthNeeded,
    "reply": DirectReply,
    "final": Final,
}
_OTHERS: dict[str, Callable[[Command, TurnRequest], Iterator[Timed]]] = {
    "stream": _stream,
    "stage": _stage,
    "tool": _tool,
    "tool-event": _tool_event,
    "parts": _parts,
    "artifact": _artifact,
    "chunks": _chunks,
    "show": _show,
}
# Commands without outputs, which the backend carries out.
_SILENT = ("crash", "delay", "hang", "wait", "open", "ignore-cancel")
COMMANDS = (*_OF_TEXT, *_OF_PARTS, *_OTHERS, *_SILENT)

# A semicolon ends a command only where the next one begins, so that text may contain semicolons.
_BREAK = re.compile(rf"\n|;(?=\s*(?:{'|'.join(COMMANDS)})(?:\s|;|$))")


def parse(text: str) -> tuple[Command, ...]:
    """The commands of a message; none when it does not begin with one."""
    lines = [line.strip() for line in _BREAK.split(text.strip()) if line.strip()]
    if not lines or lines[0].split()[0] not in COMMANDS:
        return ()
    return tuple(_command(line) for line in lines)


def _command(line: str) -> Command:
    word, _, rest = line.partition(" ")
    return Command(word, rest.strip()) if word in COMMANDS else Command("say", line)


def outputs_of(command: Command, turn: TurnRequest) -> Iterator[Timed]:
    if (of_text := _OF_TEXT.get(command.name)) is not None:
        yield 0, of_text(command.rest)
    elif (of_parts := _OF_PARTS.get(command.name)) is not None:
        yield 0, of_parts((Part(text=command.rest),))
    else:
        yield from _OTHERS[command.name](command, turn)
