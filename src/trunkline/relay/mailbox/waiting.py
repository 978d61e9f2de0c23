"""`Waiting` and `EndedNote`: what memory has of a letter, and of a task that ended."""

from typing import TypeAlias

from msgspec import Struct

from trunkline.ports.records import Record
from trunkline.relay.mailbox.records import Ended, Letter, Owner

# Letters of one lane are delivered one after the other.
Lane: TypeAlias = tuple[Owner, str]


class Waiting(Struct, kw_only=True, eq=False):
    """A letter, without its message."""

    number: int
    version: int
    size: int
    owner: Owner
    task_id: str
    context_id: str
    created_ms: int
    ends_ms: int
    idempotency_key: str
    message_id: str
    digest: str
    attempts: int
    # Whether the agent may have taken it already.
    is_unsure: bool
    # Whether it is on its way to the agent now.
    is_sent: bool = False

    @classmethod
    def of(cls, record: Record, letter: Letter) -> "Waiting":
        return cls(
            number=int(record.key.id),
            version=record.version,
            size=letter.size,
            owner=letter.owner,
            task_id=letter.task_id,
            context_id=letter.context_id,
            created_ms=letter.created_ms,
            ends_ms=letter.ends_ms,
            idempotency_key=letter.idempotency_key,
            message_id=letter.message_id,
            digest=letter.digest,
            attempts=letter.attempts,
            is_unsure=letter.lost > 0,
        )

    @property
    def lane(self) -> Lane:
        return self.owner, self.context_id


class EndedNote(Struct, frozen=True, kw_only=True):
    """What ended here, without its task."""

    owner: Owner
    ended_ms: int
    size: int
    is_dead: bool
    is_unsure: bool

    @classmethod
    def of(cls, end: Ended, size: int) -> "EndedNote":
        return cls(
            owner=end.owner,
            ended_ms=end.ended_ms,
            size=size,
            is_dead=bool(end.reason),
            is_unsure=end.is_unsure,
        )
