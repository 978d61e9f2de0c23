"""`refusal_text` and `failure_text`: the sentences of a profile for refusals and failures."""

from typing import Final

from trunkline.model.calls import Refusal
from trunkline.model.outputs import Failed
from trunkline.model.profile import GatewayTexts

BUDGET_EXHAUSTED: Final = "budget_exhausted"
BUSY: Final = "busy"
# The ends of tasks whose agent raised an error, or did not get to the end of its turn.
AGENT_FAILED: Final = (
    "The agent failed while working on this task. The gateway's log has the details."
)
GATEWAY_STOPPED: Final = "The gateway stopped before the agent was done with this task."
AGENT_WITHDRAWN: Final = "The agent was withdrawn before it was done with this task."


def refusal_text(texts: GatewayTexts, refusal: Refusal, *, handle: str) -> str:
    """The text of the task that a refused message makes."""
    if refusal.reason == BUSY and texts.busy:
        return texts.busy.format(handle=handle)
    # Other budgets have this reason too, such as that of one caller. They name no limit.
    if refusal.reason == BUDGET_EXHAUSTED and refusal.limit is not None and texts.budget_exhausted:
        return texts.budget_exhausted.format(handle=handle, limit=refusal.limit)
    return refusal.text


def failure_text(texts: GatewayTexts, failed: Failed) -> str:
    """The text of a task that failed for a reason of its backend."""
    return texts.unreachable if failed.is_unreachable and texts.unreachable else failed.reason
