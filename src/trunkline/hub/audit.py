"""`AuditTrail`: turns what happens at the gateway into rows of the audit."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from trunkline.api.acting import acting
from trunkline.hub.audit_rows import INTERRUPTED, OK, Row
from trunkline.hub.audit_writer import AuditWriter
from trunkline.hub.redaction import Redaction
from trunkline.model.calls import Refusal
from trunkline.model.principal import Principal
from trunkline.model.values import Message, TaskState
from trunkline.ports.clock import Clock
from trunkline.ports.gate import Attempt, Usage
from trunkline.ports.records import Change, Group, Put
from trunkline.runtime.record_changes import Touched

# What to commit with a task of the agent to make a change of the main store, in its partition.
IntoMain: TypeAlias = Callable[[str, str, Put], tuple[Change, ...]]

_OUTCOMES = {
    TaskState.COMPLETED: OK,
    # The turn has done what it could, and asks.
    TaskState.INPUT_REQUIRED: OK,
    TaskState.AUTH_REQUIRED: OK,
    TaskState.FAILED: "failed",
    TaskState.CANCELED: "canceled",
    TaskState.REJECTED: "rejected",
    TaskState.SUBMITTED: INTERRUPTED,
    TaskState.WORKING: INTERRUPTED,
}


def _directly(agent: str, scope: str, put: Put) -> tuple[Change, ...]:
    """For agents whose tasks are in the main store."""
    return (put,)


class AuditTrail:
    """The gate gives it the attempts; other parts note what they change."""

    def __init__(
        self,
        writer: AuditWriter,
        clock: Clock,
        *,
        into_main: IntoMain = _directly,
        redaction: Redaction | None = None,
    ) -> None:
        """With a `redaction`, rows of attempts have the question."""
        self.writer = writer
        self._clock = clock
        self._into_main = into_main
        self._redaction = redaction

    def admitted(self, attempt: Attempt) -> tuple[Group, ...]:
        """The row of the attempt, for the commit that accepts its message."""
        put = self.writer.put(self._attempt(attempt))
        return (Group(self._into_main(attempt.agent, put.key.scope, put)),)

    def refused(self, attempt: Attempt, refusal: Refusal) -> None:
        principal = attempt.principal
        self.writer.refuse(
            Row(
                kind="refusal",
                at_ms=attempt.at_ms,
                id=attempt.id,
                who=principal.id,
                token=principal.token,
                chain=principal.chain,
                asked_by=attempt.asked_by,
                tenant=attempt.tenant,
                agent=attempt.agent,
                operation=attempt.operation,
                binding=attempt.binding,
                task_id=attempt.task_id,
                context_id=attempt.context_id,
                is_follow_up=attempt.is_follow_up,
                reason=refusal.reason,
                bytes_in=_size(attempt.message),
                question=self._question(attempt.message),
            )
        )

    def ended(self, attempt: Attempt, usage: Usage) -> None:
        now_ms = self._clock.now_ms()
        self.writer.end(
            Row(
                kind="outcome",
                at_ms=now_ms,
                id=attempt.id,
                who=attempt.principal.id,
                agent=attempt.agent,
                task_id=attempt.task_id,
                outcome=_OUTCOMES.get(usage.state, "failed"),
                ran_ms=usage.ran_ms,
                took_ms=None if usage.ran_ms is None else max(0, now_ms - attempt.at_ms),
            ),
            admitted_ms=attempt.at_ms,
        )

    def turned_away(
        self,
        *,
        source: str,
        who: str = "",
        agent: str = "",
        operation: str = "",
        reason: str,
        asked_by: str = "",
    ) -> None:
        """A request was refused before it became an attempt: its credential is not known, or does
        not allow the operation, or the call of an agent is none that it may make. `source` is the
        address of the client, as far as it is known."""
        self.writer.refuse(
            Row(
                kind="refusal",
                at_ms=self._clock.now_ms(),
                who=who,
                source=source,
                agent=agent,
                operation=operation,
                reason=reason,
                asked_by=asked_by,
            )
        )

    def note(self, actor: Principal | str, action: str, subject: str, detail: str = "") -> None:
        """Record what was done without a change of a record, such as a sign-in. The row is
        lost if the process dies within the next moments."""
        self.writer.add(self._change(actor, action, subject, detail))

    def noted(
        self, actor: Principal | str, action: str, subject: str, detail: str = ""
    ) -> tuple[Change, ...]:
        """The row of an administrative change, to commit together with it in the main store."""
        return (self.writer.put(self._change(actor, action, subject, detail)),)

    def noted_changes(self, touched: Sequence[Touched]) -> Sequence[Change]:
        """The rows of a change of the hub's records, by whoever makes it in this task."""
        who = acting.get()
        return [
            self.writer.put(
                Row(
                    kind="change",
                    at_ms=self._clock.now_ms(),
                    who=who.who,
                    token=who.token,
                    action=who.action,
                    subject=f"{each.kind} {each.id}",
                )
            )
            for each in touched
        ]

    def _change(self, actor: Principal | str, action: str, subject: str, detail: str) -> Row:
        who, token = (actor, "") if isinstance(actor, str) else (actor.id, actor.token)
        return Row(
            kind="change",
            at_ms=self._clock.now_ms(),
            who=who,
            token=token,
            action=action,
            subject=subject,
            detail=detail,
        )

    def _attempt(self, attempt: Attempt) -> Row:
        principal = attempt.principal
        return Row(
            kind="attempt",
            at_ms=attempt.at_ms,
            id=attempt.id,
            who=principal.id,
            token=principal.token,
            chain=principal.chain,
            asked_by=attempt.asked_by,
            tenant=attempt.tenant,
            agent=attempt.agent,
            operation=attempt.operation,
            binding=attempt.binding,
            task_id=attempt.task_id,
            context_id=attempt.context_id,
            is_follow_up=attempt.is_follow_up,
            bytes_in=_size(attempt.message),
            question="" if self._redaction is None else self._question(attempt.message),
        )

    def _question(self, message: Message) -> str:
        return "" if self._redaction is None else self._redaction.question(message.parts)


def _size(message: Message) -> int:
    """The bytes of texts and files of a message; data counts nothing."""
    size = 0
    for part in message.parts:
        if part.text is not None:
            # `isascii` is a flag, and most texts are.
            size += len(part.text) if part.text.isascii() else len(part.text.encode())
        elif part.raw is not None:
            size += len(part.raw)
    return size
