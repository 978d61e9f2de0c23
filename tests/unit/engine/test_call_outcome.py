"""How a call came out, read from the task of the called agent."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from trunkline.engine.call_outcome import answer_of, outcome_of
from trunkline.engine.gateway_texts import AGENT_FAILED, AGENT_WITHDRAWN, GATEWAY_STOPPED
from trunkline.engine.recovery import restart_reason
from trunkline.engine.structured_answer import BROKEN
from trunkline.model.call_outcomes import StructuredAnswer
from trunkline.model.values import Artifact, Message, Part, Role, TaskState, TaskStatus


def status(state: TaskState, text: str = "", metadata: dict[str, Any] | None = None) -> TaskStatus:
    message = Message(message_id="m", role=Role.AGENT, parts=(Part(text=text),), metadata=metadata)
    return TaskStatus(state=state, message=message if text else None)


def artifact(*parts: Part) -> Artifact:
    return Artifact(artifact_id="a", parts=parts)


def test_a_completed_task_is_its_artifacts() -> None:
    done = status(TaskState.COMPLETED, "said as well")
    outcome = outcome_of(done, [artifact(Part(text='{"output": 1}'))])
    assert (outcome.status, outcome.answer) == ("completed", StructuredAnswer(1))
    outcome = outcome_of(done, [])
    assert outcome.answer == StructuredAnswer("said as well")
    outcome = outcome_of(status(TaskState.COMPLETED), [])
    assert outcome.answer == StructuredAnswer("")


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ((Part(data={"output": 1, "confidence": 0.9}),), StructuredAnswer(1, 0.9)),
        ((Part(text="prose"), Part(data=[1])), StructuredAnswer([1])),
        ((Part(data=1), Part(data={"output": 2})), StructuredAnswer([1, {"output": 2}])),
        ((Part(text="one"), Part(text="two")), StructuredAnswer("one\ntwo")),
        (
            (Part(raw=b"x", filename="a.png", media_type="image/png"),),
            StructuredAnswer([{"filename": "a.png", "mediaType": "image/png"}]),
        ),
        ((Part(text=""),), StructuredAnswer("")),
        ((), StructuredAnswer("")),
    ],
)
def test_data_comes_before_text_and_text_before_files(
    parts: tuple[Part, ...], answer: StructuredAnswer
) -> None:
    assert answer_of(parts) == answer


def test_data_that_is_nested_too_deep_stays_in_the_task() -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    for data in (value, {"output": value}):
        answer = answer_of([Part(data=data)])
        assert (answer.output, answer.confidence) == ("", BROKEN)
        assert "Its task has it" in answer.caveats[0]


def test_a_question_is_an_outcome() -> None:
    outcome = outcome_of(status(TaskState.INPUT_REQUIRED, "Which?"), [])
    assert (outcome.status, outcome.text) == ("input_required", "Which?")


@pytest.mark.parametrize(
    ("state", "text", "metadata", "code"),
    [
        (TaskState.FAILED, "no", None, "failed"),
        (TaskState.REJECTED, "no", None, "rejected"),
        (TaskState.CANCELED, "", None, "canceled"),
        (TaskState.REJECTED, "no", {"reason": "budget_exhausted"}, "budget_exhausted"),
        (TaskState.FAILED, "no", {"reason": ["odd"]}, "failed"),
        (TaskState.FAILED, "no", {"reason": "x" * 65}, "failed"),
        (TaskState.FAILED, "no", {"reason": "with spaces"}, "failed"),
        (TaskState.FAILED, AGENT_FAILED, None, "agent_failed"),
        (TaskState.FAILED, restart_reason(TaskState.WORKING), None, "gateway_restarted"),
        (TaskState.FAILED, restart_reason(TaskState.SUBMITTED), None, "gateway_restarted"),
        (TaskState.FAILED, GATEWAY_STOPPED, None, "gateway_restarted"),
        (TaskState.FAILED, f"{GATEWAY_STOPPED} It still works.", None, "gateway_restarted"),
        (TaskState.FAILED, AGENT_WITHDRAWN, None, "agent_withdrawn"),
        (TaskState.REJECTED, GATEWAY_STOPPED, None, "rejected"),
    ],
)
def test_an_error_has_a_code(
    state: TaskState, text: str, metadata: dict[str, Any] | None, code: str
) -> None:
    outcome = outcome_of(status(state, text, metadata), [])
    assert (outcome.status, outcome.code, outcome.text) == ("error", code, text)


def test_a_turn_that_its_agent_did_not_end_has_crashed() -> None:
    for text in (AGENT_FAILED, AGENT_WITHDRAWN, GATEWAY_STOPPED, restart_reason(TaskState.WORKING)):
        assert outcome_of(status(TaskState.FAILED, text), []).is_crash
    assert not outcome_of(status(TaskState.FAILED, "I cannot"), []).is_crash
    assert not outcome_of(status(TaskState.CANCELED, "Canceled"), []).is_crash


def test_numbers_that_json_has_no_form_for_are_delivered_as_null() -> None:
    outcome = outcome_of(
        status(TaskState.COMPLETED), [artifact(Part(data={"confidence": float("nan")}))]
    )
    encoded = msgspec.json.encode(structs.asdict(outcome))
    assert msgspec.json.decode(encoded)["answer"]["confidence"] == 0.5
