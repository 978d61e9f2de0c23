"""How commands end: the exit codes, which scripts may rely on."""

from enum import IntEnum

from trunkline.model.values import TaskState


class Exit(IntEnum):
    """A code keeps its meaning for good; a new case gets a new code."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2
    TASK_FAILED = 3
    TASK_REJECTED = 4
    TASK_CANCELED = 5
    INPUT_REQUIRED = 6
    AUTH_REQUIRED = 7
    NOT_FOUND = 8
    UNREACHABLE = 9
    NO_ACCESS = 10
    REFUSED = 11
    NOT_UNDERSTOOD = 12
    DAMAGED = 13
    TOO_LARGE = 14
    TIMEOUT = 124
    INTERRUPTED = 130
    PIPE_CLOSED = 141


MEANINGS: dict[Exit, str] = {
    Exit.DONE: "done",
    Exit.FAILED: "failed while running: port in use, database locked or damaged, disk full",
    Exit.WRONG_USE: "wrong usage or configuration; nothing was sent",
    Exit.TASK_FAILED: "the task failed",
    Exit.TASK_REJECTED: "the agent rejected the task",
    Exit.TASK_CANCELED: "the task was canceled",
    Exit.INPUT_REQUIRED: "the agent asks a question, and the task waits for the answer",
    Exit.AUTH_REQUIRED: "the agent needs a sign-in before it continues",
    Exit.NOT_FOUND: "there is no such task, or it belongs to another caller",
    Exit.UNREACHABLE: "the agent cannot be reached, or the connection was lost",
    Exit.NO_ACCESS: "the credential is missing or not accepted",
    Exit.REFUSED: "the agent refused the request for another reason",
    Exit.NOT_UNDERSTOOD: "no A2A agent at this address, an invalid answer, or no common version",
    Exit.DAMAGED: "`db check` found damage in a store",
    Exit.TOO_LARGE: "the answer is larger than the limit; the task continues",
    Exit.TIMEOUT: "a time limit was reached; the task continues",
    Exit.INTERRUPTED: "interrupted with Ctrl+C; the task continues",
    Exit.PIPE_CLOSED: "the reader of the output is gone",
}

_STATES: dict[TaskState, Exit] = {
    TaskState.FAILED: Exit.TASK_FAILED,
    TaskState.REJECTED: Exit.TASK_REJECTED,
    TaskState.CANCELED: Exit.TASK_CANCELED,
    TaskState.INPUT_REQUIRED: Exit.INPUT_REQUIRED,
    TaskState.AUTH_REQUIRED: Exit.AUTH_REQUIRED,
}


def exit_of(state: TaskState | None) -> Exit:
    """How a command ends that waited for the task. Without a task, all is well."""
    return Exit.DONE if state is None else _STATES.get(state, Exit.DONE)
