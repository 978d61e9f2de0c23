"""Message or task: whether a run that began without a task still does without one.

Text, blocks and the whole of one message fit into a direct reply; anything else, and a
second message, does not. Until it is clear, what the agent says is held back. A run
becomes a task once, and stays one.
"""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from trunkline.engine.agent_message import AgentMessage, has_content, is_blank
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
    """What is not the end of a run."""

    HOLD = "hold"  # it may still be either
    PROMOTE = "promote"  # it needs a task, which begins with all that was held back


class Direct(Struct, frozen=True):
    """The run ends with this message and leaves no task."""

    parts: Parts
    metadata: Metadata = None


class Unrepresentable(Struct, frozen=True):
    """The run ends with content that the caller does not take, and leaves no task."""

    available: tuple[str, ...]


Outcome: TypeAlias = Verdict | Direct | Unrepresentable

_Piece: TypeAlias = Text | TextPreview | TextReplaced | Block | StageStarted | StageEnded


class Staging:
    """Feed it outputs until it says something else than HOLD."""

    __slots__ = ("_accepted", "_has_final", "_held", "_is_active", "_is_hybrid")

    def __init__(self, *, is_hybrid: bool, accepted: AcceptedModes | None = None) -> None:
        """Unless it is hybrid, nothing but a direct reply does without a task."""
        self._is_hybrid = is_hybrid
        self._accepted = accepted
        self._held: list[Output] = []
        # Of the message under way: whether it says anything, and whether it was told whole.
        self._is_active = False
        self._has_final = False

    def feed(self, output: Output) -> Outcome:
        if isinstance(output, ToolCalled) and not output.is_known:
            return Verdict.HOLD
        self._held.append(output)
        if isinstance(output, DirectReply | Final):
            return self._end(output)
        if not self._is_hybrid or not isinstance(output, _Piece):
            return Verdict.PROMOTE
        return Verdict.PROMOTE if self._is_second(output) else Verdict.HOLD

    def take(self) -> list[Output]:
        """All that was held back, in order; pieces of text that follow each other are one."""
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

    def _is_second(self, output: _Piece) -> bool:
        """Whether a second message begins; otherwise the first one goes on."""
        match output:
            case StageStarted():
                self._has_final = False
                return self._is_active
            case StageEnded():
                if self._has_final:
                    return True
                self._has_final = True
                self._is_active = self._is_active or has_content(output.parts)
            case Block():
                self._is_active = self._is_active or has_content(output.parts)
            case Text():
                self._is_active = self._is_active or not is_blank(output.delta)
            case TextPreview() | TextReplaced():
                self._is_active = self._is_active or not is_blank(output.text)
        return False

    def _end(self, output: DirectReply | Final) -> Outcome:
        if not self._is_hybrid and (isinstance(output, Final) or len(self._held) > 1):
            return Verdict.PROMOTE
        if output.parts and self._has_final:
            return Verdict.PROMOTE
        content = self._content(output.parts)
        if not content:
            return Verdict.PROMOTE
        kept = content if self._accepted is None else self._accepted.kept(content)
        if has_content(content) and not has_content(kept):
            return Unrepresentable(tuple(dict.fromkeys(map(mode_of, content))))
        return Direct(kept, output.metadata)

    def _content(self, final: Parts) -> Parts:
        """What the one message says, in the form that counts most."""
        if not self._is_hybrid:
            return final
        stage = AgentMessage()
        for held in self._held:
            if isinstance(held, StageStarted):
                stage = AgentMessage()
            else:
                stage.hear(held)
        if final:
            stage.complete(final)
        content = stage.content()
        return content if has_content(content) else ()
