"""`TaskFold`: a journal as a task. Applying entries one by one gives the task at that point.

Folding a journal in pieces, also by way of a snapshot, gives the same task as folding it at once.
"""

from collections.abc import Callable
from operator import attrgetter

import msgspec
from msgspec import Struct, structs

from trunkline.engine.artifact_fold import ArtifactFold
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
    INTERRUPTED,
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

_MESSAGE_ID = attrgetter("message_id")
_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode
_decode_artifacts = msgspec.json.Decoder(tuple[Artifact, ...]).decode

# Constants, because Python 3.11 looks up enum members through the metaclass, which is slow.
_SUBMITTED = TaskState.SUBMITTED
_WORKING = TaskState.WORKING
_USER = Role.USER
_BETWEEN_TURNS = INTERRUPTED | {TaskState.SUBMITTED}


class Pending(Struct, frozen=True, gc=False):
    """A message that waits for its turn."""

    message: Message
    options: TurnOptions | None
    # The time when the message was accepted, so that a restart keeps the order of messages.
    since: str
    # The entry that accepted the message, and the number of its turns that were undone. Both are
    # part of the run's id.
    seq: int
    retries: int = 0

    def run_id(self, task_id: str) -> str:
        """The id of the run: the same before and after a restart, and a new one when the turn is
        run again."""
        again = f"-{self.retries}" if self.retries else ""
        return f"{task_id}.{self.seq}{again}"


