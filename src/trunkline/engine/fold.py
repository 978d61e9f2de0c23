"""A journal as a task: applying entries one by one gives the task at that point.

Folding in pieces equals folding at once, whatever the cut, also through a snapshot.
Appending costs the chunk and not the artifact, so the pieces of a streamed text are
kept apart until somebody reads.
"""

import msgspec
from msgspec import Struct

from trunkline.model.errors import GatewayBug
from trunkline.model.events import (
    Entry,
    MessageAccepted,
    StatusShown,
    TaskSubmitted,
    TurnOptions,
    TurnRetried,
)
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.store import Snapshot

_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode
_decode_artifacts = msgspec.json.Decoder(tuple[Artifact, ...]).decode


def _is_bare_text(part: Part) -> bool:
    return (
        part.text is not None
        and part.metadata is None
        and not part.filename
        and not part.media_type
    )


class _ArtifactFold:
    """An artifact that grows. Adjacent pieces of bare text are one part to a reader."""

    __slots__ = ("_head", "_parts", "_text")

    def __init__(self, artifact: Artifact) -> None:
        self._head = artifact
        self._parts: list[Part] = []
        self._text: list[str] = []
        for part in artifact.parts:
            self._push(part)

    def _push(self, part: Part) -> None:
        self._close_text()
        if _is_bare_text(part):
            self._text.append(part.text or "")
        else:
            self._parts.append(part)

    def _close_text(self) -> None:
        if self._text:
            self._parts.append(Part(text="".join(self._text)))
            self._text = []

    def extend(self, chunk: Artifact) -> None:
        head = self._head
        name = chunk.name or head.name
        description = chunk.description or head.description
        extensions = chunk.extensions or head.extensions
        # Most chunks bring nothing but parts.
        if (
            chunk.metadata
            or name != head.name
            or description != head.description
            or extensions != head.extensions
        ):
            self._head = Artifact(
                artifact_id=head.artifact_id,
                name=name,
                description=description,
                parts=(),
                metadata={**(head.metadata or {}), **(chunk.metadata or {})} or head.metadata,
                extensions=extensions,
            )
        for index, part in enumerate(chunk.parts):
            if index == 0 and self._text and _is_bare_text(part):
                self._text.append(part.text or "")
            else:
                self._push(part)

    def copy(self) -> "_ArtifactFold":
        other = _ArtifactFold.__new__(_ArtifactFold)
        other._head = self._head
        other._parts = list(self._parts)
        other._text = list(self._text)
        return other

    def artifact(self) -> Artifact:
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        parts = tuple(self._parts)
        if self._text:
            parts += (Part(text=self._text[0]),)
        head = self._head
        return Artifact(
            artifact_id=head.artifact_id,
            name=head.name,
            description=head.description,
            parts=parts,
            metadata=head.metadata,
            extensions=head.extensions,
        )


class Pending(Struct, frozen=True, gc=False):
    """A message that no turn has taken up yet."""

    message: Message
    options: TurnOptions | None
    # When it was accepted, so that a restart can tell what came first.
    since: str


