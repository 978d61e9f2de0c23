"""`recover`: how a restart treats a task that has not ended."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from trunkline.model.profile import RestartPolicy
from trunkline.model.values import TaskState

# The begin of the reason of each task that a restart failed.
RESTARTED: Final = "The gateway restarted while this task was"


class Recovery(StrEnum):
    REQUEUE = "requeue"
    RESUME = "resume"
    RETRY = "retry"
    FAIL = "fail"
    LEAVE = "leave"


def recover(state: TaskState, policies: Collection[RestartPolicy], *, can_resume: bool) -> Recovery:
    """How to treat a task in this state. `can_resume` says whether the agent continues a turn while
    the gateway is down."""
    if state is TaskState.SUBMITTED and "resume_queued" in policies:
        return Recovery.REQUEUE
    if state is TaskState.WORKING and "resume_running" in policies and can_resume:
        return Recovery.RESUME
    if state is TaskState.WORKING and "retry_running" in policies:
        return Recovery.RETRY
    if state in (TaskState.SUBMITTED, TaskState.WORKING) and "leave_orphaned" not in policies:
        return Recovery.FAIL
    return Recovery.LEAVE


def restart_reason(state: TaskState) -> str:
    """The reason in the status of a task that a restart failed in this state."""
    # A turn may have had effects in the world, so only the caller can ask to repeat it.
    was, then = (
        ("working", "The turn was not repeated")
        if state is TaskState.WORKING
        else ("submitted", "No turn of it was started")
    )
    return f"{RESTARTED} {was}. {then}; send the message again to start a new task."
