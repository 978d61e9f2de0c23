"""The payloads with which one agent asks another, as JSON: the call, its answer and its timeout."""

from collections.abc import Mapping
from typing import Any, Final

from trunkline.model.call_outcomes import TIMED_OUT, CallOutcome, StructuredAnswer

INVOCATION: Final = "skill_invocation"
RESPONSE: Final = "skill_response"
TIMEOUT: Final = "skill_timeout"


def invocation(
    *,
    correlation_id: str,
    skill: str,
    mode: str,
    input: Any,
    return_to: str,
    timeout_ms: int,
) -> dict[str, Any]:
    """What the called agent gets. It need not understand it."""
    return {
        "kind": INVOCATION,
        "skill": skill,
        "mode": mode,
        "input": input,
        "correlationId": correlation_id,
        "returnTo": return_to,
        "timeout": timeout_ms,
    }


def remote_metadata(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a message to an agent elsewhere, whose text is the input. The session of the
    caller is no business of others."""
    return {INVOCATION: {k: v for k, v in payload.items() if k not in ("input", "returnTo")}}


def response(correlation_id: str, task_id: str, outcome: CallOutcome) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "kind": RESPONSE,
        "correlationId": correlation_id,
        "taskId": task_id,
        "status": outcome.status,
    }
    if outcome.answer is not None:
        answer = outcome.answer
        payload["output"] = answer.output
        payload["confidence"] = answer.confidence
        payload["assumptions"] = [*answer.assumptions]
        payload["caveats"] = [*answer.caveats]
    elif outcome.status == "input_required":
        payload["question"] = outcome.text
    else:
        payload["error"] = {"code": outcome.code, "message": outcome.text}
    return payload


def timeout(correlation_id: str, task_id: str, timeout_ms: int) -> dict[str, Any]:
    return {
        "kind": TIMEOUT,
        "correlationId": correlation_id,
        "taskId": task_id,
        "status": "timeout",
        "message": f"Agent call timed out after {timeout_ms}ms",
    }


_REFUSED: Final = {
    "not_found": "not_found",
    "policy_denied": "forbidden",
    "return_to_refused": "forbidden",
    "caller_unknown": "forbidden",
}


def refusal(code: str, text: str) -> dict[str, Any]:
    """The result of a tool for a call that was not made."""
    return {"status": _REFUSED.get(code, "error"), "error": {"code": code, "message": text}}


def is_refusal(value: dict[str, Any]) -> bool:
    """Whether it is the result of a call that was not made: it has no task."""
    return "error" in value and "taskId" not in value


def outcome_in(payload: Mapping[str, Any]) -> CallOutcome:
    """The outcome that a response or a timeout tells."""
    match payload["status"]:
        case "completed":
            answer = StructuredAnswer(
                payload["output"],
                payload["confidence"],
                tuple(payload["assumptions"]),
                tuple(payload["caveats"]),
            )
            return CallOutcome("completed", answer=answer)
        case "input_required":
            return CallOutcome("input_required", text=payload["question"])
        case "timeout":
            return CallOutcome("error", code=TIMED_OUT, text=payload["message"])
        case _:
            error = payload["error"]
            return CallOutcome("error", code=error["code"], text=error["message"])


def provenance(source_tool: str, correlation_id: str) -> dict[str, Any]:
    """The metadata of a message that brings an answer to a session."""
    return {
        "provenance": {
            "kind": "tool_response",
            "sourceTool": source_tool,
            "correlationId": correlation_id,
        }
    }
