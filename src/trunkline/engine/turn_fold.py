"""`TurnFold`: the outputs of an agent as events of its task.

The answer goes where clients of either protocol version look for it: into an artifact while it
streams, and into the message of the last status, which history keeps. A profile may choose other
places.
"""

from typing import Any

from msgspec import Struct, structs

from trunkline.engine.agent_message import has_content, is_blank
from trunkline.engine.artifact_chunks import StreamedMessage
from trunkline.engine.artifact_styles import ArtifactStyle
from trunkline.engine.decisions import (
    STANDARD,
    Chunk,
    Decisions,
    Metadata,
    Move,
    OutputStyle,
    Parts,
)
from trunkline.engine.gateway_texts import failure_text
from trunkline.engine.media_types import UNREPRESENTABLE, AcceptedModes, mode_of
from trunkline.engine.transitions import Step
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Block,
    DirectReply,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
    StageEnded,
    StageStarted,
    Text,
    TextPreview,
    TextReplaced,
    ToolCalled,
    ToolSummarized,
)
from trunkline.model.values import Artifact, Message, Part, Role, text_of

# Constants, because Python 3.11 looks up enum members through the metaclass, which is slow.
_COMPLETE = Step.COMPLETE
_AGENT = Role.AGENT

# The statuses by which a tool says in its result that a person must approve the call.
_APPROVAL_STATUSES = frozenset({"approval-pending", "needs_approval"})


