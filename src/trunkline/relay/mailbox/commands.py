"""`MailCommands`: what operators do with the mailboxes of the relay and their dead letters."""

from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from trunkline.model.errors import RouteNotFound
from trunkline.model.events import Entry, Event, TaskSubmitted
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Task, TaskState, TaskStatus
from trunkline.ports.clock import Clock, Ids
from trunkline.relay.mailbox.mailbox import Mailbox
from trunkline.relay.mailbox.mailboxes import Mailboxes
from trunkline.relay.mailbox.records import Ended, Letter, decode_task
from trunkline.relay.policies import AgentPolicies


class NameAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # As in `acme/helper`.
    agent: str


class NameLetter(NameAgent, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: str


class MailboxView(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: str
    waiting: int
    bytes: int
    # None where nothing waits.
    oldest_at: str | None
    dead: int


class DeadLetterView(Struct, frozen=True, kw_only=True, rename="camel"):
    task: str
    context: str
    # The principal that has sent it.
    sender: str
    sent_at: str
    dead_at: str
    reason: str
    # How often it was sent to the gateway of the agent.
    attempts: int


class MailCommands(Struct, frozen=True, kw_only=True, eq=False):
    mailboxes: Mailboxes
    policies: AgentPolicies
    clock: Clock
    ids: Ids

    async def list(self) -> dict[str, list[MailboxView]]:
        return {
            "items": [
                MailboxView(
                    agent=agent,
                    waiting=head.count,
                    bytes=head.bytes,
                    oldest_at=format_timestamp(head.oldest_ms) if head.count else None,
                    dead=head.dead,
                )
                async for agent, head in self.mailboxes.stored_heads()
                if head.count or head.dead
            ]
        }

    async def dead(self, given: NameAgent) -> dict[str, Any]:
        """The dead letters of an agent, the oldest first."""
        mailbox = await self.mailboxes.of(given.agent)
        found = []
        for id, note in sorted(mailbox.ended.items(), key=lambda each: each[1].ended_ms):
            end = await mailbox.end(id) if note.is_dead else None
            if end is not None and end.letter is not None:
                found.append(_view(end, end.letter))
        return {"items": found}

    async def retry(self, given: NameLetter) -> dict[str, str]:
        """Put the message into the mailbox again, with a new task: the one before has failed, and
        its sender may have seen that. Raises RouteNotFound and TooManyRequests."""
        mailbox, end, letter = await self._found(given)
        again = self._again(given.agent, letter)
        if not await mailbox.retry(given.task, again):
            raise _unknown(given)
        return {"task": again.task_id, "insteadOf": decode_task(end.task).id}

    async def discard(self, given: NameLetter) -> DeadLetterView:
        """Raises RouteNotFound."""
        mailbox, end, letter = await self._found(given)
        if not await mailbox.discard(given.task):
            raise _unknown(given)
        return _view(end, letter)

    async def _found(self, given: NameLetter) -> tuple[Mailbox, Ended, Letter]:
        mailbox = await self.mailboxes.of(given.agent)
        end = await mailbox.end(given.task)
        if end is None or end.letter is None:
            raise _unknown(given)
        return mailbox, end, end.letter

    def _again(self, agent: str, letter: Letter) -> Letter:
        now_ms, task_id = self.clock.now_ms(), self.ids.new()
        before = letter.first_entry.event
        task = letter.task
        (message,) = task.history
        task = Task(
            id=task_id,
            context_id=task.context_id,
            status=TaskStatus(state=TaskState.SUBMITTED, timestamp=format_timestamp(now_ms)),
            history=(replace(message, task_id=task_id),),
        )
        event: Event = task
        if isinstance(before, TaskSubmitted):
            event = TaskSubmitted(task=task, options=before.options)
        entry = Entry.of(1, event)
        ttl_ms = round(self.policies.of(agent).mailbox_ttl_s * 1000)
        return replace(
            letter,
            task_id=task_id,
            created_ms=now_ms,
            ends_ms=now_ms + ttl_ms,
            kind=entry.kind,
            entry=Raw(entry.body),
            attempts=0,
            lost=0,
        )


def _view(end: Ended, letter: Letter) -> DeadLetterView:
    return DeadLetterView(
        task=letter.task_id,
        context=letter.context_id,
        sender=letter.principal,
        sent_at=format_timestamp(letter.created_ms),
        dead_at=format_timestamp(end.ended_ms),
        reason=end.reason,
        attempts=letter.attempts,
    )


def _unknown(given: NameLetter) -> RouteNotFound:
    return RouteNotFound(
        f"The mailbox of {given.agent} has no dead letter of the task {given.task[:100]}"
    )
