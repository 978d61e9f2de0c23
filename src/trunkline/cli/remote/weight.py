"""`Weight`: how much memory the answer on a stream takes."""

from sys import getsizeof
from typing import Any, Final

from msgspec import UNSET

from trunkline.model.values import (
    HAS_WORK,
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.remote import StreamItem

# An artifact with nothing in it, of which every part of the command remembers something.
_ENTRY_BYTES: Final = 1024
_MESSAGE: Final = "\x00message"
_HISTORY: Final = "\x00history"


class Weight:
    """`total` is how many bytes of memory the answer takes for whoever keeps it.

    JSON may take twenty times its length, a text four times. What is sent again in place of
    what was there counts once, so that a long text may be sent anew as it grows. What an
    agent says about its work is not kept, and counts nothing.
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
                self._put(_HISTORY, sum(map(_message, item.history)) + _tree(item.metadata))
                self._status(item.status)

    def _status(self, status: TaskStatus) -> None:
        if status.message is not None and status.state not in HAS_WORK:
            self._put(_MESSAGE + status.message.message_id, _message(status.message))

    def _put(self, place: str, size: int) -> None:
        before = self._sizes.get(place)
        self._sizes[place] = size
        # Nothing is given back: parts of what was there may still be shown somewhere.
        self.total += _ENTRY_BYTES + size if before is None else max(0, size - before)


def _message(message: Message) -> int:
    return sum(map(_part, message.parts)) + _tree(message.metadata)


def _artifact(artifact: Artifact) -> int:
    head = getsizeof(artifact.description) if artifact.description else 0
    return head + sum(map(_part, artifact.parts)) + _tree(artifact.metadata)


def _part(part: Part) -> int:
    size = _tree(part.metadata)
    for content in (part.text, part.raw, part.url):
        if content is not None:
            size += getsizeof(content)
    return size if part.data is UNSET else size + _tree(part.data)


def _tree(value: Any) -> int:
    """Of JSON, all of it. None costs nothing."""
    if value is None:
        return 0
    size, pending = 0, [value]
    while pending:
        one = pending.pop()
        size += getsizeof(one)
        if isinstance(one, dict):
            pending.extend(one)
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            pending.extend(one)
    return size
