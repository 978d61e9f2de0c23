"""The public part of a record: a task, its journal and its binding in the form of A2A 0.3.

For people and programs that look into the folder. The gateway itself reads none of it
back, so it may lack details that 0.3 cannot express.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import GatewayBug
from trunkline.model.events import Entry
from trunkline.model.session import Routing
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent
from trunkline.ports.store import Scope
from trunkline.protocol.v03_writing import Writer03
from trunkline.stores.indexes import Head
from trunkline.stores.jsonfile.tasks import Contents

SCHEMA_VERSION = 2
_writer = Writer03(is_rest=False)
_encode = msgspec.json.Encoder().encode
# An entry of a kind that this release does not know, or whose body does not fit its kind.
_UNREADABLE = (msgspec.DecodeError, ValueError, KeyError, GatewayBug)


class _Peer(Struct, frozen=True):
    kind: str
    id: str
    source: str


class Binding(Struct, frozen=True, rename="camel"):
    """The session of a task, as other programs that keep tasks in such folders write it."""

    schema_version: Literal[1]
    agent_id: str
    channel: str
    account_id: str
    matched_by: str
    session_key: str
    main_session_key: str
    store_path: str
    peer: _Peer
    created_at: Any = ""
    updated_at: Any = ""


_decode_binding = msgspec.json.Decoder(Binding).decode

# The session of a task, by its scope, its context and its id.
Route: TypeAlias = Callable[[Scope, str, str], Routing]


def by_handle(scope: Scope, context_id: str, task_id: str) -> Routing:
    """The session of an agent of which only the handle is known."""
    slug = scope.agent.rpartition("/")[2]
    return Routing(
        agent_id=slug,
        account_id=slug,
        session_key=f"agent:{slug}:a2a:{context_id}",
        peer_id=context_id,
        peer_source="context-id",
    )


def encode(head: Head, contents: Contents, *, route: Route, store_path: str) -> bytes:
    """Give the record a binding, and its journal the events that it lacks, then encode it."""
    if contents.binding is None:
        contents.binding = _binding(head, route(head.scope, head.context_id, head.id), store_path)
    for entry in contents.unpublished:
        event = _event(entry)
        if event is not None:
            contents.current_sequence += 1
            journal_entry = {"sequence": contents.current_sequence, "event": event}
            contents.journal.append(Raw(_encode(journal_entry)))
    contents.unpublished = []
    if contents.is_cut:
        kept = contents.count_public()
        del contents.journal[: max(0, len(contents.journal) - kept)]
    public = {
        "schemaVersion": SCHEMA_VERSION,
        "task": _writer.task(_task(head, contents)),
        "binding": contents.binding,
        "currentSequence": contents.current_sequence,
        "journal": contents.journal,
    }
    return msgspec.json.format(_encode(public), indent=2)


def _task(head: Head, contents: Contents) -> Task:
    try:
        return TaskFold.of(contents.snapshot, contents.tail()).whole()
    except _UNREADABLE:
        return Task(id=head.id, context_id=head.context_id, status=TaskStatus(state=head.state))


def _event(entry: Entry) -> Struct | None:
    try:
        event = entry.public
    except _UNREADABLE:
        return None
    if isinstance(event, TaskArtifactUpdateEvent):
        return _writer.artifact_update(event)
    return _writer.status_update(event) if isinstance(event, TaskStatusUpdateEvent) else None


def session_key_in(head: Head, contents: Contents) -> str:
    """The session that the record names; empty when the record names none to rely on.

    Earlier versions named the account in place of the agent, whatever session the agent got.
    """
    if contents.binding is None:
        return ""
    found = _decode_binding(contents.binding).session_key
    made_up = by_handle(head.scope, head.context_id, head.id).session_key
    return "" if found == made_up else found


def _binding(head: Head, route: Routing, store_path: str) -> Raw:
    binding = Binding(
        schema_version=1,
        agent_id=route.agent_id,
        channel="a2a",
        account_id=route.account_id,
        matched_by="default",
        session_key=route.session_key,
        main_session_key=f"agent:{route.agent_id}:main",
        store_path=store_path,
        peer=_Peer("direct", route.peer_id, route.peer_source),
        created_at=format_timestamp(head.created_ms),
        updated_at=format_timestamp(head.created_ms),
    )
    return Raw(_encode(binding))
