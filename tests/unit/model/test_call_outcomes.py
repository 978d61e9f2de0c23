"""How calls of agents come out."""

import pytest

from trunkline.model.call_outcomes import (
    AGENT_CRASHED,
    AGENT_WITHDRAWN,
    GATEWAY_RESTARTED,
    TIMED_OUT,
    CallOutcome,
    StructuredAnswer,
)


@pytest.mark.parametrize(
    ("outcome", "is_crash"),
    [
        (CallOutcome("error", code=AGENT_CRASHED), True),
        (CallOutcome("error", code=AGENT_WITHDRAWN), True),
        (CallOutcome("error", code=GATEWAY_RESTARTED), True),
        (CallOutcome("error", code=TIMED_OUT), False),
        (CallOutcome("error", code="failed"), False),
        (CallOutcome("completed", answer=StructuredAnswer("four")), False),
        (CallOutcome("input_required", text="Which base?"), False),
    ],
)
def test_a_crash_is_an_end_that_the_agent_did_not_choose(
    outcome: CallOutcome, is_crash: bool
) -> None:
    assert outcome.is_crash is is_crash


def test_an_answer_that_states_no_confidence_is_half_sure() -> None:
    """R-28."""
    assert StructuredAnswer("four").confidence == 0.5
