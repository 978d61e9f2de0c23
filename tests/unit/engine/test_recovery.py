import pytest

from trunkline.engine.recovery import recover, restart_reason
from trunkline.model.profile import RestartPolicy
from trunkline.model.values import TaskState

# Policies → what becomes of a task that waited, and of one that ran.
EXPECTED: dict[tuple[RestartPolicy, ...], tuple[str, str]] = {
    ("resume_queued", "fail_running"): ("requeue", "fail"),
    ("resume_queued", "retry_running"): ("requeue", "retry"),
    ("resume_queued", "leave_orphaned"): ("requeue", "leave"),
    ("fail_running",): ("fail", "fail"),
    ("retry_running",): ("fail", "retry"),
    ("leave_orphaned",): ("leave", "leave"),
}


@pytest.mark.parametrize("policies", EXPECTED, ids="+".join)
def test_x11_what_a_restart_does_with_each_state(policies: tuple[RestartPolicy, ...]) -> None:
    waited, ran = EXPECTED[policies]
    for state in TaskState:
        expected = {TaskState.SUBMITTED: waited, TaskState.WORKING: ran}.get(state, "leave")
        for can_resume in (False, True):
            assert recover(state, policies, can_resume=can_resume) == expected


def test_x11_what_ran_is_picked_up_where_the_backend_can() -> None:
    policies: tuple[RestartPolicy, ...] = ("resume_queued", "resume_running", "fail_running")
    assert recover(TaskState.WORKING, policies, can_resume=True) == "resume"
    assert recover(TaskState.WORKING, policies, can_resume=False) == "fail"
    assert recover(TaskState.SUBMITTED, policies, can_resume=True) == "requeue"
    assert recover(TaskState.INPUT_REQUIRED, policies, can_resume=True) == "leave"


@pytest.mark.parametrize("state", [TaskState.SUBMITTED, TaskState.WORKING])
def test_x11_the_reason_names_the_old_state_and_what_to_do(state: TaskState) -> None:
    reason = restart_reason(state)
    assert f"restarted while this task was {state.name.lower()}" in reason
    assert "send the message again" in reason
