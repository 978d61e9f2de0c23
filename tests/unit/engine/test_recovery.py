import pytest

from trunkline.engine.recovery import RESTART_REASON, recover
from trunkline.model.values import TaskState

EXPECTED = {
    "SUBMITTED": "requeue",
    "WORKING": "fail",
    "INPUT_REQUIRED": "leave",
    "AUTH_REQUIRED": "leave",
    "COMPLETED": "leave",
    "FAILED": "leave",
    "CANCELED": "leave",
    "REJECTED": "leave",
    "UNSPECIFIED": "leave",
}


@pytest.mark.parametrize("state", TaskState)
def test_what_a_restart_does_with_each_state(state: TaskState) -> None:
    assert recover(state) == EXPECTED[state.name]


def test_the_reason_names_the_restart_and_what_to_do() -> None:
    assert "restarted" in RESTART_REASON
    assert "send the message again" in RESTART_REASON
