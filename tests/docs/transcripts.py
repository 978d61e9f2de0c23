"""Runs the conversations that the documentation shows.

A transcript belongs to the python block before it:

    @ principal alice        about the next message: principal, tenant, accepts, extensions,
                             metadata, message-metadata, references, file, data
    > the message            a further message of the task, if the agent asked for one
    the answer               and then what comes back, one line per output
    ! cancel                 the caller gives up at this point
    (prints) words           what the agent printed
"""

import asyncio
import contextlib
import io
import re
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from trunkline import Message, Part, Role
from trunkline.backends.python import Agent, PythonBackend
from trunkline.engine.turn_fold import approval_asked
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
from trunkline.ports.backend import TurnRequest
from trunkline.testing import FakeClock, FakeSession, settle

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(Struct, frozen=True):
    code: str
    transcript: str
    line: int


def examples_in(markdown: str) -> list[Example]:
    examples: list[Example] = []
    for block in _BLOCK.finditer(markdown):
        kind, body = block.groups()
        if kind == "python":
            line = markdown.count("\n", 0, block.start()) + 1
            examples.append(Example(body, "", line))
        elif kind == "text" and examples and not examples[-1].transcript:
            examples[-1] = Example(examples[-1].code, body, examples[-1].line)
    return examples


async def replay(agent: Agent, transcript: str) -> str:
    """The transcript with what really comes back in place of what it claims."""
    caller = _Caller(agent)
    lines = transcript.splitlines()
    result: list[str] = []
    for number, line in enumerate(lines):
        if line.startswith("@ "):
            caller.prepare(line[2:])
            result.append(line)
        elif line.startswith("> "):
            told = lines[number + 1 :]
            answer = told[: next((i for i, x in enumerate(told) if x[:2] in ("> ", "@ ")), None)]
            result.append(line)
            result += await caller.send(line[2:], cancels="! cancel" in answer)
    return "\n".join(result) + "\n"


class _Caller:
    def __init__(self, agent: Agent) -> None:
        self._backend = PythonBackend(agent, clock=FakeClock())
        self._agent = agent
        self._numbers = count(1)
        self._history: tuple[Message, ...] = ()
        self._session = FakeSession()
        self._about: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._parts: list[Part] = []

    def prepare(self, line: str) -> None:
        what, rest = line.split(maxsplit=1)
        match what:
            case "principal" | "tenant":
                self._about[what] = rest
            case "accepts":
                self._about["accepted_output_modes"] = tuple(rest.split())
            case "extensions":
                self._about["extensions"] = tuple(rest.split())
            case "metadata":
                self._about["metadata"] = msgspec.json.decode(rest)
            case "message-metadata":
                self._message["metadata"] = msgspec.json.decode(rest)
            case "references":
                self._message["reference_task_ids"] = tuple(rest.split())
            case "data":
                self._parts.append(Part(data=msgspec.json.decode(rest)))
            case "file":
                name, media_type, content = rest.split(maxsplit=2)
                part = Part(raw=content.encode(), filename=name, media_type=media_type)
                self._parts.append(part)
            case _:
                raise ValueError(f"unknown in a transcript: @ {line}")

    async def send(self, text: str, *, cancels: bool) -> list[str]:
        number = next(self._numbers)
        message = Message(
            message_id=f"message-{number}",
            role=Role.USER,
            parts=(*self._parts, Part(text=text)),
            **self._message,
        )
        turn = TurnRequest(
            run_id=f"run-{number}",
            agent=self._agent.slug,
            task_id="" if self._agent.direct else "task-1",
            context_id="context-1",
            message=message,
            history=self._history,
            session=self._session,
            **({"principal": "somebody"} | self._about),
        )
        self._about, self._message, self._parts = {}, {}, []
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            outputs, crash = await self._outputs(turn, cancels=cancels)
        outputs = _until_approval(outputs)
        self._remember(message, outputs)
        answer = _lines(outputs)
        self._session.say(text)
        self._session.say("\n".join(answer), role=Role.AGENT)
        later, self._session.follow_ups = self._session.follow_ups, []
        return [
            *answer,
            *(f"[follows up] {each.text}" for each in later),
            *([f"[crashes] {type(crash).__name__}"] if crash else []),
            *(["! cancel"] if cancels else []),
            *(f"(prints) {line}" for line in printed.getvalue().splitlines()),
        ]

    async def _outputs(
        self, turn: TurnRequest, *, cancels: bool
    ) -> tuple[list[Output], Exception | None]:
        outputs: list[Output] = []
        run: AsyncIterator[Output] = self._backend.start(turn)
        try:
            async with asyncio.TaskGroup() as group:
                said = asyncio.Event()
                _ = group.create_task(_collect(run, outputs, said))
                if cancels:
                    await said.wait()
                    await settle()
                    await self._backend.cancel(turn.run_id)
        except ExceptionGroup as group_error:
            return outputs, group_error.exceptions[0]
        return outputs, None

    def _remember(self, message: Message, outputs: list[Output]) -> None:
        match outputs:
            case [*_, Question(parts) | AuthNeeded(parts)]:
                asked = Message(message_id="question", role=Role.AGENT, parts=parts)
                self._history = (*self._history, message, asked)
            case _:
                self._history = ()


