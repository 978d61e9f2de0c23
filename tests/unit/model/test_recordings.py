import pytest

from trunkline.model.recordings import RecordedStep, Recording, status_step
from trunkline.model.values import Message, Part, Role, TaskState, TaskStatus, TaskStatusUpdateEvent

SAID = (Part(text="hello"),)


def update(state: TaskState, *, says: bool = True) -> TaskStatusUpdateEvent:
    message = Message(message_id="m", role=Role.AGENT, parts=SAID, metadata={"a": 1})
    status = TaskStatus(state=state, message=message if says else None)
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=status)


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        (TaskState.WORKING, None),
        (TaskState.SUBMITTED, "completed"),
        (TaskState.COMPLETED, "completed"),
        (TaskState.FAILED, "failed"),
        (TaskState.REJECTED, "rejected"),
        (TaskState.INPUT_REQUIRED, "input"),
        (TaskState.AUTH_REQUIRED, "auth"),
        (TaskState.CANCELED, "canceled"),
    ],
)
def test_the_end_of_a_turn_is_that_of_its_status(state: TaskState, ending: str | None) -> None:
    step = status_step(update(state), 5)
    assert (step.ending, step.said, step.metadata, step.after_ms) == (ending, SAID, {"a": 1}, 5)


def test_a_status_without_a_message_says_nothing() -> None:
    assert status_step(update(TaskState.COMPLETED, says=False), 0) == RecordedStep(
        ending="completed"
    )


def test_a_recording_may_have_no_turn() -> None:
    assert Recording(turns=()).turns == ()
