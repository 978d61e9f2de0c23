"""`Staging`: decides whether a run ends as a direct message or needs a task.

A direct reply can hold the text, the blocks and the complete text of one message. Any other output,
or a second message, needs a task. Output is held back until the decision is clear. A run becomes a
task once, and stays one.
"""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct, field

from trunkline.engine.agent_message import AgentMessage, has_content
from trunkline.engine.decisions import Metadata, Parts
from trunkline.engine.media_types import AcceptedModes, mode_of
from trunkline.model.outputs import (
    Block,
    DirectReply,
    Final,
    Output,
    StageEnded,
    StageStarted,
    Text,
    TextPreview,
    TextReplaced,
    ToolCalled,
)


class Verdict(Enum):
    """A decision before the end of a run."""

    HOLD = "hold"  # it may still end as a message
    PROMOTE = "promote"  # it needs a task, which begins with the output held back


class Direct(Struct, frozen=True):
    """The run ends with this message and leaves no task."""

    parts: Parts
    metadata: Metadata = None


class Unrepresentable(Struct, frozen=True):
    """The run ends with content that the caller does not accept, and leaves no task."""

    available: tuple[str, ...]


Outcome: TypeAlias = Verdict | Direct | Unrepresentable

_Piece: TypeAlias = Text | TextPreview | TextReplaced | Block | StageStarted | StageEnded


class Staging(Struct, kw_only=True, eq=False):
    """Feed it outputs until it returns something other than HOLD."""

    # Whether the agent is hybrid; for any other agent, only a direct reply needs no task.
    is_hybrid: bool
    accepted: AcceptedModes | None = None
    _held: list[Output] = []
    # The message so far of a hybrid agent, and whether the agent has said anything in it.
    _message: AgentMessage = field(default_factory=AgentMessage)
    _is_active: bool = False

    def feed(self, output: Output) -> Outcome:
        if isinstance(output, ToolCalled) and not output.is_known:
            return Verdict.HOLD
        self._held.append(output)
        if isinstance(output, DirectReply | Final):
            return self._end(output)
        if not self.is_hybrid or not isinstance(output, _Piece) or self._begins_second(output):
            return Verdict.PROMOTE
        return Verdict.HOLD

    def take(self) -> list[Output]:
        """The output held back, in order; adjacent pieces of text are joined."""
        held, self._held = self._held, []
        merged: list[Output] = []
        pieces: list[str] = []
        for output in held:
            if isinstance(output, Text):
                pieces.append(output.delta)
                continue
            if pieces:
                merged.append(Text("".join(pieces)))
                pieces = []
            merged.append(output)
        if pieces:
            merged.append(Text("".join(pieces)))
        return merged

    def _begins_second(self, output: _Piece) -> bool:
        """Whether a second message begins; otherwise the first one continues."""
        if isinstance(output, StageStarted):
            self._message = AgentMessage()
            return self._is_active
        if isinstance(output, StageEnded) and self._message.has_final:
            return True
        self._message.hear(output)
        self._is_active = self._is_active or self._message.is_active
        return False

    def _end(self, output: DirectReply | Final) -> Outcome:
        if not self.is_hybrid and (isinstance(output, Final) or len(self._held) > 1):
            return Verdict.PROMOTE
        if output.parts and self._message.has_final:
            return Verdict.PROMOTE
        content = self._content(output.parts)
        if not content:
            return Verdict.PROMOTE
        kept = content if self.accepted is None else self.accepted.kept(content)
        if has_content(content) and not has_content(kept):
            return Unrepresentable(tuple(dict.fromkeys(map(mode_of, content))))
        return Direct(kept, output.metadata)

    def _content(self, final: Parts) -> Parts:
        """The content of the message, in the form that takes precedence."""
        if not self.is_hybrid:
            return final
        if final:
            self._message.complete(final)
        content = self._message.content()
        return content if has_content(content) else ()
