"""`EventReader`: makes of the events of a stream pieces to display, each once and in order.

`Answer` keeps the text of an answer, and `AnswerSize` counts the memory that it takes.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from sys import getsizeof
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from trunkline.cli.output import json_document
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
_HISTORY: Final = "\x00history"
_NOT_DONE: Final = TERMINAL - {TaskState.COMPLETED}
_SPACES: Final = b" \t\n\r\v\f"
# Texts up to this length are kept, to be recognised when the agent repeats them.
_SHORT_CHARS: Final = 4096
# Longer texts are handled in blocks of this length.
_BLOCK_CHARS: Final = 1024 * 1024
# The memory that a command needs to remember an artifact without content.
_ENTRY_BYTES: Final = 1024


class TextPiece(Struct, frozen=True, kw_only=True):
    """A piece of the text at `place`; with `replaces`, the whole text instead of all so far."""

    place: str
    name: str = ""
    text: str
    replaces: bool = False


class Attachment(Struct, frozen=True, kw_only=True):
    """A part that is not text: a file, a link or data."""

    name: str
    part: Part


class Note(Struct, frozen=True):
    """A message of the agent about work in progress."""

    text: str


class StateChange(Struct, frozen=True):
    """`reason` is why a task ended without being done, in the agent's words."""

    state: TaskState
    reason: str = ""


class ToolUse(Struct, frozen=True, kw_only=True):
    """`phase` is start, update or result."""

    name: str
    phase: str
    data: Any = None
    is_error: bool = False


Display: TypeAlias = TextPiece | Attachment | Note | StateChange | ToolUse


class _ShownArtifact(Struct):
    """The part of one artifact that the reader has seen; digests stand for a long text.

    An agent may repeat the whole text so far with every event, which must be recognised, and
    its text may be endless, so it cannot be kept.
    """

    chars: int = 0
    made: int = 0
    # Whether any of the text is newer than the message.
    is_new: bool = False
    text: str = ""
    # Digests of a long text, and of the same text without spaces.
    digests: tuple[blake2b, blake2b] | None = None

    def append(self, text: str) -> None:
        self.chars += len(text)
        if self.digests is None and self.chars <= _SHORT_CHARS:
            self.text += text
            return
        if self.digests is None:
            told = self.text.encode()
            self.digests = blake2b(told), blake2b(told.translate(None, _SPACES))
            self.text = ""
        whole, letters = self.digests
        for block in _blocks(text):
            whole.update(block)
            letters.update(block.translate(None, _SPACES))

    def clear(self) -> None:
        self.chars, self.text, self.digests = 0, "", None

    def begins(self, text: str) -> bool:
        """Whether the text begins with the text that was shown."""
        if self.digests is None:
            return text.startswith(self.text)
        if len(text) < self.chars:
            return False
        other = blake2b()
        for block in _blocks(text, self.chars):
            other.update(block)
        return other.digest() == self.digests[0].digest()

    def reads_like(self, letters: bytes) -> bool:
        """Whether the digest is that of the shown text, without its spaces and line breaks."""
        if self.digests is None:
            return letters_of(self.text) == letters
        return self.digests[1].digest() == letters


def letters_of(text: str) -> bytes:
    """A digest of the text without its spaces and line breaks."""
    digest = blake2b()
    for block in _blocks(text):
        digest.update(block.translate(None, _SPACES))
    return digest.digest()


def _blocks(text: str, end: int | None = None) -> Iterator[bytes]:
    """The text in UTF-8, in blocks, so that a long text is not copied as a whole."""
    end = len(text) if end is None else end
    for start in range(0, end, _BLOCK_CHARS):
        yield text[start : min(start + _BLOCK_CHARS, end)].encode()


class EventReader:
    """`before` is the task before the message; its content is not shown again."""

    def __init__(self, before: Task | None = None) -> None:
        self._shown: dict[str, _ShownArtifact] = {}
        self._tools: dict[str, ToolUse] = {}
        self._state: TaskState | None = None
        self._note = ""
        self._before = None if before is None else before.status
        for artifact in before.artifacts if before is not None else ():
            for _ in self._artifact(artifact, append=False):
                pass
        for shown in self._shown.values():
            shown.is_new = False

    def read(self, item: StreamItem) -> Iterator[Display]:
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

    def _artifact(self, artifact: Artifact, *, append: bool) -> Iterator[Display]:
        tool = tool_of(artifact)
        if tool is not None:
            if self._tools.get(artifact.artifact_id) != tool:
                self._tools[artifact.artifact_id] = tool
                yield tool
            return
        yield from self._parts(artifact.artifact_id, artifact.name, artifact.parts, append=append)

    def _parts(
        self, place: str, name: str, parts: tuple[Part, ...], *, append: bool = False
    ) -> Iterator[Display]:
        shown = self._shown.setdefault(place, _ShownArtifact())
        text, replaces = text_of(parts), False
        others = [part for part in parts if part.text is None]
        # An event that does not append has the whole artifact: skip the parts that were shown.
        known = 0 if append else shown.made
        shown.made += len(others) - known
        if shown.chars and not append:
            if shown.begins(text):
                text = text[shown.chars :]
            # Agents join the pieces of a text differently; other line breaks are not a new text.
            elif shown.reads_like(letters_of(text)):
                text = ""
            else:
                shown.clear()
                replaces = True
        if text or replaces:
            shown.append(text)
            shown.is_new = True
            yield TextPiece(place=place, name=name, text=text, replaces=replaces)
        for part in others[known:]:
            yield tool_in(part) or Attachment(name=part.filename or name, part=part)

    def _status(self, status: TaskStatus) -> Iterator[Display]:
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
            yield StateChange(status.state, reason)

    def _noted(self, message: Message) -> Iterator[Display]:
        text = text_of(message.parts)
        if text and text != self._note:
            self._note = text
            yield Note(text)
        for part in message.parts:
            if part.data is not UNSET and (tool := tool_in(part)) is not None:
                yield tool

    def _has_told(self, message: Message) -> bool:
        """Whether the message repeats a text that was shown, as the last status often does."""
        texts = [part.text for part in message.parts]
        if None in texts:
            return False
        letters = letters_of("\n".join(filter(None, texts)))
        return any(shown.is_new and shown.reads_like(letters) for shown in self._shown.values())


