from itertools import product

import pytest

from trunkline.engine.transitions import TABLE, Step
from trunkline.model.errors import GatewayBug
from trunkline.model.values import TERMINAL, TaskState

# Transcribed from the life of a task in A2A 1.0; every pair that is not here is an error.
# Not taken from the code, or it would prove nothing.
EXPECTED = """
    SUBMITTED       accept     SUBMITTED
    SUBMITTED       start      WORKING
    SUBMITTED       fail       FAILED
    SUBMITTED       refuse     REJECTED
    SUBMITTED       cancel     CANCELED

    WORKING         accept     WORKING
    WORKING         note       WORKING
    WORKING         continue   SUBMITTED
    WORKING         ask        INPUT_REQUIRED
    WORKING         need-auth  AUTH_REQUIRED
    WORKING         complete   COMPLETED
    WORKING         fail       FAILED
    WORKING         refuse     REJECTED
    WORKING         cancel     CANCELED

    INPUT_REQUIRED  accept     SUBMITTED
    INPUT_REQUIRED  fail       FAILED
    INPUT_REQUIRED  cancel     CANCELED

    AUTH_REQUIRED   accept     SUBMITTED
    AUTH_REQUIRED   fail       FAILED
    AUTH_REQUIRED   cancel     CANCELED
"""
ALLOWED = {
    (state, step): outcome
    for state, step, outcome in (line.split() for line in EXPECTED.splitlines() if line)
}


@pytest.mark.parametrize(("state", "step"), list(product(TaskState, Step)))
def test_every_pair_of_state_and_step(state: TaskState, step: Step) -> None:
    outcome = ALLOWED.get((state.name, step.value))
    if outcome is None:
        with pytest.raises(GatewayBug, match=f"no transition from {state} by {step}"):
            TABLE[state, step]
    else:
        assert TABLE[state, step] == f"TASK_STATE_{outcome}"


def test_the_list_names_only_what_there_is() -> None:
    assert {state for state, _ in ALLOWED} <= {state.name for state in TaskState}
    assert {step for _, step in ALLOWED} == {step.value for step in Step}


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leaves_a_terminal_state(state: TaskState) -> None:
    for step in Step:
        with pytest.raises(GatewayBug):
            TABLE[state, step]