class TurnFold(Struct, kw_only=True, eq=False):
    """One turn: feed it outputs and record its decisions. A Move that is not a note ends it."""

    run_id: str
    task_id: str
    context_id: str
    # Names the artifacts of the turn, and knows the ids of those from earlier turns.
    names: ArtifactStyle
    style: OutputStyle = STANDARD
    accepted: AcceptedModes | None = None
    # The number of messages that the turn has sent, or may have sent before a restart.
    said: int = 0
    _stage: StreamedMessage | None = None
    # The newest message that has content for the status.
    _last: Parts = ()
    # Media types of content that the caller does not accept, in order.
    _left_out: tuple[str, ...] = ()
    _has_answer: bool = False

    def feed(self, output: Output) -> Decisions:
        match output:
            case Text():
                return self._grow(output.delta)
            case Final(said=said) if said:
                return self._finish(output.parts, output.metadata, said)
            case DirectReply() | Final():
                return self._finish(output.parts, output.metadata)
            case TextReplaced():
                return self._replace(output.text)
            case TextPreview():
                return self._preview(output.text)
            case Block():
                return self._open().show_block(self._take(output.parts))
            case StageStarted():
                return self._next_stage()
            case StageEnded():
                return self._complete(output.parts)
            case ArtifactEmitted():
                return self._emit(output)
            case ToolCalled():
                return self._tool(output)
            case ToolSummarized():
                return self._summarize(output)
            case _:
                return self._signal(output)

    def may_be_all(self, output: Output) -> bool:
        """Whether the output is a text that may be the whole answer."""
        return (
            type(output) is Text
            and self.style is STANDARD
            and self.accepted is None
            and self._stage is None
            and not self._last
            # ASCII is always valid JSON; half a surrogate pair would fail too late to be reported.
            and output.delta.isascii()
            and not is_blank(output.delta)
        )

    def _signal(self, output: Note | Question | AuthNeeded | Failed | Refused) -> Decisions:
        match output:
            case Note(is_unreachable=True) if self.style.fails_offline:
                failed = Failed(text_of(output.parts), is_unreachable=True)
                return (
                    *self._close(),
                    self._say(Step.FAIL, failure_text(self.style.texts, failed)),
                )
            case Note():
                return (Move(Step.NOTE, self._message(output.parts)),)
            case Question():
                return (*self._close(), Move(Step.ASK, self._message(output.parts)))
            case AuthNeeded():
                return (*self._close(), Move(Step.NEED_AUTH, self._message(output.parts)))
            case Failed():
                return (
                    *self._close(),
                    self._say(Step.FAIL, failure_text(self.style.texts, output)),
                )
            case Refused():
                return (*self._close(), self._say(self.style.refusal, output.reason))

    def hear(self, output: Output) -> Decisions:
        """Decide on output that comes during a stop, when the turn can no longer end by itself."""
        match output:
            case DirectReply() | Final():
                decisions = self._complete(output.parts) if output.parts else ()
            case Question() | AuthNeeded() | Failed() | Refused() | Note():
                decisions = ()
            case _:
                decisions = self.feed(output)
        return tuple(decision for decision in decisions if isinstance(decision, Chunk))

    def stop(self, step: Step, reason: str) -> Decisions:
        """End the turn because of a stop."""
        closing = self._close() if self.names.keeps_output_after_stop else ()
        if self.names.keeps_output_after_stop and step is Step.CANCEL and has_text(self._last):
            return (*closing, Move(step, self._message(_texts(self._last))))
        return (*closing, self._say(step, reason) if reason else Move(step))

    def _open(self) -> StreamedMessage:
        if self._stage is None:
            self._stage = StreamedMessage(style=self.style, names=self.names, message=self._message)
        return self._stage

    def _next_stage(self) -> Decisions:
        stage = self._stage
        if stage is not None and (stage.is_active or stage.shown):
            return self._close()
        self._stage = None
        return ()

    def _grow(self, delta: str) -> Decisions:
        if not delta or (self.accepted is not None and not self._takes_text()):
            return ()
        return (self._stage or self._open()).show_text(delta)

    def _preview(self, text: str) -> Decisions:
        return self._grow(self._open().rest_of(text))

    def _replace(self, text: str) -> Decisions:
        if not self._takes_text():
            return ()
        stage = self._open()
        rest = stage.rest_of(text)
        return self._grow(rest) if rest != text else stage.show_replacement(text)

    def _complete(self, parts: Parts) -> Decisions:
        """Take the complete text of a message; a second one is another message."""
        closing = self._close() if self._stage is not None and self._stage.has_final else ()
        return (*closing, *self._open().show_whole(self._take(parts)))

    def _emit(self, output: ArtifactEmitted) -> Decisions:
        artifact = output.artifact
        if self.accepted is not None and artifact.parts:
            kept = self._take(artifact.parts)
            if not kept:
                return ()
            artifact = structs.replace(artifact, parts=kept)
        name = self.names.beside(artifact.artifact_id)
        if name != artifact.artifact_id:
            artifact = structs.replace(artifact, artifact_id=name)
        # The first chunk of an artifact has nothing to be appended to.
        append = output.append and artifact.artifact_id in self.names.taken
        self.names.taken.add(artifact.artifact_id)
        return (Chunk(artifact, append, output.last_chunk),)

    def _tool(self, called: ToolCalled) -> Decisions:
        artifact = self.names.tool(called) if called.is_known else None
        if artifact is None:
            return ()
        shown = Chunk(artifact, append=False, last_chunk=called.phase == "result")
        asked = approval_asked(called)
        if asked is None:
            return (shown,)
        question = asked or self.style.texts.approval
        return (shown, *self._close(), self._say(Step.ASK, question))

    def _summarize(self, output: ToolSummarized) -> Decisions:
        parts = self._take(output.parts)
        if not has_content(parts):
            return ()
        label = self.names.summary(output.tool)
        artifact = Artifact(
            artifact_id=label.artifact_id, name=label.name, parts=parts, metadata=label.metadata
        )
        return (Chunk(artifact, append=False, last_chunk=not self.names.sends_last_chunk_false),)

    def _finish(self, parts: Parts, metadata: Metadata, words: Parts = ()) -> Decisions:
        is_plain = self.style is STANDARD and self.accepted is None
        if parts and is_plain and self._stage is None and not self._last:
            return self._tell_at_once(parts, metadata)
        told = self._tell(parts) if parts else ()
        decisions = told + self._close(metadata)
        if self._left_out and not self._has_answer:
            return (*decisions, self._unrepresentable())
        # The artifact has the files; the status repeats only the text.
        said = words or (_texts(self._last) if self.style.in_artifact else self._last)
        message = self._message(said, metadata) if said and self.style.in_status else None
        if self.style.texts.empty_answer and not has_content(self._last) and not words:
            message = self._message((Part(text=self.style.texts.empty_answer),))
        return (*decisions, Move(_COMPLETE, message, self.style.in_history))

    def _tell_at_once(self, parts: Parts, metadata: Metadata) -> Decisions:
        """Answer in one piece, by far the most frequent case, without assembling a message."""
        label = self.names.stage()
        artifact = Artifact(
            artifact_id=label.artifact_id, name=label.name, parts=parts, metadata=metadata
        )
        said = _texts(parts)
        message = self._message(said, metadata) if said else None
        return (Chunk(artifact, False, True), Move(_COMPLETE, message))

    def _tell(self, parts: Parts) -> Decisions:
        if self.names.closes_in_second_event:
            return self._complete(parts)
        closing = self._close() if self._stage is not None and self._stage.has_final else ()
        self._open().complete(self._take(parts))
        return closing

    def _unrepresentable(self) -> Move:
        assert self.accepted is not None
        metadata = {
            "acceptedOutputModes": list(self.accepted.named),
            "availableOutputModes": list(self._left_out),
        }
        return Move(Step.FAIL, self._message((Part(text=UNREPRESENTABLE),), metadata))

    def _close(self, metadata: Metadata = None) -> Decisions:
        """End the current message."""
        stage, self._stage = self._stage, None
        if stage is None:
            return ()
        content = stage.content()
        self._remember(content)
        return stage.close(content, metadata)

    def _remember(self, content: Parts) -> None:
        """Keep the newest message with content for the last status."""
        says = has_text if self.style.in_artifact else has_content
        if not self._last or says(content):
            self._last = content

    def _takes_text(self) -> bool:
        if self.accepted is None:
            return True
        return bool(self._take((Part(text="text"),)))

    def _take(self, parts: Parts) -> Parts:
        """The parts that the caller accepts."""
        if self.accepted is None:
            return parts
        kept = self.accepted.kept(parts)
        if has_content(kept):
            self._has_answer = True
        for part in parts:
            mode = mode_of(part)
            if part not in kept and has_content((part,)) and mode not in self._left_out:
                self._left_out += (mode,)
        return kept

    def _say(self, step: Step, text: str) -> Move:
        return Move(step, self._message((Part(text=text),)))

    def _message(self, parts: Parts, metadata: Metadata = None) -> Message:
        self.said += 1
        return Message(
            message_id=f"{self.run_id}.{self.said}",
            context_id=self.context_id,
            task_id=self.task_id,
            role=_AGENT,
            parts=parts,
            metadata=metadata,
        )


def has_text(parts: Parts) -> bool:
    return has_content(_texts(parts))


def _texts(parts: Parts) -> Parts:
    if len(parts) == 1 and parts[0].text is not None:
        return parts
    return tuple([part for part in parts if part.text is not None])


def approval_asked(called: ToolCalled) -> str | None:
    """The question for the caller, empty when the tool has no text for it; None when the call
    needs no approval."""
    result = called.data
    if called.phase != "result" or called.is_error or not isinstance(result, dict):
        return None
    request: Any = result.get("requiresApproval")
    if not isinstance(request, dict):
        request = {}
    status = result.get("status")
    is_waiting = isinstance(status, str) and status in _APPROVAL_STATUSES
    if not is_waiting and request.get("type") != "approval_request":
        return None
    prompt = request.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""
