"""The payloads with which agents ask each other."""

import pytest

from trunkline.model.call_outcomes import TIMED_OUT, CallOutcome, StructuredAnswer
from trunkline.protocol import skill_calls

ANSWER = StructuredAnswer("four", 0.9, ("base ten",), ("not checked",))


def test_a_call_names_what_is_asked_and_where_the_answer_goes() -> None:
    """R-01."""
    asked = skill_calls.invocation(
        correlation_id="c1",
        skill="sum",
        mode="execute",
        input={"of": [2, 2]},
        return_to="agent:editor:main",
        timeout_ms=60_000,
    )
    assert asked == {
        "kind": "skill_invocation",
        "skill": "sum",
        "mode": "execute",
        "input": {"of": [2, 2]},
        "correlationId": "c1",
        "returnTo": "agent:editor:main",
        "timeout": 60_000,
    }


def test_agents_elsewhere_learn_nothing_of_the_session_that_asks() -> None:
    asked = skill_calls.invocation(
        correlation_id="c1", skill="sum", mode="execute", input="2", return_to="s", timeout_ms=1
    )
    assert skill_calls.remote_metadata(asked) == {
        "skill_invocation": {
            "kind": "skill_invocation",
            "skill": "sum",
            "mode": "execute",
            "correlationId": "c1",
            "timeout": 1,
        }
    }


def test_an_answer_has_what_the_agent_states_about_it() -> None:
    """R-04."""
    assert skill_calls.response("c1", "t1", CallOutcome("completed", answer=ANSWER)) == {
        "kind": "skill_response",
        "correlationId": "c1",
        "taskId": "t1",
        "status": "completed",
        "output": "four",
        "confidence": 0.9,
        "assumptions": ["base ten"],
        "caveats": ["not checked"],
    }


def test_a_timeout_names_the_time() -> None:
    """R-06."""
    assert skill_calls.timeout("c1", "t1", 1500) == {
        "kind": "skill_timeout",
        "correlationId": "c1",
        "taskId": "t1",
        "status": "timeout",
        "message": "Agent call timed out after 1500ms",
    }


@pytest.mark.parametrize(
    "outcome",
    [
        CallOutcome("completed", answer=ANSWER),
        CallOutcome("input_required", text="Which base?"),
        CallOutcome("error", code="failed", text="The agent failed"),
    ],
    ids=lambda outcome: outcome.status,
)
def test_a_response_is_read_as_it_was_written(outcome: CallOutcome) -> None:
    assert skill_calls.outcome_in(skill_calls.response("c1", "t1", outcome)) == outcome


def test_a_timeout_is_read_as_an_error() -> None:
    outcome = skill_calls.outcome_in(skill_calls.timeout("c1", "t1", 1500))
    text = "Agent call timed out after 1500ms"
    assert outcome == CallOutcome("error", code=TIMED_OUT, text=text)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("not_found", "not_found"),
        ("policy_denied", "forbidden"),
        ("return_to_refused", "forbidden"),
        ("caller_unknown", "forbidden"),
        ("validation_failed", "error"),
    ],
)
def test_a_call_that_was_not_made_is_told_from_one_that_failed(code: str, status: str) -> None:
    refused = skill_calls.refusal(code, "why")
    assert refused == {"status": status, "error": {"code": code, "message": "why"}}
    assert skill_calls.is_refusal(refused)
    failed = skill_calls.response("c1", "t1", CallOutcome("error", code="failed", text="why"))
    assert not skill_calls.is_refusal(failed)


def test_an_answer_in_a_session_says_where_it_comes_from() -> None:
    """R-04."""
    assert skill_calls.provenance("agent_call", "c1") == {
        "provenance": {
            "kind": "tool_response",
            "sourceTool": "agent_call",
            "correlationId": "c1",
        }
    }