class TaskFold:
    """The task as the entries up to `seq` tell it."""

    __slots__ = (
        "_artifacts",
        "_before_turn",
        "_history",
        "_known",
        "_task",
        "pending",
        "seq",
        "status",
    )

    def __init__(self, seq: int, task: Task, options: TurnOptions | None = None) -> None:
        self.seq = seq
        # Identity and metadata; what changes lives beside it.
        self._task = task
        self.status = task.status
        self._history = list(task.history)
        self._known = {message.message_id for message in task.history}
        # An artifact that nothing was appended to is kept as it came.
        self._artifacts: dict[str, Artifact | _ArtifactFold] = {
            artifact.artifact_id: artifact for artifact in task.artifacts
        }
        # What the turn under way took up, and what there was of the task by then.
        self._before_turn: tuple[Pending, int, tuple[Artifact, ...]] | None = None
        # Messages that no turn has taken up yet.
        self.pending: list[Pending] = []
        if task.status.state is TaskState.SUBMITTED:
            last = task.history[-1] if task.history else None
            if last is not None and last.role is Role.USER:
                self.pending.append(Pending(last, options, task.status.timestamp))

    @classmethod
    def of(cls, snapshot: Snapshot | None, tail: tuple[Entry, ...]) -> "TaskFold":
        if snapshot is not None:
            task = _decode_task(snapshot.task)
            if snapshot.artifacts:
                task = msgspec.structs.replace(
                    task, artifacts=_decode_artifacts(snapshot.artifacts)
                )
            fold = cls(snapshot.seq, task)
        else:
            first, *rest = tail
            fold, tail = cls.begin(first), tuple(rest)
        for entry in tail:
            fold.apply(entry)
        return fold

    @classmethod
    def begin(cls, entry: Entry) -> "TaskFold":
        event = entry.event
        if isinstance(event, TaskSubmitted):
            return cls(entry.seq, event.task, event.options)
        if isinstance(event, Task):
            return cls(entry.seq, event)
        raise GatewayBug("a journal begins with the task")

    @property
    def state(self) -> TaskState:
        return self.status.state

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._history)

    def settled_history(self) -> tuple[Message, ...]:
        """The history without the messages that no turn has taken up yet."""
        waiting = {id(each.message) for each in self.pending}
        return tuple(message for message in self._history if id(message) not in waiting)

    @property
    def knows_turn(self) -> bool:
        """Whether it has seen the turn under way begin, so that it can be run again."""
        return self.state is TaskState.WORKING and self._before_turn is not None

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return tuple(
            [
                each if isinstance(each, Artifact) else each.artifact()
                for each in self._artifacts.values()
            ]
        )

    def apply(self, entry: Entry) -> None:
        if entry.seq != self.seq + 1:
            raise GatewayBug(f"entry {entry.seq} does not follow {self.seq}")
        self.seq = entry.seq
        event = entry.event
        if isinstance(event, TaskArtifactUpdateEvent):
            self._apply_artifact(event)
        elif isinstance(event, TaskStatusUpdateEvent):
            self._apply_status(event.status)
        elif isinstance(event, MessageAccepted):
            # Clients reuse message ids; what they said is kept all the same.
            self._known.add(event.message.message_id)
            self._history.append(event.message)
            since = event.status_update.status.timestamp
            self.pending.append(Pending(event.message, event.options, since))
            self._apply_status(event.status_update.status)
        elif isinstance(event, TurnRetried):
            self._undo_turn()
            self._apply_status(event.status_update.status)
        elif isinstance(event, StatusShown):
            self._apply_status(event.status_update.status, is_kept=False)
        else:
            raise GatewayBug("a task is submitted once")

    def _undo_turn(self) -> None:
        if self._before_turn is None or not self.knows_turn:
            raise GatewayBug(f"task {self._task.id} has no turn to run again")
        taken_up, length, artifacts = self._before_turn
        # What callers said since stays; it waits for later turns.
        self._history[length:] = [m for m in self._history[length:] if m.role is Role.USER]
        self._artifacts = {artifact.artifact_id: artifact for artifact in artifacts}
        self.pending.insert(0, taken_up)

    def _apply_status(self, status: TaskStatus, *, is_kept: bool = True) -> None:
        before = self.status.state
        if before is TaskState.SUBMITTED and status.state is TaskState.WORKING and self.pending:
            artifacts = self.artifacts if self._artifacts else ()
            self._before_turn = (self.pending.pop(0), len(self._history), artifacts)
        if status.message is not None and is_kept:
            self._remember(status.message)
        self.status = status

    def _remember(self, message: Message) -> None:
        if message.message_id not in self._known:
            self._known.add(message.message_id)
            self._history.append(message)

    def _apply_artifact(self, event: TaskArtifactUpdateEvent) -> None:
        artifact = event.artifact
        known = self._artifacts.get(artifact.artifact_id)
        if known is None or not event.append:
            self._artifacts[artifact.artifact_id] = artifact
            return
        if isinstance(known, Artifact):
            known = self._artifacts[artifact.artifact_id] = _ArtifactFold(known)
        known.extend(artifact)

    def copy(self) -> "TaskFold":
        other = TaskFold.__new__(TaskFold)
        other.seq = self.seq
        other._task = self._task
        other.status = self.status
        other._history = list(self._history)
        other._known = set(self._known)
        other._artifacts = {
            key: each if isinstance(each, Artifact) else each.copy()
            for key, each in self._artifacts.items()
        }
        other.pending = list(self.pending)
        other._before_turn = self._before_turn
        return other

    def whole(self) -> Task:
        task = self._task
        return Task(
            id=task.id,
            context_id=task.context_id,
            status=self.status,
            artifacts=self.artifacts,
            history=self.history,
            metadata=task.metadata,
        )

    def snapshot(self) -> Snapshot:
        task = self._task
        bare = Task(
            id=task.id,
            context_id=task.context_id,
            status=self.status,
            history=tuple(self._history),
            metadata=task.metadata,
        )
        artifacts = _encode(self.artifacts) if self._artifacts else b""
        return Snapshot(self.seq, _encode(bare), artifacts)
