"""`Seen` and `Overlap`: which events of a resumed stream the caller already has."""

from collections.abc import Mapping
from typing import Final

from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import (
    SETTLED,
    TERMINAL,
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.client_responses import StreamItem

# The number of event ids that are remembered, to notice an event that comes twice.
_REMEMBERED: Final = 4096
# Digits of the largest 64-bit sequence number.
_DIGITS: Final = 19


class MissingEvent(Exception):
    """An event is missing in the stream of a peer that numbers them without gaps."""


class Seen:
    def __init__(self, task_id: str = "") -> None:
        self.task_id = task_id
        # The last id that the peer gave, to resume from.
        self.last_id = ""
        # Set for peers that are known to number events without gaps.
        self.is_numbered = False
        self._status: TaskStatus | None = None
        self._is_answered = False
        # Of each artifact: characters of text, and the number of other parts.
        self.sizes: dict[str, tuple[int, int]] = {}
        self._recent: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """The stream has had its last event."""
        return self._is_answered or (self._status is not None and self._status.state in TERMINAL)

    @property
    def is_settled(self) -> bool:
        """Over, or waiting for the caller: a stream may end here."""
        return self._is_answered or (self._status is not None and self._status.state in SETTLED)

    def is_repeated(self, id: str, payload: bytes) -> bool:
        """Whether an event with this id came before. Raises MissingEvent for a gap before it.

        The same id alone proves nothing: some peers count anew on each connection.
        """
        number = _number(id) if self.is_numbered else None
        if number is not None:
            last = _number(self.last_id)
            missing = number - last - 1 if last is not None else 0
            if missing > 0:
                raise MissingEvent
            return missing < 0
        digest = hash(payload)
        if self._recent.get(id) == digest:
            return True
        if len(self._recent) >= _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[id] = digest
        return False

    def begin_with(self, item: StreamItem) -> None:
        """Take the first event that has an id. Raises MissingEvent if the task before it is lost.

        A peer that numbers its events begins with the task, which holds all earlier events. The
        id of the task is kept, so that the client can subscribe to it and get them.
        """
        if self.is_numbered and isinstance(item, TaskArtifactUpdateEvent | TaskStatusUpdateEvent):
            self.meet(item.task_id)
            raise MissingEvent

    def note(self, item: StreamItem) -> None:
        """Remember an item that the caller is about to get. Notes nothing if `meet` raises."""
        if isinstance(item, TaskArtifactUpdateEvent):
            if item.task_id != self.task_id:
                self.meet(item.task_id)
            artifact = item.artifact
            size = _size(artifact.parts)
            if item.append and (before := self.sizes.get(artifact.artifact_id)):
                size = before[0] + size[0], before[1] + size[1]
            self.sizes[artifact.artifact_id] = size
        elif isinstance(item, TaskStatusUpdateEvent):
            self.meet(item.task_id)
            self._status = item.status
        elif isinstance(item, Task):
            self.meet(item.id)
            self._status = item.status
            self.sizes = _sizes(item)
        else:
            self._is_answered = True

    def meet(self, task_id: str) -> None:
        """Raises InvalidAgentResponse for any task but the one that the stream follows."""
        if self.task_id and task_id != self.task_id:
            raise InvalidAgentResponse("the stream holds an event of another task")
        self.task_id = task_id

    def shows(self, task: Task) -> bool:
        """Whether the caller already has everything in a snapshot.

        Texts are compared by length, since agents differ in how they join their pieces.
        """
        return self._status == task.status and self.sizes == _sizes(task)


def _number(id: str) -> int | None:
    """The sequence number in an id; None for any other text, even if it is all digits."""
    return int(id) if id.isascii() and id.isdigit() and len(id) <= _DIGITS else None


def _sizes(task: Task) -> dict[str, tuple[int, int]]:
    return {artifact.artifact_id: _size(artifact.parts) for artifact in task.artifacts}


def _size(parts: tuple[Part, ...]) -> tuple[int, int]:
    """Characters of text, and the number of other parts."""
    if len(parts) == 1 and (text := parts[0].text) is not None:
        return len(text), 0
    texts = [len(part.text) for part in parts if part.text is not None]
    return sum(texts), len(parts) - len(texts)


class Overlap:
    """The events that a snapshot of the task already holds.

    A peer whose events have no ids, and that does not take the snapshot and open the stream in
    one step, sends the events in between twice: in the snapshot and in the stream. Nearly all of
    them are newer than the cut, and they end where the snapshot ends; only the last event before
    the cut may be among them. Ask `holds` for each event until one is new; so are all after it.
    """

    def __init__(self, task: Task, shown: Mapping[str, tuple[int, int]]) -> None:
        """`shown` is the size of each artifact that the caller got before the snapshot."""
        self._task = task
        self._artifacts = {artifact.artifact_id: artifact for artifact in task.artifacts}
        self._whole = {
            artifact_id: text
            for artifact_id, artifact in self._artifacts.items()
            if (text := _text(artifact.parts)) is not None
        }
        # The text of each artifact that may come again: at first all that is new, then the
        # part after the events that came.
        self._rest = {
            artifact_id: text[shown.get(artifact_id, (0, 0))[0] :]
            for artifact_id, text in self._whole.items()
        }
        self._followed: set[str] = set()

    def holds(self, item: StreamItem) -> bool:
        match item:
            case TaskStatusUpdateEvent():
                return self._has_passed(item.status)
            case TaskArtifactUpdateEvent():
                return self._holds_piece(item.artifact)
            case Task():
                return item.id == self._task.id and self._is_behind(item)
            case Message():
                return False

    def _has_passed(self, status: TaskStatus) -> bool:
        ours = self._task.status
        return status == ours or _is_earlier(status.timestamp, ours.timestamp)

    def _is_behind(self, task: Task) -> bool:
        """Compared by the time of the status, or by the texts if the status is the same."""
        if task.status != self._task.status:
            return _is_earlier(task.status.timestamp, self._task.status.timestamp)
        texts = {each.artifact_id: _text(each.parts) or "" for each in task.artifacts}
        return all(self._whole.get(id, "").startswith(text) for id, text in texts.items())

    def _holds_piece(self, piece: Artifact) -> bool:
        artifact_id = piece.artifact_id
        text, rest = _text(piece.parts), self._rest.get(artifact_id)
        if text is None or rest is None:
            known = self._artifacts.get(artifact_id)
            return known is not None and known.parts[-len(piece.parts) :] == piece.parts
        if artifact_id in self._followed:
            start = 0 if rest and rest.startswith(text) else -1
        else:
            # Few events come in between, so the last of several places is the likely one.
            start = rest.rfind(text)
            self._followed.add(artifact_id)
            if not rest and self._whole[artifact_id].endswith(text):
                return True
        self._rest[artifact_id] = rest[start + len(text) :] if start >= 0 else ""
        return start >= 0


def _text(parts: tuple[Part, ...]) -> str | None:
    """The joined text of the parts; None if there are other parts."""
    texts = [part.text for part in parts if part.text is not None]
    return "".join(texts) if len(texts) == len(parts) else None


def _is_earlier(one: str, other: str) -> bool:
    """False if either timestamp is missing or invalid."""
    try:
        return parse_timestamp(one) < parse_timestamp(other)
    except ValueError:
        return False
