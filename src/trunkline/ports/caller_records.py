"""Keys of requests, direct answers and notes: the records that the callers of an agent leave.

The scope of these records is the agent, because each agent has its own retention: its old records
are one stretch of one index, however many callers it has. The caller is part of the id. Answers,
whose ids are in the order of time, have the caller and the context as tags.

Answers and notes are due from the moment when they are stored, and so are keys of requests without
a task. Nothing claims them; retention deletes those that have been due for as long as the agent
keeps them. The key of a task goes with the task.
"""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.ports.records import Key, Put
from trunkline.ports.store import Scope

KEY = "key.1"
ANSWER = "answer.1"
NOTE = "note.1"
ENTRY = "entry.1"
# When a session was ended; what came before is not part of it any more.
ENDED = "session-ended.1"
# The kinds that retention deletes by age. Entries are in the main store.
AGING = (KEY, ANSWER, NOTE, ENDED, ENTRY)

_encode = msgspec.json.Encoder().encode
_decode_texts = msgspec.json.Decoder(tuple[str, ...]).decode


class RefusedAnswer(Struct, frozen=True):
    """The caller accepts no part of the answer."""

    message: str
    metadata: dict[str, str]


class UsedKey(Struct, frozen=True, omit_defaults=True):
    """The body of a key: the request that used it first, and what became of it."""

    digest: bytes
    task_id: str
    # For a request that needs no task: the context. Without an answer, the agent may still work
    # on the request, or the process ended meanwhile.
    context_id: str = ""
    # At most one of them is set: the message as JSON, or the reason why there is none.
    answer: Raw | UnsetType = UNSET
    refused: RefusedAnswer | None = None


decode_used_key = msgspec.json.Decoder(UsedKey).decode


def array_text(*texts: str) -> str:
    """The texts as one text, a JSON array, so that different texts never give the same."""
    return _encode(texts).decode()


def request_key(scope: Scope, key: str) -> Key:
    return Key(KEY, scope.agent, array_text(scope.tenant, scope.principal, key))


def key_body(digest: bytes, task_id: str) -> bytes:
    """The body of the key of a task."""
    return _encode(UsedKey(digest, task_id))


def note_key(scope: Scope, context_id: str, name: str) -> Key:
    return Key(NOTE, scope.agent, array_text(scope.tenant, scope.principal, context_id, name))


def answer_id(at_ms: int, number: int, task_id: str) -> str:
    """In the order of time. Of answers of the same millisecond, a higher number comes later."""
    return f"{at_ms:015}-{number:09}-{task_id}"


def answer_ms(key: Key) -> int:
    """The time of an answer, by its key."""
    return int(key.id[:15])


def answer_task(key: Key) -> str:
    """The id that the task of an answer would have, by its key."""
    return key.id[26:]


def caller_tag(scope: Scope, context_id: str = "") -> str:
    """The tag of all answers to the caller, or of those in one context."""
    if context_id:
        return array_text(scope.tenant, scope.principal, context_id)
    return array_text(scope.tenant, scope.principal)


def caller_of(tags: Iterable[str]) -> tuple[str, str, str]:
    """Tenant, principal and context, by the tags of an answer or an entry."""
    tenant, principal, *context = max(map(_decode_texts, tags), key=len)
    return tenant, principal, context[0] if context else ""


def put_answer(scope: Scope, context_id: str, answer_id: str, messages: bytes) -> Put:
    """`messages` is a JSON array of the request's message and the answer."""
    return Put(
        key=Key(ANSWER, scope.agent, answer_id),
        body=messages,
        due_in_ms=0,
        tags=(caller_tag(scope), caller_tag(scope, context_id)),
    )