def _until_approval(outputs: list[Output]) -> list[Output]:
    """The runtime asks the caller when a tool waits for approval, and the turn is over."""
    for number, output in enumerate(outputs, 1):
        if isinstance(output, ToolCalled) and (prompt := approval_asked(output)) is not None:
            return [*outputs[:number], Question((Part(text=prompt),))]
    return outputs


def _lines(outputs: list[Output]) -> list[str]:
    lines: list[str] = []
    text = ""
    for output in outputs:
        if isinstance(output, Text):
            text += output.delta
        elif isinstance(output, TextReplaced):
            text = output.text
        else:
            if text and not (isinstance(output, Final) and output.parts):
                lines.append(text)
            text = ""
            lines += _shown(output)
    return [line.rstrip() for line in [*lines, *([text] if text else [])]]


_LABELS: dict[type, str] = {
    Note: "[note] ",
    Question: "[asks] ",
    AuthNeeded: "[needs sign-in] ",
    DirectReply: "[replies] ",
    Block: "[block] ",
    StageEnded: "[whole] ",
    ToolSummarized: "[summary] ",
}


def _shown(output: Output) -> list[str]:
    match output:
        case Note() | Question() | AuthNeeded() | DirectReply():
            return _parts(_LABELS[type(output)], output.parts)
        case Block() | StageEnded() | ToolSummarized():
            return _parts(_LABELS[type(output)], output.parts)
        case Final(parts, metadata):
            return _parts("", parts) + ([f"[metadata] {_json(metadata)}"] if metadata else [])
        case Refused(reason):
            return [f"[refuses] {reason}"]
        case Failed(reason):
            return [f"[fails] {reason}"]
        case ToolCalled():
            return [f"[tool {output.name}: {output.phase}] {_json(output.data)}"]
        case ArtifactEmitted():
            more = ", last" if output.append and output.last_chunk else ", more"
            label = f"[artifact {output.artifact.name}{more if output.append else ''}] "
            return _parts(label, output.artifact.parts)
        case StageStarted():
            return ["[another message]"]
        case Text() | TextReplaced() | TextPreview():
            raise AssertionError("text is gathered before it is shown")


def _parts(label: str, parts: tuple[Part, ...]) -> list[str]:
    return [
        (label if number == 0 else "") + _part(part).rstrip("\n").replace("\n", "⏎")
        for number, part in enumerate(parts)
    ]


def _part(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.data is not UNSET:
        return f"[data] {_json(part.data)}"
    if part.url is not None:
        return f"[link {part.media_type}] {part.url}"
    return f"[file {part.filename} {part.media_type}] {(part.raw or b'').decode()}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def _collect(run: AsyncIterator[Output], outputs: list[Output], said: asyncio.Event) -> None:
    async for output in run:
        outputs.append(output)
        said.set()
