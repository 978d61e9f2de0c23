"""`Batch`: a plan of calls that do not depend on each other."""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from trunkline.engine.agent_calls import (
    OF_GATEWAY,
    AgentCall,
    CallLimits,
    CallRefused,
    check_return_to,
    flag,
    invalid,
    named_arguments,
    read_call,
)
from trunkline.engine.plans import (
    Done,
    Finished,
    Next,
    Step,
    StepEnd,
    total_timeout_of,
    whole_number,
)
from trunkline.model.call_outcomes import TIMED_OUT, CallOutcome

# The result of a batch is one commit, and each answer in it may have 256 KB.
MAX_CALLS: Final = 100
MAX_CONCURRENCY: Final = 50
_CONCURRENCY: Final = 5
_ARGUMENTS: Final = frozenset(
    ("calls", "concurrency", "totalTimeout", "totalTimeoutSeconds", "wait")
)
_CUT_OFF: Final = StepEnd(
    CallOutcome("error", code=TIMED_OUT, text="The total timeout of the batch was over first")
)


class Batch(Struct, frozen=True, kw_only=True, tag="batch"):
    calls: tuple[AgentCall, ...]
    concurrency: int = _CONCURRENCY
    total_ms: int
    # Whether the caller waits for the result.
    waits: bool = True


def read_batch(arguments: Any, limits: CallLimits, *, session_key: str) -> Batch:
    """Raises CallRefused for arguments that are no batch. Calls that are refused for other reasons
    are errors in its result."""
    named = named_arguments(arguments, _ARGUMENTS, unlisted=OF_GATEWAY)
    check_return_to(named, session_key)
    given = named.get("calls")
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MAX_CALLS:
        raise invalid(f"calls must be a list of 1 to {MAX_CALLS} calls", "calls")
    calls = [_call(number, each, limits, session_key) for number, each in enumerate(given)]
    concurrency = whole_number(
        named, "concurrency", least=1, most=MAX_CONCURRENCY, usual=_CONCURRENCY
    )
    rounds = -(-len(calls) // concurrency)
    longest_ms = rounds * max(call.timeout_ms for call in calls)
    return Batch(
        calls=tuple(calls),
        concurrency=concurrency,
        total_ms=total_timeout_of(named, limits, longest_ms=longest_ms),
        waits=flag(named, "wait", otherwise=True),
    )


def _call(number: int, given: Any, limits: CallLimits, session_key: str) -> AgentCall:
    try:
        call = read_call(given, limits, session_key=session_key)
        if not call.timeout_ms:
            raise invalid(
                "timeout must be above 0, because the batch waits for the answer", "timeout"
            )
    except CallRefused as refused:
        raise refused.within(f"calls[{number}]") from None
    return replace(call, waits=True)


def next_of(batch: Batch, done: Done) -> Next:
    waiting = [
        Step(name=_name(number), call=call)
        for number, call in enumerate(batch.calls)
        if _name(number) not in done
    ]
    if waiting:
        return tuple(waiting[: batch.concurrency])
    return cut_short(batch, done)


def cut_short(batch: Batch, done: Done) -> Finished:
    """The result of a batch, without the calls that have not ended."""
    ends = [done.get(_name(number), _CUT_OFF) for number in range(len(batch.calls))]
    sure = [end.confidence for end in ends if end.is_completed]
    confidence = round(sum(sure) / len(sure), 4) if sure else 0.0
    return Finished(
        output={
            "results": [_result(number, end) for number, end in enumerate(ends)],
            "aggregateConfidence": confidence,
            "completedCount": len(sure),
            "errorCount": len(ends) - len(sure),
            "totalCount": len(ends),
        },
        confidence=confidence,
    )


def _result(number: int, end: StepEnd) -> dict[str, Any]:
    result: dict[str, Any] = {"index": number, "status": end.status}
    if end.task_id:
        result["taskId"] = end.task_id
    if end.is_completed:
        return result | {"output": end.output, "confidence": end.confidence}
    if end.status == "input_required":
        result["question"] = end.outcome.text
    code = end.outcome.code or end.status
    return result | {"error": {"code": code, "message": end.outcome.text}}


def _name(number: int) -> str:
    return f"call {number}"
