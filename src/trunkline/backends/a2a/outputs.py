"""`Copy`: the events of an upstream task as outputs of the turn."""

from collections.abc import Iterable

from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    DirectReply,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
)
from trunkline.model.values import (
    INTERRUPTED,
    TERMINAL,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    text_of,
)
from trunkline.protocol.client_responses import StreamItem

Parts = tuple[Part, ...]

SAID_NOTHING = "The agent failed without saying why."
REFUSED = "The agent refused the task without saying why."
CANCELED = "The agent canceled the task by itself."
ASKS = "The agent needs more input."
NEEDS_AUTH = "The agent needs you to sign in."


class Copy:
    """The outputs of one turn, from the events of the upstream.

    A task contains everything before it, so `feed` leaves out what it has returned before.
    """

    def __init__(self, told: Iterable[Message] = ()) -> None:
        """`told` are the messages of the task that clients have seen."""
        self.is_over = False
        self.is_asking = False
        # Characters of text and other parts of each artifact as it was passed on.
        self._shown: dict[str, tuple[int, int]] = {}
        self._told = {_content(message.parts) for message in told if message.role is Role.AGENT}

    def feed(self, item: StreamItem) -> list[Output]:
        match item:
            case TaskArtifactUpdateEvent():
                return [self._chunk(item)]
            case TaskStatusUpdateEvent():
                return self._status(item.status, ())
            case Task():
                whole = [out for each in item.artifacts for out in self._whole(each)]
                return [*whole, *self._status(item.status, item.history)]
            case Message():
                self.is_over = True
                return [DirectReply(item.parts, item.metadata)]

    def _chunk(self, item: TaskArtifactUpdateEvent) -> Output:
        artifact = item.artifact
        size = _size(artifact.parts)
        before = self._shown.get(artifact.artifact_id)
        append = item.append and before is not None
        if append and before is not None:
            size = before[0] + size[0], before[1] + size[1]
        self._shown[artifact.artifact_id] = size
        return ArtifactEmitted(artifact=artifact, append=append, last_chunk=bool(item.last_chunk))

    def _whole(self, artifact: Artifact) -> list[Output]:
        size = _size(artifact.parts)
        if self._shown.get(artifact.artifact_id) == size:
            return []
        self._shown[artifact.artifact_id] = size
        return [ArtifactEmitted(artifact=artifact)]

    def _status(self, status: TaskStatus, history: tuple[Message, ...]) -> list[Output]:
        said = status.message.parts if status.message is not None else ()
        if status.state in TERMINAL or status.state in INTERRUPTED:
            self.is_over = True
            self.is_asking = status.state in INTERRUPTED
            return [self._end(status, said, history)]
        return self._note(said)

    def _note(self, said: Parts) -> list[Output]:
        content = _content(said)
        if not said or content in self._told:
            return []
        self._told.add(content)
        return [Note(said)]

    def _end(self, status: TaskStatus, said: Parts, history: tuple[Message, ...]) -> Output:
        match status.state:
            case TaskState.COMPLETED:
                return self._completed(status.message, history)
            case TaskState.INPUT_REQUIRED:
                return Question(said or (Part(text=ASKS),))
            case TaskState.AUTH_REQUIRED:
                return AuthNeeded(said or (Part(text=NEEDS_AUTH),))
            case TaskState.REJECTED:
                return Refused(text_of(said) or REFUSED)
            case TaskState.CANCELED:
                return Failed(text_of(said) or CANCELED)
            case _:
                return Failed(text_of(said) or SAID_NOTHING)

    def _completed(self, message: Message | None, history: tuple[Message, ...]) -> Output:
        if self._shown:
            # The artifacts hold the answer; the message of the status repeats or completes it.
            if message is None:
                return Final()
            return Final((), message.metadata, message.parts)
        if message is None:
            # Some agents put their answer into the history alone.
            message = next((each for each in reversed(history) if each.role is Role.AGENT), None)
        return Final() if message is None else Final(message.parts, message.metadata)


def still_asks(item: StreamItem, asked: Iterable[Message]) -> bool:
    """Whether it is a task that still waits for the answer to one of the `asked` messages."""
    if not isinstance(item, Task) or item.status.state not in INTERRUPTED:
        return False
    said = item.status.message
    return said is None or any(message.parts == said.parts for message in asked)


def _size(parts: Parts) -> tuple[int, int]:
    texts = [len(part.text) for part in parts if part.text is not None]
    return sum(texts), len(parts) - len(texts)


def _content(parts: Parts) -> str:
    """A key of the content: some agents give a message a new id with each reading of the task."""
    return repr(parts)
