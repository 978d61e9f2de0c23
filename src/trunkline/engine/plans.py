"""`Step` and `Finished`: what a plan wants next.

A plan is what one call of a tool leads to: several calls of agents, and one result. It is a pure
function of what was asked for and of the calls that have ended. So after a restart it goes on where
it was, as long as the ends of its calls are kept.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.engine.agent_calls import AgentCall, CallLimits, invalid, milliseconds
from trunkline.engine.plain_json import TooDeep, plain, plain_text
from trunkline.model.call_outcomes import TIMED_OUT, CallOutcome

# Calls begin and end with commits, which take time as well.
_SLACK_MS: Final = 5000
# The result of a plan has the outputs of its calls a few levels deeper than they were.
_MAX_OUTPUT_DEPTH: Final = 24


class Step(Struct, frozen=True, kw_only=True):
    """A call that the plan wants made."""

    # Unique in the plan, and the same after a restart, because the id of the call comes of it.
    name: str
    call: AgentCall
    # Whether the call is made once more when a restart of the gateway interrupted its agent.
    is_repeatable: bool = False


class StepEnd(Struct, frozen=True):
    """How the call of a step ended."""

    outcome: CallOutcome
    # The task of the called agent; empty where there is none.
    task_id: str = ""

    @property
    def is_completed(self) -> bool:
        return self.outcome.answer is not None

    @property
    def status(self) -> str:
        return TIMED_OUT if self.outcome.code == TIMED_OUT else self.outcome.status

    @property
    def output(self) -> Any:
        return None if self.outcome.answer is None else self.outcome.answer.output

    @property
    def confidence(self) -> float:
        return 0.0 if self.outcome.answer is None else self.outcome.answer.confidence

    @property
    def assumptions(self) -> tuple[str, ...]:
        return () if self.outcome.answer is None else self.outcome.answer.assumptions


class Finished(Struct, frozen=True, kw_only=True):
    """The result of the plan."""

    output: dict[str, Any]
    confidence: float
    assumptions: tuple[str, ...] = ()


# The ends of the calls that have ended, by the names of their steps.
Done: TypeAlias = Mapping[str, StepEnd]
# The steps that should be under way now, also those that already are; or the result.
Next: TypeAlias = tuple[Step, ...] | Finished


def step_id(plan_id: str, name: str) -> str:
    """The id of the call of a step."""
    digest = hashlib.sha256(f"{plan_id}/{name}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def step_end(outcome: CallOutcome, task_id: str) -> StepEnd:
    answer = outcome.answer
    if answer is None:
        return StepEnd(outcome, task_id)
    try:
        output = plain(answer.output, depth=_MAX_OUTPUT_DEPTH)
    except TooDeep:
        output = msgspec.json.encode(answer.output).decode()
    return StepEnd(replace(outcome, answer=replace(answer, output=output)), task_id)


def total_timeout_of(named: Mapping[str, Any], limits: CallLimits, *, longest_ms: int) -> int:
    """The time for all calls of a plan in milliseconds. `longest_ms` is how long they can take one
    after the other. Raises CallRefused."""
    wanted = milliseconds(named, "totalTimeout")
    if wanted == 0:
        raise invalid("totalTimeout must be above 0", "totalTimeout")
    return min(wanted or longest_ms + _SLACK_MS, round(limits.max_total_timeout_s * 1000))


def whole_number(named: Mapping[str, Any], name: str, *, least: int, most: int, usual: int) -> int:
    """Raises CallRefused."""
    value = named.get(name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise invalid(f"{name} must be a whole number from {least} to {most}", name)
    return value


def short_text(named: Mapping[str, Any], name: str, *, least: int = 0, most: int) -> str:
    """A text that may be left out unless it has a minimum of characters. Raises CallRefused."""
    value = named.get(name)
    if value is None and not least:
        return ""
    if not isinstance(value, str) or not least <= len(value.strip()) or len(value) > most:
        size = f"{least} to {most}" if least else f"at most {most}"
        raise invalid(f"{name} must be a text of {size} characters", name)
    return plain_text(value)


def fraction(named: Mapping[str, Any], name: str, *, usual: float) -> float:
    """A number from 0 to 1. Raises CallRefused."""
    value = named.get(name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise invalid(f"{name} must be a number from 0 to 1", name)
    return float(value)
