"""`traces_of`: the sessions with an agent, as its tasks, its answers without a task and the entries
of its sessions tell of them.

A session has no record of its own, so a list of sessions is put together from these traces.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.engine.session import session_key
from trunkline.ports.caller_records import (
    ANSWER,
    ENTRY,
    answer_ms,
    answer_task,
    caller_of,
    caller_tag,
)
from trunkline.ports.records import Key, Record
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import OperatorQuery, Scope, Store, StoredTask, TaskQuery
from trunkline.routing.callees import Callee
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.sessions import session_context

# How many of the latest tasks, answers and entries of an agent are looked at.
_LATEST: Final = 1000
_PAGE: Final = 200


class Callers(Struct, frozen=True, kw_only=True):
    """Those whose sessions are wanted."""

    # Empty for all callers, of which only operators may ask.
    principal: str
    tenant: str


class Trace(Struct, frozen=True, kw_only=True):
    """A task, an answer or an entry."""

    ref: SessionRef
    key: str
    began_ms: int
    changed_ms: int
    is_task: bool = False
    is_entry: bool = False


async def traces_of(
    callee: Callee, callers: Callers, open_main: Callable[[], Awaitable[Store]]
) -> AsyncIterator[Trace]:
    """The main store has the entries of all sessions. Raises StoreError."""
    agent, store = callee.agent, callee.sessions.store
    async for stored in _tasks(store, agent.handle, callers):
        ref = SessionRef(stored.scope, session_context(agent, stored.context_id, stored.task_id))
        peer = agent.peer(stored.scope, stored.context_id, stored.task_id, stored.session_key)
        yield Trace(
            ref=ref,
            key=session_key(agent.profile, peer),
            began_ms=stored.created_ms,
            changed_ms=stored.status_ms,
            is_task=True,
        )
    if agent.backend.may_reply_directly:
        async for record in _records(store, ANSWER, agent.handle, callers):
            yield _trace(agent, record, answer_ms(record.key), task_id=answer_task(record.key))
    if agent.calls_others and agent.profile.context_mode not in ("task", "stateless"):
        async for record in _records(await open_main(), ENTRY, agent.handle, callers):
            yield _trace(agent, record, record.due_ms or 0, is_entry=True)


def _trace(
    agent: PublishedAgent, record: Record, at_ms: int, *, task_id: str = "", is_entry: bool = False
) -> Trace:
    tenant, principal, context_id = caller_of(record.tags)
    scope = Scope(agent.handle, tenant, principal)
    return Trace(
        ref=SessionRef(scope, session_context(agent, context_id, task_id)),
        key=session_key(agent.profile, agent.peer(scope, context_id, task_id)),
        began_ms=at_ms,
        changed_ms=at_ms,
        is_entry=is_entry,
    )


async def _tasks(store: Store, agent: str, callers: Callers) -> AsyncIterator[StoredTask]:
    query: TaskQuery | OperatorQuery
    if callers.principal:
        query = TaskQuery(scope=Scope(agent, callers.tenant, callers.principal), limit=_PAGE)
    else:
        query = OperatorQuery(agent=agent, tenant=callers.tenant or None, limit=_PAGE)
    for _ in range(_LATEST // _PAGE):
        if isinstance(query, TaskQuery):
            page = await store.list(query)
        else:
            page = await store.list_all(query)
        for stored in page.tasks:
            yield stored
        if page.next is None:
            return
        query = msgspec.structs.replace(query, after=page.next)


async def _records(store: Store, kind: str, agent: str, callers: Callers) -> AsyncIterator[Record]:
    """The latest answers or entries."""
    scope = Scope(agent, callers.tenant, callers.principal)
    tag = caller_tag(scope) if callers.principal else None
    after: Key | None = None
    for _ in range(_LATEST // _PAGE):
        page: Sequence[Record] = await store.records(
            kind, scope=agent, tag=tag, after=after, newest_first=True, limit=_PAGE
        )
        for record in page:
            if tag is not None or callers.tenant in ("", caller_of(record.tags)[0]):
                yield record
        if len(page) < _PAGE:
            return
        after = page[-1].key
