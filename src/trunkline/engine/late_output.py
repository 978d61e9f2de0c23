"""`LateOutput`: the text of a run after its stop, up to a limit."""

from msgspec import Struct, field

from trunkline.engine.agent_message import AgentMessage
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
)
from trunkline.model.values import text_of

# The limit is enough to read how the work ended; a run that ignores its stop may never end.
MAX_LATE_CHARS = 64 * 1024


class LateOutput(Struct, eq=False):
    _stages: list[AgentMessage] = field(default_factory=lambda: [AgentMessage()])
    _size: int = 0

    def hear(self, output: Output) -> bool:
        """Add the output; True when the limit is reached."""
        if isinstance(output, StageStarted):
            self._stages.append(AgentMessage())
        elif isinstance(output, Final | DirectReply):
            if output.parts:
                self._stages[-1].complete(output.parts)
        else:
            self._stages[-1].hear(output)
        self._size += _size(output)
        return self._size >= MAX_LATE_CHARS

    @property
    def text(self) -> str:
        texts = [text_of(stage.content()) for stage in self._stages]
        return "\n\n".join(text for text in texts if text.strip())[:MAX_LATE_CHARS]


def _size(output: Output) -> int:
    """At least 1, so that any endless sequence of outputs reaches the limit."""
    match output:
        case Text():
            return 1 + len(output.delta)
        case TextPreview() | TextReplaced():
            return 1 + len(output.text)
        case Block() | StageEnded() | Final() | DirectReply():
            return 1 + len(text_of(output.parts))
        case _:
            return 1
