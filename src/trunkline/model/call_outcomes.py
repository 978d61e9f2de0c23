"""`CallOutcome`: how a call of one agent to another came out."""

from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

OutcomeStatus: TypeAlias = Literal["completed", "error", "input_required"]

# The confidence of an answer that states none.
UNSTATED: Final = 0.5
GATEWAY_RESTARTED: Final = "gateway_restarted"
AGENT_CRASHED: Final = "agent_failed"
TIMED_OUT: Final = "timeout"
AGENT_WITHDRAWN: Final = "agent_withdrawn"


class StructuredAnswer(Struct, frozen=True):
    output: Any
    confidence: float = UNSTATED
    assumptions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


class CallOutcome(Struct, frozen=True):
    status: OutcomeStatus
    # Of a completed call.
    answer: StructuredAnswer | None = None
    # Of an error.
    code: str = ""
    # The message of an error, or the question of an agent that needs more input.
    text: str = ""

    @property
    def is_crash(self) -> bool:
        """Whether the agent did not end its turn itself."""
        return self.code in (GATEWAY_RESTARTED, AGENT_CRASHED, AGENT_WITHDRAWN)
