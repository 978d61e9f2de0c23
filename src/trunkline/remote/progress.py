"""`Progress`: the task of a peer so far, folded from an answer or a stream.

A task replaces all artifacts; a chunk appends to one. Adjacent pieces of bare text become one
part, so a streamed answer reads like one that was not streamed.
"""

from trunkline.engine.artifact_fold import ArtifactFold
from trunkline.model import values
from trunkline.protocol.client_responses import StreamItem


class Progress:
    def __init__(self, *, keeps_artifacts: bool = True) -> None:
        """Without `keeps_artifacts`, only ids, status and messages are kept."""
        self._keeps_artifacts = keeps_artifacts
        self.task_id = ""
        self.context_id = ""
        self.status: values.TaskStatus | None = None
        self.has_task = False
        self.messages = 0
        self.last_message: values.Message | None = None
        self._task: values.Task | None = None
        self._artifacts: dict[str, ArtifactFold] = {}

    def add(self, item: StreamItem) -> None:
        task_id = item.id if isinstance(item, values.Task) else item.task_id
        self.task_id = task_id or self.task_id
        self.context_id = item.context_id or self.context_id
        if isinstance(item, values.Message):
            self.messages += 1
            self.last_message = item
            return
        self.has_task = True
        if not isinstance(item, values.TaskArtifactUpdateEvent):
            self.status = item.status
        if self._keeps_artifacts:
            self._fold(item)

    def _fold(self, item: StreamItem) -> None:
        if isinstance(item, values.Task):
            self._task = item
            self._artifacts = {each.artifact_id: ArtifactFold(each) for each in item.artifacts}
        elif isinstance(item, values.TaskArtifactUpdateEvent):
            known = self._artifacts.get(item.artifact.artifact_id)
            if item.append and known is not None:
                known.extend(item.artifact, replaces_metadata=True)
            else:
                self._artifacts[item.artifact.artifact_id] = ArtifactFold(item.artifact)

    @property
    def state(self) -> values.TaskState | None:
        return None if self.status is None else self.status.state

    @property
    def is_settled(self) -> bool:
        return self.state in values.SETTLED

    @property
    def kind(self) -> str:
        if self.has_task:
            return "task"
        return "message" if self.messages == 1 else ""

    def artifacts(self) -> tuple[values.Artifact, ...]:
        return tuple([each.artifact() for each in self._artifacts.values()])

    def task(self) -> values.Task:
        """The task as of now, folded from all items."""
        status = self.status or values.TaskStatus(state=values.TaskState.UNSPECIFIED)
        return values.Task(
            id=self.task_id,
            context_id=self.context_id,
            status=status,
            artifacts=self.artifacts(),
            history=self._task.history if self._task else (),
            metadata=self._task.metadata if self._task else None,
        )

    def answer(self) -> str:
        """The text of the agent, never the caller's: its artifacts, then its last message."""
        if not self.has_task:
            return "" if self.last_message is None else _text(self.last_message.parts)
        texts = [text for each in self.artifacts() if (text := _text(each.parts))]
        said = _text(self.status.message.parts) if self.status and self.status.message else ""
        # While the task works, the message of its status does not belong to the answer.
        if said and said not in texts and (self.is_settled or not texts):
            texts.append(said)
        if not texts and self.last_message is not None:
            texts = [_text(self.last_message.parts)]
        return "\n\n".join(texts or self._said_in_history())

    def _said_in_history(self) -> list[str]:
        said: list[str] = []
        for message in self._task.history if self._task else ():
            # Messages before the last question of the user answered an earlier question.
            if message.role is values.Role.USER:
                said = []
            elif text := _text(message.parts):
                said.append(text)
        return said


def _text(parts: tuple[values.Part, ...]) -> str:
    return "\n\n".join([part.text for part in parts if part.text])
