"""`Letter`, `Head` and `Ended`: the records of the mailbox of an agent, in the main store.

A *letter* is a message that waits for its agent. The *head* of a mailbox counts its letters, and
gives each one a number; every letter that comes or goes raises the version of the head in the same
commit. What *ended* at the relay is a task that its agent never got: canceled, or a dead letter.
"""

from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from trunkline.model.events import Entry
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.records import Key
from trunkline.protocol.relay.callers import Caller

HEAD: Final = "mailbox-head.1"
LETTER: Final = "mailbox.1"
ENDED: Final = "mailbox-ended.1"
# The tag of heads of mailboxes that hold something, and of dead letters.
HOLDS: Final = "holds"
DEAD: Final = "dead"
# What a letter costs of the bytes of a mailbox beside its message.
_OVERHEAD_BYTES: Final = 1024


class Owner(Struct, frozen=True, cache_hash=True, gc=False):
    """Who sent a message: no one else sees its task."""

    # At the relay.
    principal: str
    # The tenant of A2A that the request named.
    tenant: str


class Head(Struct, frozen=True, kw_only=True, omit_defaults=True):
    # The number of the next letter.
    next: int = 1
    count: int = 0
    bytes: int = 0
    # When the oldest letter came; 0 without one.
    oldest_ms: int = 0
    # How many tasks ended here, and how many of them are dead letters.
    ended: int = 0
    dead: int = 0

    @property
    def holds(self) -> bool:
        return self.count > 0 or self.ended > 0


class Letter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    task_id: str
    context_id: str
    created_ms: int
    # When the letter is dead if it was not delivered.
    ends_ms: int
    # The first journal entry of the task.
    kind: str
    entry: Raw
    # The caller, as it is signed for the host.
    principal: str
    operations: tuple[str, ...] | None = None
    chain: tuple[str, ...] = ()
    tenant: str = ""
    idempotency_key: str = ""
    message_id: str = ""
    # Of the request; tells a repeat from another request with the same key.
    digest: str = ""
    operation: Literal["SendMessage", "SendStreamingMessage"] = "SendMessage"
    binding: str = ""
    # How often it was sent to the host.
    attempts: int = 0
    # How often in a row it was unknown what became of that.
    lost: int = 0

    @property
    def owner(self) -> Owner:
        return Owner(self.principal, self.tenant)

    @property
    def caller(self) -> Caller:
        return Caller(id=self.principal, operations=self.operations, chain=self.chain)

    @property
    def first_entry(self) -> Entry:
        return Entry(1, self.kind, bytes(self.entry))

    @property
    def task(self) -> Task:
        task = self.first_entry.public
        assert isinstance(task, Task)
        return task

    @property
    def size(self) -> int:
        """What it costs of the bytes of its mailbox."""
        return len(bytes(self.entry)) + _OVERHEAD_BYTES


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    # The task in its last state, as JSON.
    task: Raw
    principal: str
    tenant: str = ""
    ended_ms: int
    # Why a dead letter is dead, for operators; empty for a canceled task.
    reason: str = ""
    # Whether the agent may have the task nevertheless.
    is_unsure: bool = False
    # The dead letter.
    letter: Letter | None = None

    @property
    def owner(self) -> Owner:
        return Owner(self.principal, self.tenant)

    @property
    def last_entry(self) -> Entry:
        """The entry that ended the task, behind its first one."""
        task = decode_task(self.task)
        return Entry.of(
            2,
            TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status),
        )


def ended(
    letter: Letter, state: TaskState, text: str, *, now_ms: int, reason: str = "", is_unsure: bool
) -> Ended:
    """What becomes of a letter that is not delivered. `text` tells the client why."""
    said = Message(
        message_id=f"{letter.task_id}.undelivered",
        context_id=letter.context_id,
        task_id=letter.task_id,
        role=Role.AGENT,
        parts=(Part(text=text),),
    )
    status = TaskStatus(state=state, message=said, timestamp=format_timestamp(now_ms))
    task = msgspec.structs.replace(letter.task, status=status)
    return Ended(
        task=Raw(encode(task)),
        principal=letter.principal,
        tenant=letter.tenant,
        ended_ms=now_ms,
        reason=reason,
        is_unsure=is_unsure,
        letter=letter if reason else None,
    )


def head_key(agent: str) -> Key:
    return Key(HEAD, "", agent)


def letter_key(agent: str, number: int) -> Key:
    return Key(LETTER, agent, f"{number:016d}")


def ended_key(agent: str, task_id: str) -> Key:
    return Key(ENDED, agent, task_id)


encode: Final = msgspec.json.Encoder().encode
decode_head: Final = msgspec.json.Decoder(Head).decode
decode_letter: Final = msgspec.json.Decoder(Letter).decode
decode_ended: Final = msgspec.json.Decoder(Ended).decode
decode_task: Final = msgspec.json.Decoder(Task).decode
