"""`Entry`: an entry in the journal of a task.

Every entry has one public form, an A2A stream event, and a sequence number that
starts at 1 and has no holes. The `kind` is written beside the data and never
changes its meaning: a new shape of an entry is a new kind, so that a journal
outlives the code that wrote it.
"""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.routed_calls import CallOrigin
from trunkline.model.values import (
    Canonical,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)


class TurnOptions(Canonical, frozen=True, kw_only=True):
    """The options of a request beside its message. The journal keeps them, so that a restart does
    not change how a queued turn runs."""

    accepted_output_modes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    # The marks of the agents through which the call came.
    call_chain: tuple[str, ...] = ()
    # For a message of another agent of the gateway.
    call: CallOrigin | None = None


class TaskSubmitted(Canonical, frozen=True, kw_only=True):
    """A new task whose request had options; without any, the journal holds the bare Task."""

    task: Task
    options: TurnOptions


class MessageAccepted(Canonical, frozen=True, kw_only=True):
    """A further message for a task that exists; the public form is its status update."""

    message: Message
    status_update: TaskStatusUpdateEvent
    options: TurnOptions | None = None


class StatusShown(Canonical, frozen=True, kw_only=True):
    """A status whose message history does not keep, such as a piece of a longer text."""

    status_update: TaskStatusUpdateEvent


class TurnRetried(Canonical, frozen=True, kw_only=True):
    """The gateway discards the running turn and queues its message again. The output of that turn
    does not count."""

    status_update: TaskStatusUpdateEvent


Event: TypeAlias = (
    Task
    | TaskSubmitted
    | TaskStatusUpdateEvent
    | TaskArtifactUpdateEvent
    | MessageAccepted
    | StatusShown
    | TurnRetried
)
PublicEvent: TypeAlias = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent

TASK: Final = "task.1"
SUBMITTED: Final = "submitted.1"
STATUS: Final = "status.1"
ARTIFACT: Final = "artifact.1"
MESSAGE: Final = "message.1"
SHOWN: Final = "shown.1"
RETRIED: Final = "retried.1"
# Entries of these kinds record more than their public form.
_WRAPPED: Final = frozenset({SUBMITTED, MESSAGE, SHOWN, RETRIED})

_KINDS: dict[type, str] = {
    Task: TASK,
    TaskSubmitted: SUBMITTED,
    TaskStatusUpdateEvent: STATUS,
    TaskArtifactUpdateEvent: ARTIFACT,
    MessageAccepted: MESSAGE,
    StatusShown: SHOWN,
    TurnRetried: RETRIED,
}
_DECODERS: dict[str, msgspec.json.Decoder[Event]] = {
    kind: msgspec.json.Decoder(of_type) for of_type, kind in _KINDS.items()
}
_encode = msgspec.json.Encoder().encode


class Entry(Struct, gc=False, eq=False):
    """One journal entry: the event, and its JSON that was written exactly once."""

    seq: int
    kind: str
    body: bytes
    # None until a reader of a stored entry asks for the event.
    decoded: Event | None = None
    # The wall-clock time of its commit. None for an entry that is not read from a store, and for
    # one that was committed before stores kept the time.
    committed_ms: int | None = None
    _public: bytes | None = None
    # Encodings of the event for other versions. The first stream that needs one keeps it here, so
    # that a thousand readers cost one conversion.
    _wire: dict[str, bytes] | None = None

    @classmethod
    def of(cls, seq: int, event: Event) -> "Entry":
        return cls(seq, _KINDS[type(event)], _encode(event), event)

    @property
    def event(self) -> Event:
        if self.decoded is None:
            self.decoded = _DECODERS[self.kind].decode(self.body)
        return self.decoded

    @property
    def wire(self) -> dict[str, bytes]:
        if self._wire is None:
            self._wire = {}
        return self._wire

    @property
    def public(self) -> PublicEvent:
        event = self.event
        if isinstance(event, MessageAccepted | StatusShown | TurnRetried):
            return event.status_update
        return event.task if isinstance(event, TaskSubmitted) else event

    @property
    def public_body(self) -> bytes:
        """The JSON of the public form, without the name of its kind around it."""
        if self.kind not in _WRAPPED:
            return self.body
        if self._public is None:
            self._public = _encode(self.public)
        return self._public

    def __repr__(self) -> str:
        return f"Entry({self.seq}, {self.kind!r}, {self.body!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return (self.seq, self.kind, self.body) == (other.seq, other.kind, other.body)

    def __hash__(self) -> int:
        return hash((self.seq, self.kind, self.body))
