"""`Forwarding`: hands a request to the node that owns its lane, and waits for the outcome.

The node that received the request puts it into the *inbox* of the lane: a record that outlives both
nodes. The owner carries the request out as if it had received it (`Inbox`), and stores the
*outcome* as a record that the other node reads. A message has a key, so carrying it out again after
a crash or a takeover does nothing.
"""

import asyncio
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model import errors
from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import (
    Case,
    FieldViolation,
    StoreError,
    TrunklineError,
    Unavailable,
)
from trunkline.model.session import ReplyPayload
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.cluster import Posted
from trunkline.ports.records import Key, Put, Record
from trunkline.ports.store import Scope, Store
from trunkline.runtime.admitted import shutting_down
from trunkline.runtime.agents import Lane
from trunkline.runtime.given_tasks import GivenTask
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.ownership import Ownership, name_of

INBOX = "inbox.1"
OUTCOME = "outcome.1"


class Sent(Struct, frozen=True, tag="send"):
    """A message. The node that received it has chosen the id of the task that it may make."""

    request_id: str
    agent: str
    caller: Caller
    request: SendMessageRequest
    task_id: str
    needs_task: bool


class Adopting(Struct, frozen=True, tag="adopt"):
    """A task that another gateway began, with its message."""

    request_id: str
    agent: str
    caller: Caller
    given: GivenTask


class Canceled(Struct, frozen=True, tag="cancel"):
    request_id: str
    agent: str
    caller: Caller
    task_id: str


class TimedOut(Struct, frozen=True, tag="time-out"):
    """A blocking send has waited as long as the profile says, so its task has to fail."""

    request_id: str
    agent: str
    scope: Scope
    task_id: str
    reason: str


class Replied(Struct, frozen=True, tag="reply"):
    """A later reply of the agent, to be recorded as an artifact of its task."""

    request_id: str
    agent: str
    scope: Scope
    task_id: str
    message_id: str
    payload: ReplyPayload
    to: str


Operation: TypeAlias = Sent | Adopting | Canceled | TimedOut | Replied


class ErrorRecord(Struct, frozen=True, omit_defaults=True):
    """An error of the gateway in a record."""

    kind: str
    message: str
    metadata: dict[str, str] = {}
    case: str = ""
    retry_after_s: int | None = None
    violations: tuple[FieldViolation, ...] = ()

    @classmethod
    def of(cls, error: TrunklineError) -> "ErrorRecord":
        return cls(
            type(error).__name__,
            error.message,
            error.metadata,
            "" if error.case is None else error.case.name,
            getattr(error, "retry_after_s", None),
            getattr(error, "violations", ()),
        )

    def error(self) -> TrunklineError:
        kind: type[TrunklineError] = getattr(errors, self.kind)
        # Not by the constructor, which is different for each kind.
        error = kind.__new__(kind, self.message)
        case = Case[self.case] if self.case else None
        TrunklineError.__init__(error, self.message, metadata=self.metadata, case=case)
        fields: dict[str, Any] = {"violations": self.violations}
        if self.retry_after_s is not None:
            fields["retry_after_s"] = self.retry_after_s
        vars(error).update(fields)
        return error


class Outcome(Struct, frozen=True, omit_defaults=True):
    """Exactly one of task_id, reply and error is set."""

    task_id: str = ""
    # The last entry of the journal before the turn of the message; 0 for all of a new task.
    seq: int = 0
    is_queued: bool = False
    # The message as JSON.
    reply: str = ""
    error: ErrorRecord | None = None


encode = msgspec.json.Encoder().encode
decode_operation = msgspec.json.Decoder(Operation).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode


def outcome_key(request_id: str) -> Key:
    return Key(OUTCOME, request_id, "")


class Forwarding(Struct, kw_only=True, eq=False):
    store: Store
    clock: Clock
    ids: Ids
    ownership: Ownership
    # Requests whose outcome this node waits for.
    _waiting: dict[str, asyncio.Event] = {}
    _is_closed: bool = False

    def close(self) -> None:
        """Refuse the requests that wait: this node hears of no outcome any more."""
        self._is_closed = True
        self.sweep()

    def hear(self, request_id: str) -> None:
        """Another node has stored the outcome of the request."""
        if (event := self._waiting.get(request_id)) is not None:
            event.set()

    def sweep(self) -> None:
        """Look for every outcome, because a notice may have been lost, or an owner."""
        for event in self._waiting.values():
            event.set()

    async def ask(self, lane: Lane, operation: Operation) -> Outcome:
        """Have the owner of the lane carry out the operation. Raises its error."""
        name, request_id = name_of(lane), operation.request_id
        # The owner works off its inbox in the order of the ids.
        key = Key(INBOX, name, f"{self.clock.now_ms():014d} {request_id}")
        event = self._waiting[request_id] = asyncio.Event()
        try:
            await self.store.change(Put(key=key, body=encode(operation), expected=0))
            self.ownership.cluster.tell(Posted(name))
            while (record := await self._look(request_id, lane)) is None:
                if self._is_closed:
                    raise shutting_down()
                await event.wait()
                event.clear()
        finally:
            del self._waiting[request_id]
        outcome = _decode_outcome(record.body)
        if outcome.error is not None:
            raise outcome.error.error()
        return outcome

    async def _look(self, request_id: str, lane: Lane) -> Record | None:
        """The outcome of a request that is posted, if there is one. A store that cannot be read is
        asked again later, because the request may be carried out at any time."""
        try:
            record = await self.store.record(outcome_key(request_id))
            if record is None:
                # The owner may have left the lane, or died. Whoever takes it works off its inbox.
                await self.ownership.own(lane)
        except (StoreError, Unavailable):
            return None
        return record

    async def cancel(self, agent: str, caller: Caller, live: LiveTask) -> bool:
        """Have the owner cancel the task. False when this node owns its lane, or does now."""
        lane = self.ownership.lane_of(live)
        if live.lease is not None or await self.ownership.own(lane) is not None:
            return False
        await self.ask(lane, Canceled(self.ids.new(), agent, caller, live.task_id))
        await self.ownership.followers.catch_up(live)
        return True

    async def time_out(self, live: LiveTask, reason: str) -> None:
        """Have the owner fail the task, because its caller has waited long enough."""
        timed_out = TimedOut(self.ids.new(), live.scope.agent, live.scope, live.task_id, reason)
        await self.ask(self.ownership.lane_of(live), timed_out)
        await self.ownership.followers.catch_up(live)

    async def deliver(
        self, scope: Scope, task_id: str, message_id: str, payload: ReplyPayload, to: str
    ) -> bool:
        """Have the owner record a later reply. False when this node owns the lane, or does now."""
        live = await self.ownership.registry.follow(scope, task_id)
        lane = self.ownership.lane_of(live)
        self.ownership.registry.forget_if_idle(live)
        if live.lease is not None or await self.ownership.own(lane) is not None:
            return False
        replied = Replied(self.ids.new(), scope.agent, scope, task_id, message_id, payload, to)
        await self.ask(lane, replied)
        return True
