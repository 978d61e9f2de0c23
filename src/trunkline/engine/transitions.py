"""The one table of task states. A pair that is missing is an error.

Rule: every change of a task's state is a row here. A terminal state has no rows, so nothing leaves
it.
"""

from enum import StrEnum

from trunkline.model.errors import GatewayBug
from trunkline.model.values import TaskState


class Step(StrEnum):
    """An event that can change the state of a task."""

    ACCEPT = "accept"  # a further message was accepted and waits for its turn
    START = "start"  # a turn of the agent starts
    NOTE = "note"  # the agent reports what it is doing
    CONTINUE = "continue"  # a turn ended while another message waits
    ASK = "ask"  # the agent needs input
    NEED_AUTH = "need-auth"  # the agent needs a credential
    COMPLETE = "complete"
    FAIL = "fail"
    REFUSE = "refuse"
    CANCEL = "cancel"


class _Table(dict[tuple[TaskState, Step], TaskState]):
    def __missing__(self, pair: tuple[TaskState, Step]) -> TaskState:
        raise GatewayBug(f"no transition from {pair[0]} by {pair[1]}")


_S = TaskState

TABLE = _Table(
    {
        (_S.SUBMITTED, Step.ACCEPT): _S.SUBMITTED,
        (_S.SUBMITTED, Step.START): _S.WORKING,
        (_S.SUBMITTED, Step.FAIL): _S.FAILED,
        (_S.SUBMITTED, Step.REFUSE): _S.REJECTED,
        (_S.SUBMITTED, Step.CANCEL): _S.CANCELED,
        (_S.WORKING, Step.ACCEPT): _S.WORKING,
        (_S.WORKING, Step.NOTE): _S.WORKING,
        (_S.WORKING, Step.CONTINUE): _S.SUBMITTED,
        (_S.WORKING, Step.ASK): _S.INPUT_REQUIRED,
        (_S.WORKING, Step.NEED_AUTH): _S.AUTH_REQUIRED,
        (_S.WORKING, Step.COMPLETE): _S.COMPLETED,
        (_S.WORKING, Step.FAIL): _S.FAILED,
        (_S.WORKING, Step.REFUSE): _S.REJECTED,
        (_S.WORKING, Step.CANCEL): _S.CANCELED,
        (_S.INPUT_REQUIRED, Step.ACCEPT): _S.SUBMITTED,
        (_S.INPUT_REQUIRED, Step.FAIL): _S.FAILED,
        (_S.INPUT_REQUIRED, Step.CANCEL): _S.CANCELED,
        (_S.AUTH_REQUIRED, Step.ACCEPT): _S.SUBMITTED,
        (_S.AUTH_REQUIRED, Step.FAIL): _S.FAILED,
        (_S.AUTH_REQUIRED, Step.CANCEL): _S.CANCELED,
    }
)
