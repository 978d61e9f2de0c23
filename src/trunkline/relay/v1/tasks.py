"""`V1Tasks`: whose the tasks and contexts of agents of protocol v1 are, and what they are called.

Such an agent does not learn who calls, so the relay keeps its callers apart: a caller reaches the
tasks that the relay saw made for it. A task that waited in the mailbox keeps the id that its caller
got from the relay; the agent has another one for it.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from trunkline.model.errors import (
    InvalidAgentResponse,
    InvalidParams,
    RecordConflict,
    TaskNotFound,
    Unavailable,
)
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueKind

TASK: Final = "relay-v1-task.1"
CONTEXT: Final = "relay-v1-context.1"
# As long as older relays keep a result.
KEPT_MS: Final = 9 * 24 * 3600 * 1000
# Of the tasks of a caller, a list can show this many.
_MAX_LISTED: Final = 1000
_MAX_TRIES: Final = 5


class V1Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as its caller knows it."""

    id: str
    owner: str
    context_id: str
    # The ids of the agent for it; empty for a task that the agent does not have.
    agent_id: str
    agent_context: str
    # The task that a delivery of the mailbox has led to, in A2A 1.0.
    task: Raw = Raw(b"")


class _Owned(Struct):
    owner: str


class _Context(Struct, frozen=True, kw_only=True):
    owner: str
    agent_context: str


_encode = msgspec.json.Encoder().encode
_task = msgspec.json.Decoder(V1Task).decode
_context = msgspec.json.Decoder(_Context).decode
_owned = msgspec.json.Decoder(_Owned).decode


class V1Tasks:
    """Of one agent, which is its tenant and id at the relay."""

    def __init__(self, store: Store, agent: str) -> None:
        self._store = store
        self._agent = agent

    async def find(self, owner: str, id: str) -> V1Task:
        """Raises TaskNotFound, also for a task of another caller."""
        record = await self._store.record(self._key(TASK, id))
        if record is None:
            raise TaskNotFound(id)
        task = _task(record.body)
        if task.owner != owner:
            raise TaskNotFound(id)
        return task

    async def has(self, owner: str, id: str) -> bool:
        try:
            await self.find(owner, id)
        except TaskNotFound:
            return False
        return True

    async def all_of(self, owner: str) -> list[V1Task]:
        records = await self._store.records(TASK, scope=self._agent, tag=owner, limit=_MAX_LISTED)
        return [_task(record.body) for record in records]

    async def context_of(self, owner: str, id: str) -> str:
        """What the agent calls the context. Raises InvalidParams for one of another caller."""
        record = await self._store.record(self._key(CONTEXT, id))
        if record is None:
            return id
        context = _context(record.body)
        if context.owner != owner:
            raise InvalidParams.at("message.contextId", "is not one of your contexts")
        return context.agent_context

    async def keep(self, task: V1Task) -> None:
        """Note the task and its context. Raises InvalidAgentResponse if another caller has one of
        them: the agent decides what it calls its tasks."""
        await self._change(task.owner, task.context_id, task.agent_context, task)

    async def keep_context(self, owner: str, id: str) -> None:
        """Note the context of an answer without a task."""
        if id:
            await self._change(owner, id, id)

    async def _change(
        self, owner: str, context_id: str, agent_context: str, task: V1Task | None = None
    ) -> None:
        context = _Context(owner=owner, agent_context=agent_context)
        values: list[tuple[Key, _Context | V1Task]] = []
        if context_id:
            values.append((self._key(CONTEXT, context_id), context))
        if task is not None:
            values.append((self._key(TASK, task.id), task))
        for _ in range(_MAX_TRIES):
            puts = [await self._put(key, value) for key, value in values]
            try:
                await self._store.change(*puts)
            except RecordConflict:
                # Another answer in the same context came at the same time.
                continue
            return
        raise Unavailable("The relay is busy with this context; try again", retry_after_s=1)

    async def _put(self, key: Key, value: "_Context | V1Task") -> Put:
        record = await self._store.record(key)
        if record is not None and _owned(record.body).owner != value.owner:
            raise InvalidAgentResponse("The agent has answered with a task of another caller")
        return Put(
            key=key,
            body=_encode(value),
            due_in_ms=KEPT_MS,
            tags=(value.owner,),
            expected=0 if record is None else record.version,
        )

    def _key(self, kind: str, id: str) -> Key:
        # Ids of agents and clients may have any length and characters.
        return Key(kind, self._agent, hashlib.sha256(id.encode()).hexdigest())


def due_kinds() -> tuple[DueKind, ...]:
    """Both kinds are forgotten when they are due."""
    return tuple(DueKind(name=kind, handle=_forget) for kind in (TASK, CONTEXT))


async def _forget(_: Record) -> Sequence[Change]:
    # Due work deletes a record for which its handler has no change.
    return ()
