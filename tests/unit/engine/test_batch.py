"""Calls that are made together."""

from typing import Any

import pytest

from trunkline.engine.agent_calls import CallLimits, CallRefused
from trunkline.engine.batch import Batch, cut_short, next_of, read_batch
from trunkline.engine.plans import Finished, StepEnd, step_end
from trunkline.model.call_outcomes import CallOutcome, StructuredAnswer

KEY = "agent:caller:a2a:c1"
CALL = {"agent": "acme/poet", "input": "the moon"}


def read(**arguments: Any) -> Batch:
    return read_batch(arguments, CallLimits(), session_key=KEY)


def said(output: Any, confidence: float) -> StepEnd:
    answer = StructuredAnswer(output, confidence)
    return step_end(CallOutcome("completed", answer=answer), "t1")


def names(batch: Batch, done: dict[str, StepEnd]) -> list[str]:
    wanted = next_of(batch, done)
    assert isinstance(wanted, tuple)
    return [step.name for step in wanted]


def test_so_many_calls_are_under_way_at_once() -> None:
    batch = read(calls=[CALL] * 4, concurrency=2)
    done: dict[str, StepEnd] = {}
    assert names(batch, done) == ["call 0", "call 1"]
    done["call 1"] = said("x", 0.5)
    assert names(batch, done) == ["call 0", "call 2"]
    done["call 0"] = said("x", 0.5)
    done["call 2"] = said("x", 0.5)
    assert names(batch, done) == ["call 3"]


def test_the_result_has_every_call_in_its_order() -> None:
    batch = read(calls=[CALL] * 5)
    refused = CallOutcome("error", code="policy_denied", text="this agent may not call that one")
    done = {
        "call 0": said({"poem": 1}, 0.9),
        "call 1": step_end(refused, ""),
        "call 2": said("two", 0.4),
        "call 3": step_end(CallOutcome("error", code="timeout", text="timed out"), "t3"),
        "call 4": step_end(CallOutcome("input_required", text="Which moon?"), "t4"),
    }
    finished = next_of(batch, done)
    assert isinstance(finished, Finished)
    assert finished.confidence == 0.65
    assert finished.output == {
        "results": [
            {
                "index": 0,
                "status": "completed",
                "taskId": "t1",
                "output": {"poem": 1},
                "confidence": 0.9,
            },
            {
                "index": 1,
                "status": "error",
                "error": {"code": "policy_denied", "message": "this agent may not call that one"},
            },
            {
                "index": 2,
                "status": "completed",
                "taskId": "t1",
                "output": "two",
                "confidence": 0.4,
            },
            {
                "index": 3,
                "status": "timeout",
                "taskId": "t3",
                "error": {"code": "timeout", "message": "timed out"},
            },
            {
                "index": 4,
                "status": "input_required",
                "taskId": "t4",
                "question": "Which moon?",
                "error": {"code": "input_required", "message": "Which moon?"},
            },
        ],
        "aggregateConfidence": 0.65,
        "completedCount": 2,
        "errorCount": 3,
        "totalCount": 5,
    }


def test_a_batch_that_is_cut_off_has_what_it_got() -> None:
    batch = read(calls=[CALL] * 2)
    cut = cut_short(batch, {"call 0": said("x", 1.0)}).output
    assert [each["status"] for each in cut["results"]] == ["completed", "timeout"]
    assert (cut["completedCount"], cut["errorCount"]) == (1, 1)
    assert cut_short(batch, {}).output["aggregateConfidence"] == 0.0


def test_the_total_timeout_is_as_long_as_the_calls_need() -> None:
    calls = [{**CALL, "timeoutSeconds": 10}, {**CALL, "timeout": 20_000}, CALL]
    assert read(calls=calls, concurrency=1).total_ms == 3 * 60_000 + 5000
    assert read(calls=calls).total_ms == 65_000
    assert read(calls=calls, totalTimeoutSeconds=7).total_ms == 7000
    assert read(calls=calls, totalTimeout=1e9).total_ms == 1_800_000
    assert read(calls=[CALL] * 100, concurrency=1).total_ms == 1_800_000


def test_a_caller_waits_unless_it_says_otherwise() -> None:
    assert read(calls=[CALL]).waits
    assert not read(calls=[CALL], wait=False).waits
    assert read(calls=[CALL], wait=None, concurrency=None, returnTo=KEY).concurrency == 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "calls must be a list of 1 to 100 calls"),
        ({"calls": []}, "calls must be a list of 1 to 100 calls"),
        ({"calls": CALL}, "calls must be a list of 1 to 100 calls"),
        ({"calls": [CALL] * 101}, "calls must be a list of 1 to 100 calls"),
        ({"calls": [CALL, 7]}, "calls[1]: the arguments must be a JSON object"),
        ({"calls": [{"input": 1}]}, "calls[0]: agent must name an agent"),
        ({"calls": [{**CALL, "agent": "no spaces"}]}, "calls[0]: agent must name an agent"),
        ({"calls": [{**CALL, "skill": "§"}]}, "calls[0]: skill must be letters"),
        ({"calls": [{**CALL, "timeout": 0}]}, "calls[0]: timeout must be above 0"),
        ({"calls": [{**CALL, "timeoutSeconds": "x"}]}, "calls[0]: timeoutSeconds must be a number"),
        ({"calls": [{**CALL, "returnTo": "agent:x:y"}]}, "calls[0]: returnTo is not the session"),
        ({"calls": [{**CALL, "colour": 1}]}, "calls[0]: colour is not an argument; there is: "),
        ({"calls": [CALL], "concurrency": 0}, "concurrency must be a whole number from 1 to 50"),
        ({"calls": [CALL], "concurrency": 51}, "concurrency must be a whole number from 1 to 50"),
        ({"calls": [CALL], "concurrency": 2.5}, "concurrency must be a whole number"),
        ({"calls": [CALL], "concurrency": True}, "concurrency must be a whole number"),
        ({"calls": [CALL], "totalTimeout": 0}, "totalTimeout must be above 0"),
        ({"calls": [CALL], "totalTimeoutSeconds": -1}, "totalTimeoutSeconds must be a number"),
        ({"calls": [CALL], "wait": 1}, "wait must be true or false"),
        ({"calls": [CALL], "returnTo": "agent:x:y"}, "returnTo is not the session of this turn"),
        ({"calls": [CALL], "agents": []}, "agents is not an argument; there is: calls, "),
    ],
)
def test_bad_input_is_refused_with_the_name_of_the_field(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(CallRefused) as refused:
        read(**arguments)
    assert refused.value.text.startswith(text)
    # Such as `calls[1].agent`.
    assert refused.value.argument.split(".")[-1] in refused.value.text