def tool_of(artifact: Artifact) -> ToolUse | None:
    """The tool call that the metadata of the artifact names (`source: "tool"`)."""
    about = artifact.metadata or {}
    if about.get("source") != "tool":
        return None
    given = next((part.data for part in artifact.parts if part.data is not UNSET), None)
    held = given if isinstance(given, dict) else {}
    data = next(
        (held[key] for key in ("data", "args", "partialResult", "result") if key in held), None
    )
    return ToolUse(
        name=str(about.get("toolName") or artifact.name or "tool"),
        phase=str(about.get("phase") or "result"),
        data=data,
        is_error=held.get("isError") is True,
    )


def tool_in(part: Part) -> ToolUse | None:
    """The tool call in a part, as Google's ADK writes it."""
    kind = (part.metadata or {}).get("adk_type")
    if kind not in ("function_call", "function_response") or not isinstance(part.data, dict):
        return None
    is_call = kind == "function_call"
    return ToolUse(
        name=str(part.data.get("name") or "tool"),
        phase="start" if is_call else "result",
        data=part.data.get("args" if is_call else "response"),
    )


class Answer:
    """The whole text of an answer or, without any text, its data. Kept once, as UTF-8."""

    def __init__(self) -> None:
        self._texts: dict[str, bytearray] = {}
        self._data: list[bytes] = []

    def add(self, said: Display) -> None:
        match said:
            case TextPiece():
                text = self._texts.setdefault(said.place, bytearray())
                if said.replaces:
                    text.clear()
                text += said.text.encode()
            case Attachment(part=part) if part.data is not UNSET:
                self._data.append(msgspec.json.encode(part.data))
            case _:
                pass

    def blocks(self) -> Iterator[str]:
        """The answer in blocks, so that a long one is not held twice; a short one is one block."""
        if not self._texts:
            yield "\n".join([json_document(msgspec.Raw(one)) for one in self._data])
            return
        size = sum(map(len, self._texts.values()))
        texts = [_without_line_ends(text) for text in self._texts.values()]
        if size <= _BLOCK_CHARS:
            yield "\n\n".join([bytes(text).decode() for text in texts])
            return
        for number, text in enumerate(texts):
            if number:
                yield "\n\n"
            decoder = getincrementaldecoder("utf-8")()
            for start in range(0, len(text), _BLOCK_CHARS):
                yield decoder.decode(text[start : start + _BLOCK_CHARS])


def _without_line_ends(text: bytearray) -> memoryview:
    start = len(text) - len(text.lstrip(b"\n"))
    end = len(text.rstrip(b"\n"))
    return memoryview(text)[start : max(start, end)]


def answer_of(said: Iterable[Display]) -> str:
    answer = Answer()
    for each in said:
        answer.add(each)
    return "".join(answer.blocks())


class AnswerSize:
    """`total` is the memory in bytes that the answer takes once it is kept.

    JSON may take twenty times its length, a text four times. An artifact that is sent again
    counts once, so that an agent may send a long text anew as it grows. Messages about work in
    progress are not kept and do not count.
    """

    def __init__(self) -> None:
        self.total = 0
        self._sizes: dict[str, int] = {}

    def add(self, item: StreamItem) -> None:
        match item:
            case Message():
                self._put(_MESSAGE + item.message_id, _message(item))
            case TaskStatusUpdateEvent():
                self._status(item.status)
            case TaskArtifactUpdateEvent(artifact=artifact):
                more = self._sizes.get(artifact.artifact_id, 0) if item.append else 0
                self._put(artifact.artifact_id, more + _artifact(artifact))
            case Task():
                for artifact in item.artifacts:
                    self._put(artifact.artifact_id, _artifact(artifact))
                self._put(_HISTORY, sum(map(_message, item.history)) + _memory((), item.metadata))
                self._status(item.status)

    def _status(self, status: TaskStatus) -> None:
        if status.message is not None and status.state not in HAS_WORK:
            self._put(_MESSAGE + status.message.message_id, _message(status.message))

    def _put(self, place: str, size: int) -> None:
        before = self._sizes.get(place)
        self._sizes[place] = size
        # The total never falls: the screen may still hold parts of the previous value.
        self.total += _ENTRY_BYTES + size if before is None else max(0, size - before)


def _message(message: Message) -> int:
    return _memory(message.parts, message.metadata)


def _artifact(artifact: Artifact) -> int:
    return _memory(artifact.parts, artifact.metadata, artifact.description or None)


def _memory(parts: tuple[Part, ...], *more: Any) -> int:
    """The bytes of all content of the parts, and of further values that are not None."""
    pending = [*more]
    for part in parts:
        data = None if part.data is UNSET else part.data
        pending += (part.text, part.raw, part.url, part.metadata, data)
    size, pending = 0, [one for one in pending if one is not None]
    while pending:
        one = pending.pop()
        size += getsizeof(one)
        if isinstance(one, dict):
            pending.extend(one)
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            pending.extend(one)
    return size
