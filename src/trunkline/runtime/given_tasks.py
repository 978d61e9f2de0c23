"""`GivenTask`: a task that another gateway began, with its first journal entry as it is there."""

import msgspec
from msgspec import Struct, structs

from trunkline.model.events import Entry, TaskSubmitted, TurnOptions
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import Message, Part, Task


class GivenTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    task_id: str
    context_id: str
    created_ms: int
    # The kind and the JSON of the entry: a task in the state SUBMITTED, whose history is the
    # message of the client.
    kind: str
    entry: msgspec.Raw
    # `idempotency.digest_of` the request; empty where it is not known.
    digest: bytes = b""


class FirstEntry(Struct, frozen=True):
    """The first entry of a given task, and what it holds."""

    entry: Entry
    message: Message
    options: TurnOptions | None
    status_ms: int
    created_ms: int

    @classmethod
    def of(cls, given: GivenTask) -> "FirstEntry":
        entry = Entry(1, given.kind, bytes(given.entry))
        event = entry.event
        options = event.options if isinstance(event, TaskSubmitted) else None
        task = entry.public
        assert isinstance(task, Task)
        status_ms = parse_timestamp(task.status.timestamp)
        return cls(entry, task.history[0], options, status_ms, given.created_ms)

    def with_parts(self, parts: tuple[Part, ...]) -> Entry:
        """The entry with these parts in place of those of its message."""
        event, task = self.entry.event, self.entry.public
        assert isinstance(task, Task)
        task = structs.replace(task, history=(structs.replace(self.message, parts=parts),))
        if isinstance(event, TaskSubmitted):
            return Entry.of(1, structs.replace(event, task=task))
        return Entry.of(1, task)
