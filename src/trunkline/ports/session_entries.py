"""Session entries: what came to a session beside the messages of its tasks, such as the answer of
an agent that an agent of the session had asked.

They are records of the main store. The commit that ends the work of the other agent writes them, so
no answer is lost and none comes twice. They are due from the moment of that commit, by the clock of
the store: so they have one order, whichever node wrote them. Nothing claims them; retention deletes
those that the agent of the session keeps no longer.
"""

import msgspec
from msgspec import Struct

from trunkline.model.values import Message
from trunkline.ports.caller_records import ENDED, ENTRY, answer_id, array_text, caller_tag
from trunkline.ports.records import Key, Put, Record
from trunkline.ports.store import Scope, Store

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


class SessionRef(Struct, frozen=True, cache_hash=True, gc=False):
    """The conversation of a caller with an agent. Its context is empty where all contexts of the
    caller are one conversation."""

    scope: Scope
    context_id: str

    @property
    def tag(self) -> str:
        """The tag of all records of the session, unique in the gateway."""
        scope = self.scope
        return array_text(scope.agent, scope.tenant, scope.principal, self.context_id)


def put_entry(session: SessionRef, *, at_ms: int, number: int, message: Message) -> Put:
    """`number` tells entries of the same millisecond and node apart; a higher one comes later."""
    scope = session.scope
    return Put(
        key=Key(ENTRY, scope.agent, answer_id(at_ms, number, message.message_id)),
        body=_encode(message),
        due_in_ms=0,
        tags=tuple(dict.fromkeys((caller_tag(scope), caller_tag(scope, session.context_id)))),
        expected=0,
    )


def ended_key(session: SessionRef) -> Key:
    return Key(ENDED, session.scope.agent, session.tag)


async def latest_entries(
    store: Store, session: SessionRef, *, limit: int
) -> list[tuple[int, Message]]:
    """The last entries of the session with the times of their commits, the first one first."""
    found = await store.records(
        ENTRY,
        scope=session.scope.agent,
        tag=caller_tag(session.scope, session.context_id),
        newest_first=True,
        limit=limit,
    )
    entries = [(record.due_ms or 0, record.key.id, _message(record)) for record in found]
    entries.sort(key=lambda entry: entry[:2])
    return [(at_ms, message) for at_ms, _, message in entries]


async def ended_ms(store: Store, session: SessionRef) -> int:
    """When the session was ended last; 0 if it never was."""
    record = await store.record(ended_key(session))
    return 0 if record is None else record.due_ms or 0


def _message(record: Record) -> Message:
    return _decode(record.body)
