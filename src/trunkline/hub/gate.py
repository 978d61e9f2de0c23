"""`HubGate`: the gate of a gateway with a hub. It asks the limits and keeps the audit."""

from typing import Protocol

from msgspec.structs import replace

from trunkline.model.calls import Refusal
from trunkline.ports.gate import Admission, Attempt, Usage
from trunkline.ports.records import Group


class Limits(Protocol):
    def admit_at_once(self, attempt: Attempt) -> Admission | Refusal | None:
        """None where the store has to be asked."""
        ...

    async def admit(self, attempt: Attempt) -> Admission | Refusal: ...

    def settle(self, attempt: Attempt, usage: Usage) -> None: ...


class Audit(Protocol):
    def admitted(self, attempt: Attempt) -> tuple[Group, ...]:
        """The row of the attempt, for the commit that accepts its message."""
        ...

    def refused(self, attempt: Attempt, refusal: Refusal) -> None: ...

    def ended(self, attempt: Attempt, usage: Usage) -> None: ...


class HubGate:
    def __init__(self, *, limits: Limits | None = None, audit: Audit | None = None) -> None:
        self._limits = limits
        self._audit = audit

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        if self._limits is None:
            return self._with_row(attempt, Admission())
        return self._with_row(attempt, await self._limits.admit(attempt))

    def admit_at_once(self, attempt: Attempt) -> Admission | Refusal | None:
        decision: Admission | Refusal | None = Admission()
        if self._limits is not None:
            decision = self._limits.admit_at_once(attempt)
        return None if decision is None else self._with_row(attempt, decision)

    def _with_row(self, attempt: Attempt, decision: Admission | Refusal) -> Admission | Refusal:
        if self._audit is None or isinstance(decision, Refusal):
            return decision
        return replace(decision, also=(*decision.also, *self._audit.admitted(attempt)))

    def record(self, attempt: Attempt, refusal: Refusal | None) -> None:
        # The row of an admitted attempt is committed with its task.
        if self._audit is not None and refusal is not None:
            self._audit.refused(attempt, refusal)

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        if self._limits is not None:
            self._limits.settle(attempt, usage)
        if self._audit is None:
            return
        if usage.refusal is not None:
            # The row of the attempt was refused with its message.
            self._audit.refused(attempt, usage.refusal)
        else:
            self._audit.ended(attempt, usage)
