"""An agent's outputs as events of its task.

The answer goes where clients of either protocol version look for it: into an artifact
while it streams, and into the message of the last status, which history keeps.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from trunkline.engine.transitions import Step
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
    Text,
    TextReplaced,
    ToolCalled,
)
from trunkline.model.values import Artifact, Message, Part, Role


class Chunk(Struct, frozen=True):
    """Record an artifact, or a further piece of it."""

    artifact: Artifact
    append: bool
    last_chunk: bool
    # Nothing new: it only says that the chunk before was the last one.
    is_closing: bool = False


class Move(Struct, frozen=True):
    """Record that the task takes this step, with what the agent says to it."""

    step: Step
    message: Message | None = None


Decision = Chunk | Move
Metadata: TypeAlias = dict[str, Any] | None

_CLOSING = (Part(text=""),)


class TurnFold:
    """One turn: feed it outputs, record what it decides. It has ended after a Move that
    is no note."""

    def __init__(
        self,
        *,
        run_id: str,
        task_id: str,
        context_id: str,
        number: int,
        artifact_ids: Iterable[str] = (),
    ) -> None:
        """`artifact_ids` are those that earlier turns made, and this one may append to."""
        self._run_id = run_id
        self._task_id = task_id
        self._context_id = context_id
        # Later turns must not overwrite the artifacts of earlier ones.
        self._suffix = f"-{number}" if number > 1 else ""
        self._answer_id = f"answer{self._suffix}"
        self._text: list[str] = []
        self._messages = 0
        self._known = set(artifact_ids)

    def feed(self, output: Output) -> tuple[Decision, ...]:
        match output:
            case Text():
                return self._grow(output.delta)
            case DirectReply() | Final():
                return self._finish(output.parts, output.metadata)
            case TextReplaced():
                return self._replace(output.text)
            case ArtifactEmitted():
                return (self._emit(output),)
            case ToolCalled():
                return (self._tool(output),)
            case Note():
                return (Move(Step.NOTE, self._message(output.parts)),)
            case Question():
                return (*self._close_text(), Move(Step.ASK, self._message(output.parts)))
            case AuthNeeded():
                return (*self._close_text(), Move(Step.NEED_AUTH, self._message(output.parts)))
            case Failed():
                return (*self._close_text(), self._say(Step.FAIL, output.reason))
            case Refused():
                return (*self._close_text(), self._say(Step.REFUSE, output.reason))

    def _grow(self, delta: str) -> tuple[Decision, ...]:
        if not delta:
            return ()
        is_first = not self._text
        self._text.append(delta)
        return (self._answer((Part(text=delta),), append=not is_first, last_chunk=False),)

    def _replace(self, text: str) -> tuple[Decision, ...]:
        so_far = "".join(self._text)
        if text == so_far:
            return ()
        if so_far and text.startswith(so_far):
            return self._grow(text[len(so_far) :])
        self._text = [text]
        return (self._answer((Part(text=text),), append=False, last_chunk=False),)

    def _emit(self, output: ArtifactEmitted) -> Chunk:
        artifact_id = output.artifact.artifact_id
        # The first chunk of an artifact has nothing to be appended to.
        append = output.append and artifact_id in self._known
        self._known.add(artifact_id)
        return Chunk(output.artifact, append, output.last_chunk)

    def _tool(self, output: ToolCalled) -> Chunk:
        data = {"tool": output.name, "phase": output.phase, "data": output.data}
        if output.is_error:
            data["isError"] = True
        artifact = Artifact(
            artifact_id=f"tool-{output.call_id}{self._suffix}",
            name=output.name,
            parts=(Part(data=data),),
            metadata={
                "source": "tool",
                "toolName": output.name,
                "toolCallId": output.call_id,
                "phase": output.phase,
            },
        )
        return Chunk(artifact, append=False, last_chunk=output.phase == "result")

    def _finish(self, parts: tuple[Part, ...], metadata: Metadata) -> tuple[Decision, ...]:
        decisions: tuple[Decision, ...]
        if parts:
            decisions = (self._answer(parts, append=False, last_chunk=True, metadata=metadata),)
        else:
            decisions = self._close_text(metadata)
            parts = (Part(text="".join(self._text)),) if self._text else ()
        # Files are in the artifact; the status repeats what can be read at a glance.
        said = tuple([part for part in parts if part.text is not None])
        message = self._message(said, metadata) if said else None
        return (*decisions, Move(Step.COMPLETE, message))

    def _close_text(self, metadata: Metadata = None) -> tuple[Decision, ...]:
        if not self._text:
            return ()
        closing = self._answer(_CLOSING, append=True, last_chunk=True, metadata=metadata)
        return (Chunk(closing.artifact, True, True, is_closing=metadata is None),)

    def _answer(
        self, parts: tuple[Part, ...], *, append: bool, last_chunk: bool, metadata: Metadata = None
    ) -> Chunk:
        artifact = Artifact(
            artifact_id=self._answer_id, name="answer", parts=parts, metadata=metadata
        )
        return Chunk(artifact, append, last_chunk)

    def _say(self, step: Step, text: str) -> Move:
        return Move(step, self._message((Part(text=text),)))

    def _message(self, parts: tuple[Part, ...], metadata: Metadata = None) -> Message:
        self._messages += 1
        return Message(
            message_id=f"{self._run_id}.{self._messages}",
            context_id=self._context_id,
            task_id=self._task_id,
            role=Role.AGENT,
            parts=parts,
            metadata=metadata,
        )
