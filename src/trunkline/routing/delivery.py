"""`ends`: all changes of the main store with which a call ends, so that they are one commit.

Which of them there are is said by the mode of the call: an *entry* of the caller's session, the
record of a *turn* to begin there, and that of a *copy* for its channel.
"""

import msgspec
from msgspec import Struct

from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.values import Message, Part, Role
from trunkline.ports.caller_records import answer_id
from trunkline.ports.records import Key, Put
from trunkline.ports.session_entries import put_entry
from trunkline.protocol import skill_calls
from trunkline.routing.call_records import CallState, RoutedCall, put_ended

# A turn to begin with an answer, and a copy of an answer for the channel.
SESSION_TURN = "session-turn.1"
CHANNEL_COPY = "channel-copy.1"

# Longer answers are cut off; the task of the called agent has the whole of them.
MAX_OUTPUT_CHARS = 256 * 1024

_encode = msgspec.json.Encoder().encode


class Delivered(Struct, frozen=True):
    """What a call ends with."""

    state: CallState
    payload: bytes
    changes: tuple[Put, ...]


def ends_with_outcome(
    call: RoutedCall, task_id: str, outcome: CallOutcome, *, at_ms: int, number: int, expected: int
) -> Delivered:
    payload = _encode(skill_calls.response(call.id, task_id, outcome))
    if len(payload) > MAX_OUTPUT_CHARS:
        payload = _encode(skill_calls.response(call.id, task_id, _cut(outcome, payload, task_id)))
    return _ends(call, task_id, outcome.status, payload, at_ms, number, expected)


def ends_with_timeout(
    call: RoutedCall, task_id: str, *, at_ms: int, number: int, expected: int
) -> Delivered:
    payload = _encode(skill_calls.timeout(call.id, task_id, call.timeout_ms))
    return _ends(call, task_id, "timeout", payload, at_ms, number, expected)


def discards(call: RoutedCall, task_id: str, *, at_ms: int, expected: int) -> Put:
    """The session of the caller is gone."""
    return put_ended(call, task_id, "discarded", b"null", at_ms=at_ms, expected=expected)


def response_id(call_id: str) -> str:
    """The id of the message that brings the answer."""
    return f"resp-{call_id}"


def response_message(call: RoutedCall, payload: bytes) -> Message:
    return Message(
        message_id=response_id(call.id),
        context_id=call.session.context_id,
        role=Role.USER,
        parts=(Part(text=payload.decode(), media_type="application/json"),),
        metadata=skill_calls.provenance(call.source_tool, call.id),
    )


def _ends(
    call: RoutedCall,
    task_id: str,
    state: CallState,
    payload: bytes,
    at_ms: int,
    number: int,
    expected: int,
) -> Delivered:
    changes = [put_ended(call, task_id, state, payload, at_ms=at_ms, expected=expected)]
    if not call.waits:
        if call.delivery != "channel":
            message = response_message(call, payload)
            changes.append(put_entry(call.session, at_ms=at_ms, number=number, message=message))
        due = answer_id(at_ms, number, call.id)
        if call.delivery != "session":
            changes.append(_due(CHANNEL_COPY, call, due))
        if call.starts_turn:
            changes.append(_due(SESSION_TURN, call, due))
    return Delivered(state, payload, tuple(changes))


def _due(kind: str, call: RoutedCall, id: str) -> Put:
    # One of a session at a time, in the order of the entries. The payload is in the record of the
    # call.
    key = Key(kind, call.session.tag, id)
    return Put(key=key, body=call.id.encode(), due_in_ms=0, expected=0)


def _cut(outcome: CallOutcome, payload: bytes, task_id: str) -> CallOutcome:
    """The outcome with the beginning of its output as a text."""
    answer = outcome.answer
    if answer is None:
        return msgspec.structs.replace(outcome, text=outcome.text[: MAX_OUTPUT_CHARS // 8])
    output = answer.output if isinstance(answer.output, str) else _encode(answer.output).decode()
    caveat = f"The output was cut off; the answer has {len(payload)} bytes. Task {task_id} has it."
    shorter = msgspec.structs.replace(
        answer,
        # In JSON, a character has at most six.
        output=output[: MAX_OUTPUT_CHARS // 8],
        assumptions=(),
        caveats=(caveat,),
    )
    return msgspec.structs.replace(outcome, answer=shorter)
