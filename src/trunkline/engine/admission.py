"""May this message in? The rules of A2A for a message that names a task or a context."""

from trunkline.model.errors import Case, InvalidParams, UnsupportedOperation
from trunkline.model.values import TERMINAL, Message, TaskState


def check_follow_up(message: Message, *, context_id: str, state: TaskState) -> None:
    """What holds for a message to a task that exists."""
    # A2A: a context that differs from the task's is refused, never replaced.
    if message.context_id and message.context_id != context_id:
        raise InvalidParams.at(
            "message.contextId",
            "is not the context of the task that message.taskId names; leave it out",
            metadata={
                "taskId": message.task_id,
                "contextId": context_id,
                "givenContextId": message.context_id,
            },
            case=Case.OTHER_CONTEXT,
        )
    # A2A: a task in a terminal state cannot be restarted.
    if state in TERMINAL:
        raise UnsupportedOperation(
            f"Task {message.task_id} has ended ({state}) and takes no further messages; "
            "send the message without taskId to start a new task in the same context",
            metadata={"taskId": message.task_id, "state": state.value},
            case=Case.MESSAGE_TO_ENDED_TASK,
        )
