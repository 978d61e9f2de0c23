"""`CallRecord`: what the main store knows of a call from one agent to another.

A call has up to three records:

- the *call* itself (`call.1`, main store): pending from the commit that creates the task of the
  called agent, and due at its timeout. Every end of it is one change that expects the version of a
  pending call, so the first end wins. A call that has ended is due again when it may be forgotten;
- the *watch* (`routed.1`, in the store of the called agent): goes with the task, brings the
  participant back that ends the call, and says who has asked for as long as the task is kept. A
  call that expects no answer has this record alone;
- an *end on its way* (`call-end.1`, main store), where one commit cannot do it all: the task is in
  another store than the main one, or the answer is too large to read while a commit is made.
"""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.engine.agent_calls import Delivery, OnCrash
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.principal import Principal
from trunkline.model.routed_calls import TaskRecord
from trunkline.ports.caller_records import array_text
from trunkline.ports.records import Key, Put
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope

CALL: Final = "call.1"
WATCH: Final = "routed.1"
END: Final = "call-end.1"

# The tag of calls that have not ended.
PENDING_TAG: Final = "pending"

CallState: TypeAlias = Literal[
    "pending", "completed", "error", "input_required", "timeout", "discarded"
]


class RoutedCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call, as it was made. Nothing of it ever changes."""

    # The correlation id.
    id: str
    # The session that asked, and its key; the answer goes there.
    session: SessionRef
    session_key: str
    # The agent that was asked.
    callee: str
    skill: str = ""
    mode: str = "execute"
    source_tool: str
    begun_ms: int
    timeout_ms: int
    # How long the outcome is kept after the end.
    kept_ms: int
    # The call that the turn of the caller answers, if it answers one, and the first of the chain.
    parent: str = ""
    root: str
    depth: int
    # The marks of the agents that led to the turn of the caller.
    chain: tuple[str, ...] = ()
    # How many turns in a row began with an answer before this call.
    turns: int = 0
    # On whose behalf.
    principal: Principal
    delivery: Delivery = "session"
    starts_turn: bool = False
    # Whether the caller gets the answer as the result of its tool, and not in its session.
    waits: bool = False
    # The task of the turn that asked, for a copy of the answer to its channel.
    caller_task_id: str = ""
    on_crash: OnCrash = "error"


class CallRecord(Struct, frozen=True, omit_defaults=True):
    """The body of the record of a call."""

    call: RoutedCall
    task_id: str
    state: CallState = "pending"
    # Whether the called agent has another store, from which the call came here later.
    is_from_elsewhere: bool = False
    # What was delivered, as JSON.
    payload: Raw = Raw()
    ended_ms: int = 0


class CallEnd(Struct, frozen=True, omit_defaults=True):
    """The body of an end on its way. Without an outcome it is still to be read from the task."""

    call: RoutedCall
    task_id: str
    # When the called agent was done.
    settled_ms: int
    outcome: CallOutcome | None = None


_encode = msgspec.json.Encoder().encode
_decode_call = msgspec.json.Decoder(RoutedCall).decode
decode_record = msgspec.json.Decoder(CallRecord).decode
decode_end = msgspec.json.Decoder(CallEnd).decode


def call_key(id: str) -> Key:
    # A scope for each call, so that none waits for another.
    return Key(CALL, id, "")


def end_key(id: str) -> Key:
    return Key(END, id, "")


def task_tag(task_id: str) -> str:
    return array_text("task", task_id)


def caller_tag(task_id: str) -> str:
    """The tag of all calls that turns of the task have made."""
    return array_text("caller", task_id)


def agent_tag(handle: str) -> str:
    """The tag of all calls that the agent has made."""
    return array_text("agent", handle)


def owner_tag(scope: Scope) -> str:
    """The tag of all calls in sessions of a caller, whichever agent made them."""
    return array_text("owner", scope.tenant, scope.principal)


def read_call_body(body: bytes) -> RoutedCall:
    return _decode_call(body)


def watch_of(call: RoutedCall) -> TaskRecord:
    return TaskRecord(WATCH, call.id, _encode(call))


def put_pending(call: RoutedCall, task_id: str, *, is_from_elsewhere: bool) -> Put:
    record = CallRecord(call, task_id, is_from_elsewhere=is_from_elsewhere)
    return Put(
        key=call_key(call.id),
        body=_encode(record),
        due_in_ms=call.timeout_ms,
        tags=(*_tags(call, task_id), PENDING_TAG),
        expected=0,
    )


def put_ended(
    call: RoutedCall,
    task_id: str,
    state: CallState,
    payload: bytes,
    *,
    at_ms: int,
    expected: int,
) -> Put:
    """`expected` is the version of the pending call; 0 if the call ends with its first commit."""
    return Put(
        key=call_key(call.id),
        body=_encode(CallRecord(call, task_id, state, payload=Raw(payload), ended_ms=at_ms)),
        due_in_ms=call.kept_ms,
        tags=_tags(call, task_id),
        expected=expected,
    )


def put_end(end: CallEnd) -> Put:
    return Put(key=end_key(end.call.id), body=_encode(end), due_in_ms=0, expected=0)


def _tags(call: RoutedCall, task_id: str) -> tuple[str, ...]:
    scope = call.session.scope
    tags = (call.session.tag, task_tag(task_id), agent_tag(scope.agent), owner_tag(scope))
    return (*tags, caller_tag(call.caller_task_id)) if call.caller_task_id else tags
