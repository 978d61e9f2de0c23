"""Outputs: the items that an agent emits during a turn."""

from typing import Any, TypeAlias

from msgspec import Struct

from trunkline.model.values import Artifact, Part

TOOL_PHASES = frozenset({"start", "update", "result"})


class Text(Struct, frozen=True, gc=False):
    """A further piece of the answer."""

    delta: str


class TextReplaced(Struct, frozen=True, gc=False):
    """The whole answer so far, where an agent reports it anew instead of in pieces."""

    text: str


class TextPreview(Struct, frozen=True, gc=False):
    """Text of which the agent does not say whether it is a further piece or all of it so far.

    A text that begins with all earlier text replaces it; any other text is a further piece.
    """

    text: str


class Block(Struct, frozen=True, gc=False):
    """A passage of the answer that is complete. Where nothing streams, they are the answer."""

    parts: tuple[Part, ...]


class StageStarted(Struct, frozen=True, gc=False):
    """A new message of the agent begins; a turn may hold several, one after the other."""


class StageEnded(Struct, frozen=True, gc=False):
    """The message is complete, and the turn goes on. `parts` are the whole message and replace the
    streamed text and blocks."""

    parts: tuple[Part, ...] = ()


class ArtifactEmitted(Struct, frozen=True, gc=False, kw_only=True):
    """An artifact, whole or one chunk of it."""

    artifact: Artifact
    append: bool = False
    last_chunk: bool = True


class ToolCalled(Struct, frozen=True, gc=False, kw_only=True):
    """An agent uses a tool: it started, reported progress, or has a result."""

    call_id: str
    name: str
    phase: str  # "start", "update" or "result"
    data: Any = None
    is_error: bool = False

    @property
    def is_known(self) -> bool:
        """Whether it names the call, the tool and a known phase. The gateway ignores other
        calls."""
        return bool(self.phase in TOOL_PHASES and self.name and self.call_id)


class ToolSummarized(Struct, frozen=True, gc=False):
    """The result of a tool, for people to read."""

    parts: tuple[Part, ...]
    tool: str = ""


class Note(Struct, frozen=True, gc=False):
    """A progress note; shown as the message of the working status.

    `is_unreachable`: the agent is not there now, and its backend tries again to send the message.
    """

    parts: tuple[Part, ...]
    is_unreachable: bool = False


class Question(Struct, frozen=True, gc=False):
    """The agent needs an answer before it can go on: the task waits for input."""

    parts: tuple[Part, ...]


class AuthNeeded(Struct, frozen=True, gc=False):
    """The agent needs a credential that the caller gives out of band."""

    parts: tuple[Part, ...]


class DirectReply(Struct, frozen=True, gc=False):
    """The whole answer as one message. Without a task when nothing came before it."""

    parts: tuple[Part, ...]
    metadata: dict[str, Any] | None = None


class Final(Struct, frozen=True, gc=False):
    """The turn is done. `parts`, when given, are the answer in place of the text so far.

    `said` are words for the status alone, where the answer is in artifacts of the agent's own.
    """

    parts: tuple[Part, ...] = ()
    metadata: dict[str, Any] | None = None
    said: tuple[Part, ...] = ()


class Failed(Struct, frozen=True, gc=False):
    """The agent could not do it; `reason` is for the caller to read.

    `is_unreachable`: the agent is not there now, and the message did not reach it.
    """

    reason: str
    is_unreachable: bool = False


class Refused(Struct, frozen=True, gc=False):
    """The agent will not do it; `reason` is for the caller to read."""

    reason: str


Output: TypeAlias = (
    Text
    | TextReplaced
    | TextPreview
    | Block
    | StageStarted
    | StageEnded
    | ArtifactEmitted
    | ToolCalled
    | ToolSummarized
    | Note
    | Question
    | AuthNeeded
    | DirectReply
    | Final
    | Failed
    | Refused
)

# Outputs that end a turn. The gateway drops anything that the agent emits afterwards.
ENDS_TURN = (Question, AuthNeeded, DirectReply, Final, Failed, Refused)
