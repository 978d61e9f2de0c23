"""Outputs of the scripted agent, one function per command."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from trunkline.backends.scripted.script import Command, ScriptError
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

_WORDS: dict[str, Callable[[str], Output]] = {
    "say": Text,
    "replace": TextReplaced,
    "preview": TextPreview,
    "refuse": Refused,
    "fail": Failed,
}
_MESSAGES: dict[str, Callable[[tuple[Part, ...]], Output]] = {
    "block": Block,
    "stage-end": StageEnded,
    "summary": ToolSummarized,
    "note": Note,
    "ask": Question,
    "auth": AuthNeeded,
    "reply": DirectReply,
    "final": Final,
}


def outputs_of(command: Command, turn: TurnRequest) -> Iterator[tuple[float, Output]]:
    """Each with the seconds to wait before it."""
    if (word := _WORDS.get(command.name)) is not None:
        yield 0, word(command.rest)
    elif (message := _MESSAGES.get(command.name)) is not None:
        yield 0, message((Part(text=command.rest),))
    elif command.name == "stream":
        yield from _stream(command)
    elif command.name == "stage":
        yield 0, StageStarted()
    elif command.name == "tool":
        yield from _tool(command)
    elif command.name == "tool-event":
        yield 0, _tool_event(command)
    elif command.name == "parts":
        yield 0, Final(_parts(command))
    elif command.name == "artifact":
        yield 0, ArtifactEmitted(artifact=_artifact(command))
    elif command.name == "chunks":
        yield from _chunks(command)
    elif command.name == "show":
        yield 0, Final((Part(data=_shown(command, turn)),))


def _stream(command: Command) -> Iterator[tuple[float, Output]]:
    """`10`, `10 every 0.5` or `10 of 4096 every 0.5`; `of` is the length of each piece."""
    before, has_length, after = command.rest.partition(" of ")
    count, every_s = command.repeats(before)
    length = 0
    if has_length:
        length, every_s = command.repeats(after)
    for number in range(1, count + 1):
        yield every_s, Text(f"{number} ".rjust(length, "."))


def _tool(command: Command) -> Iterator[tuple[float, Output]]:
    name, _, data = command.rest.partition(" ")
    given = command.json(data) if data.strip() else None
    call_id = f"call-{name}"
    yield 0, ToolCalled(call_id=call_id, name=name, phase="start", data=given)
    yield 0, ToolCalled(call_id=call_id, name=name, phase="result", data=given)


def _tool_event(command: Command) -> ToolCalled:
    phase, rest = command.words(2)
    name, _, data = rest.partition(" ")
    return ToolCalled(
        call_id=f"call-{name}",
        name=name,
        phase="result" if phase == "error" else phase,
        data=command.json(data) if data.strip() else None,
        is_error=phase == "error",
    )


def _parts(command: Command) -> tuple[Part, ...]:
    try:
        return msgspec.json.decode(command.rest, type=tuple[Part, ...])
    except msgspec.MsgspecError as error:
        raise ScriptError(f"parts: a JSON list of parts expected: {error}") from None


def _artifact(command: Command) -> Artifact:
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
    return Artifact(artifact_id=name, name=name, parts=(part,))


def _chunks(command: Command) -> Iterator[tuple[float, Output]]:
    name, rest = command.words(2)
    count, every_s = command.repeats(rest)
    for number in range(1, count + 1):
        artifact = Artifact(
            artifact_id=name, name=name, parts=(Part(text=f"{name} {number} of {count}\n"),)
        )
        yield (
            every_s,
            ArtifactEmitted(artifact=artifact, append=number > 1, last_chunk=number == count),
        )


def _shown(command: Command, turn: TurnRequest) -> Any:
    session = turn.session
    known = msgspec.to_builtins(msgspec.structs.replace(turn, session=None))
    known["session"] = None if session is None else msgspec.to_builtins(session.context())
    if command.rest not in known:
        raise ScriptError(f"show: one of {', '.join(known)} expected, not {command.rest!r}")
    return known[command.rest]
