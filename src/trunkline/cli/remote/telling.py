"""What the events of a stream mean to a reader: each thing once, in order, without I/O."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Struct

from trunkline.cli.remote.documents import document
from trunkline.cli.remote.tools import ToolUse, tool_in, tool_of
from trunkline.model.values import (
    HAS_WORK,
    TERMINAL,
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    text_of,
)
from trunkline.remote import StreamItem

_MESSAGE: Final = "\x00message"
_NOT_DONE: Final = TERMINAL - {TaskState.COMPLETED}


class Words(Struct, frozen=True, kw_only=True):
    """A piece of text. `place` tells texts apart; `replaces` all of that text so far."""

    place: str
    name: str = ""
    text: str
    replaces: bool = False


class Made(Struct, frozen=True, kw_only=True):
    """A part that is not text: a file, a link or data."""

    name: str
    part: Part


class Noted(Struct, frozen=True):
    """What the agent says about its work while it works."""

    text: str


class Moved(Struct, frozen=True):
    """`reason` is why a task ended without being done, in the agent's words."""

    state: TaskState
    reason: str = ""


Said: TypeAlias = Words | Made | Noted | Moved | ToolUse


class _Shown:
    """What was told of one artifact."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.made = 0
        # Whether any of the text was told since the message.
        self.is_new = False

    def text(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]


class Telling:
    """`before` is the task before the message: what it held by then is not told again."""

    def __init__(self, before: Task | None = None) -> None:
        self._shown: dict[str, _Shown] = {}
        self._tools: dict[str, ToolUse] = {}
        self._state: TaskState | None = None
        self._note = ""
        self._before = None if before is None else before.status
        for artifact in before.artifacts if before is not None else ():
            for _ in self._artifact(artifact, append=False):
                pass
        for shown in self._shown.values():
            shown.is_new = False

    def add(self, item: StreamItem) -> Iterator[Said]:
        match item:
            case Message():
                yield from self._parts(_MESSAGE + item.message_id, "", item.parts)
            case TaskArtifactUpdateEvent():
                yield from self._artifact(item.artifact, append=item.append)
            case TaskStatusUpdateEvent():
                yield from self._status(item.status)
            case Task():
                for artifact in item.artifacts:
                    yield from self._artifact(artifact, append=False)
                yield from self._status(item.status)

    def _artifact(self, artifact: Artifact, *, append: bool) -> Iterator[Said]:
        tool = tool_of(artifact)
        if tool is not None:
            if self._tools.get(artifact.artifact_id) != tool:
                self._tools[artifact.artifact_id] = tool
                yield tool
            return
        yield from self._parts(artifact.artifact_id, artifact.name, artifact.parts, append=append)

    def _parts(
        self, place: str, name: str, parts: tuple[Part, ...], *, append: bool = False
    ) -> Iterator[Said]:
        shown = self._shown.setdefault(place, _Shown())
        others = [part for part in parts if part.text is None]
        if not append:
            # The whole of it: what was told is left out, or all of it is told anew.
            known, shown.made = shown.made, len(others)
            others = others[known:]
        else:
            shown.made += len(others)
        text = text_of(parts)
        yield from self._words(shown, place, name, text, append=append)
        for part in others:
            yield tool_in(part) or Made(name=part.filename or name, part=part)

    def _words(
        self, shown: _Shown, place: str, name: str, text: str, *, append: bool
    ) -> Iterator[Words]:
        if append or not shown.pieces:
            if text:
                shown.pieces.append(text)
                shown.is_new = True
                yield Words(place=place, name=name, text=text)
            return
        told = shown.text()
        if text.startswith(told):
            yield from self._words(shown, place, name, text[len(told) :], append=True)
        # Agents differ in how they join the pieces of a text, and line breaks say nothing new.
        elif text.split() != told.split():
            shown.pieces, shown.is_new = [text], True
            yield Words(place=place, name=name, text=text, replaces=True)

    def _status(self, status: TaskStatus) -> Iterator[Said]:
        message = status.message
        # A stream may begin with the question that is being answered.
        if status == self._before:
            return
        reason = ""
        if message is not None:
            if status.state in HAS_WORK:
                yield from self._noted(message)
            elif status.state in _NOT_DONE:
                reason = text_of(message.parts)
            elif not self._has_told(message):
                yield from self._parts(_MESSAGE + message.message_id, "", message.parts)
        if status.state is not self._state:
            self._state = status.state
            yield Moved(status.state, reason)

    def _noted(self, message: Message) -> Iterator[Said]:
        text = text_of(message.parts)
        if text and text != self._note:
            self._note = text
            yield Noted(text)
        for part in message.parts:
            if part.data is not UNSET and (tool := tool_in(part)) is not None:
                yield tool

    def _has_told(self, message: Message) -> bool:
        """Many agents end with a status that repeats their answer."""
        texts = [part.text for part in message.parts]
        if None in texts:
            return False
        said = "\n".join(filter(None, texts)).split()
        return any(shown.is_new and shown.text().split() == said for shown in self._shown.values())


def answer_of(said: list[Said]) -> str:
    """The text of an answer as a whole; where there is none, its data."""
    texts: dict[str, list[str]] = {}
    data: list[Any] = []
    for each in said:
        match each:
            case Words():
                pieces = texts.setdefault(each.place, [])
                if each.replaces:
                    pieces.clear()
                pieces.append(each.text)
            case Made(part=part) if part.data is not UNSET:
                data.append(part.data)
            case _:
                pass
    if texts:
        return "\n\n".join(["".join(pieces).strip("\n") for pieces in texts.values()])
    return "\n".join([document(one) for one in data])
