"""What a follower of a stream has shown so far, so that a cut loses and doubles nothing."""

from typing import Final

from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.values import (
    INTERRUPTED,
    TERMINAL,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.client_responses import StreamItem

# Ids that are remembered, to notice an event that comes twice.
_REMEMBERED: Final = 4096
# Of the largest number that anybody counts to.
_DIGITS: Final = 19


class Hole(Exception):
    """An event of a peer that numbers them without holes is missing."""


class Seen:
    def __init__(self, task_id: str = "") -> None:
        self.task_id = task_id
        # The last id that the peer gave, to resume from.
        self.last_id = ""
        # Set for peers that are known to number events without holes.
        self.is_numbered = False
        self._status: TaskStatus | None = None
        self._is_answered = False
        # Of each artifact: characters of text, and the number of other parts.
        self.sizes: dict[str, tuple[int, int]] = {}
        self._recent: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """Nothing more can come."""
        return self._is_answered or (self._status is not None and self._status.state in TERMINAL)

    @property
    def is_settled(self) -> bool:
        """Over, or waiting for the caller: a stream may end here."""
        return self.is_over or (self._status is not None and self._status.state in INTERRUPTED)

    def is_repeated(self, id: str, payload: bytes) -> bool:
        """Whether the event with its own id came before. Raises Hole when one before is missing.

        The same id alone proves nothing: some peers count anew on each connection.
        """
        number = _number(id) if self.is_numbered else None
        if number is not None:
            last = _number(self.last_id)
            missing = number - last - 1 if last is not None else 0
            if missing > 0:
                raise Hole
            return missing < 0
        digest = hash(payload)
        if self._recent.get(id) == digest:
            return True
        if len(self._recent) >= _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[id] = digest
        return False

    def forget_id(self) -> None:
        """The peer cannot resume from it, or has said that there is a gap."""
        self.last_id = ""

    def note(self, item: StreamItem) -> None:
        """Remember what is about to be shown. Raises as `meet` does, and then notes nothing."""
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
        """Raises InvalidAgentResponse for another task than the one that is followed."""
        if self.task_id and task_id != self.task_id:
            raise InvalidAgentResponse("the stream holds an event of another task")
        self.task_id = task_id

    def shows(self, task: Task) -> bool:
        """Whether a snapshot holds nothing that was not shown.

        Texts are compared by length, since agents differ in how they join their pieces.
        """
        return self._status == task.status and self.sizes == _sizes(task)


def _number(id: str) -> int | None:
    """What it counts; other texts are ids as well, and some of them are digits all the same."""
    return int(id) if id.isascii() and id.isdigit() and len(id) <= _DIGITS else None


def _sizes(task: Task) -> dict[str, tuple[int, int]]:
    return {artifact.artifact_id: _size(artifact.parts) for artifact in task.artifacts}


def _size(parts: tuple[Part, ...]) -> tuple[int, int]:
    """Characters of text, and the number of other parts."""
    if len(parts) == 1 and (text := parts[0].text) is not None:
        return len(text), 0
    texts = [len(part.text) for part in parts if part.text is not None]
    return sum(texts), len(parts) - len(texts)