class TaskFold(Struct, eq=False):
    """The task as of entry `seq`."""

    seq: int
    # The task as it began, for its ids and metadata; the fields below replace the rest.
    _task: Task
    status: TaskStatus
    _history: list[Message]
    # The ids of the messages in history.
    _known: set[str]
    # The last status that had a message or began a turn.
    _asking: TaskStatus
    # An artifact without appended chunks is kept as it came.
    _artifacts: dict[str, Artifact | ArtifactFold] = {}
    # Whether an artifact was assembled from chunks, and so may be larger than each of them.
    has_grown: bool = False
    # The message of the current turn, and the length of history, the artifacts and the status
    # before that turn.
    _before_turn: tuple[Pending, int, tuple[Artifact, ...], TaskStatus] | None = None
    # Messages that no turn has taken up yet.
    pending: list[Pending] = []

    @classmethod
    def of_task(cls, seq: int, task: Task, options: TurnOptions | None = None) -> "TaskFold":
        known = set(map(_MESSAGE_ID, task.history))
        fold = cls(seq, task, task.status, list(task.history), known, task.status)
        for artifact in task.artifacts:
            fold._artifacts[artifact.artifact_id] = artifact
        if task.status.state is _SUBMITTED:
            last = task.history[-1] if task.history else None
            if last is not None and last.role is _USER:
                fold.pending.append(Pending(last, options, task.status.timestamp, seq))
        return fold

    @classmethod
    def of(cls, snapshot: Snapshot | None, tail: tuple[Entry, ...]) -> "TaskFold":
        if snapshot is not None:
            task = _decode_task(snapshot.task)
            if snapshot.artifacts:
                task = structs.replace(task, artifacts=_decode_artifacts(snapshot.artifacts))
            fold = cls.of_task(snapshot.seq, task)
        else:
            first, *rest = tail
            fold, tail = cls.begin(first), tuple(rest)
        for entry in tail:
            fold.apply(entry)
        return fold

    @classmethod
    def begin(cls, entry: Entry) -> "TaskFold":
        event = entry.decoded or entry.event
        if isinstance(event, TaskSubmitted):
            return cls.of_task(entry.seq, event.task, event.options)
        if isinstance(event, Task):
            return cls.of_task(entry.seq, event)
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
        """Whether the fold has seen the current turn begin, so that the turn can be run again."""
        return self.state is TaskState.WORKING and self._before_turn is not None

    @property
    def under_way(self) -> Pending | None:
        """The message of the current turn, if the fold has seen that turn begin."""
        before = self._before_turn
        return before[0] if before is not None and self.knows_turn else None

    @property
    def last_options(self) -> TurnOptions | None:
        """The options of the message that began the last turn."""
        return self._before_turn[0].options if self._before_turn is not None else None

    @property
    def earlier_artifacts(self) -> tuple[Artifact, ...]:
        """The artifacts from before the current turn."""
        return self._before_turn[2] if self._before_turn is not None else ()

    @property
    def asked_by(self) -> str:
        """The run whose last message, a question or not, the next message answers."""
        return _run_of(self._asking)

    @property
    def answered(self) -> str:
        """The run whose last message the current turn answers."""
        return _run_of(self._before_turn[3]) if self._before_turn is not None else ""

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        # A loop, because a comprehension costs a call in Python 3.11.
        artifacts: list[Artifact] = []
        for each in self._artifacts.values():
            artifacts.append(each if isinstance(each, Artifact) else each.artifact())
        return tuple(artifacts)

    def slim(self, slim: Callable[[tuple[Part, ...]], tuple[Part, ...]]) -> None:
        """Have `slim` replace large texts of artifacts that were assembled from chunks."""
        for key, each in self._artifacts.items():
            if isinstance(each, ArtifactFold):
                artifact = each.artifact()
                parts = slim(artifact.parts)
                if parts is not artifact.parts:
                    self._artifacts[key] = structs.replace(artifact, parts=parts)

    def apply(self, entry: Entry) -> None:
        if entry.seq != self.seq + 1:
            raise GatewayBug(f"entry {entry.seq} does not follow {self.seq}")
        self.seq = entry.seq
        # Without the property where possible, because this runs for every entry.
        event = entry.decoded or entry.event
        if isinstance(event, TaskArtifactUpdateEvent):
            self._apply_artifact(event)
        elif isinstance(event, TaskStatusUpdateEvent):
            self._apply_status(event.status)
        elif isinstance(event, MessageAccepted):
            # Clients reuse message ids, so history keeps every message of a caller.
            self._known.add(event.message.message_id)
            self._history.append(event.message)
            since = event.status_update.status.timestamp
            self.pending.append(Pending(event.message, event.options, since, entry.seq))
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
        taken_up, length, artifacts, self._asking = self._before_turn
        # Later messages of callers stay, and wait for later turns.
        self._history[length:] = [m for m in self._history[length:] if m.role is Role.USER]
        self._artifacts = {artifact.artifact_id: artifact for artifact in artifacts}
        self.pending.insert(0, structs.replace(taken_up, retries=taken_up.retries + 1))

    def _apply_status(self, status: TaskStatus, *, is_kept: bool = True) -> None:
        before = self.status.state
        if before is _SUBMITTED and status.state is _WORKING and self.pending:
            artifacts = self.artifacts if self._artifacts else ()
            taken_up = self.pending.pop(0)
            self._before_turn = (taken_up, len(self._history), artifacts, self._asking)
        if status.message is not None and is_kept:
            self._remember(status.message)
        if status.message is not None or status.state is _WORKING:
            self._asking = status
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
            known = self._artifacts[artifact.artifact_id] = ArtifactFold(known)
            self.has_grown = True
        known.extend(artifact)

    def copy(self) -> "TaskFold":
        return structs.replace(
            self,
            _history=list(self._history),
            _known=set(self._known),
            _artifacts={
                key: each if isinstance(each, Artifact) else each.copy()
                for key, each in self._artifacts.items()
            },
            pending=list(self.pending),
        )

    def whole(self) -> Task:
        return structs.replace(
            self._task, status=self.status, artifacts=self.artifacts, history=self.history
        )

    def snapshot(self) -> Snapshot:
        bare = structs.replace(
            self._task, status=self.status, artifacts=(), history=tuple(self._history)
        )
        artifacts = _encode(self.artifacts) if self._artifacts else b""
        return Snapshot(self.seq, _encode(bare), artifacts)


def _run_of(status: TaskStatus) -> str:
    """The run that sent the message of a status between turns; empty for none."""
    if status.message is None or status.state not in _BETWEEN_TURNS:
        return ""
    # The id of a message is the id of its run and a number.
    return status.message.message_id.rpartition(".")[0]
