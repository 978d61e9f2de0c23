"""What a restart does with a task that had not ended."""

from enum import StrEnum

from trunkline.model.values import TaskState

RESTART_REASON = (
    "The gateway restarted while the agent was working on this task. "
    "The turn was not repeated; send the message again to start a new task."
)


class Recovery(StrEnum):
    REQUEUE = "requeue"
    FAIL = "fail"
    LEAVE = "leave"


def recover(state: TaskState) -> Recovery:
    if state is TaskState.SUBMITTED:
        return Recovery.REQUEUE
    # A turn may have had effects in the world, so it is not run twice unasked.
    if state is TaskState.WORKING:
        return Recovery.FAIL
    return Recovery.LEAVE
