"""What a peer tells twice: in the task that it shows to a follower who comes back, and once
more in the events that made the task so.

A peer whose events have no ids, and that does not take the snapshot and open the stream in one
step, sends what happens in between in both. Nearly all of it is new since the cut, and it ends
where the snapshot ends. Only the last event from before the cut may be among it.
"""

from collections.abc import Mapping

from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.client_responses import StreamItem


class Overlap:
    """Ask it of each event after the snapshot, until one is new; all that follow are, too."""

    def __init__(self, task: Task, shown: Mapping[str, tuple[int, int]]) -> None:
        """`shown` is how much text of each artifact was shown before the snapshot."""
        self._task = task
        self._artifacts = {artifact.artifact_id: artifact for artifact in task.artifacts}
        self._whole = {
            artifact_id: text
            for artifact_id, artifact in self._artifacts.items()
            if (text := _text(artifact.parts)) is not None
        }
        # What may come again, by artifact: at first all that is new, then what is behind the
        # events that came.
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
        """By the time of its status, or by its texts where the status is the same."""
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
            # Little happens in between, so of several places the last is the likely one.
            start = rest.rfind(text)
            self._followed.add(artifact_id)
            if not rest and self._whole[artifact_id].endswith(text):
                return True
        self._rest[artifact_id] = rest[start + len(text) :] if start >= 0 else ""
        return start >= 0


def _text(parts: tuple[Part, ...]) -> str | None:
    """All of it, however it is cut into parts; None where there is more than text."""
    texts = [part.text for part in parts if part.text is not None]
    return "".join(texts) if len(texts) == len(parts) else None


def _is_earlier(one: str, other: str) -> bool:
    """False where either says no time, or none that can be read."""
    try:
        return parse_timestamp(one) < parse_timestamp(other)
    except ValueError:
        return False
