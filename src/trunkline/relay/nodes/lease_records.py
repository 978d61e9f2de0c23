"""`LeaseRecords`: the leases of all relay nodes, in the store that they share.

Each agent has one record, whose version is the epoch of the lease: so epochs never go back. A node
that takes a lease replaces the record, whoever had it; a node that gives one up empties it, unless
a later lease has replaced it already. An empty record is deleted when no node can remember it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.model.errors import RecordConflict, StoreUnusable
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueKind

KIND: Final = "relay-lease.1"
_PAGE: Final = 500
# Nodes compare what they remember with the store every few seconds.
_FORGOTTEN_AFTER_MS: Final = 7 * 24 * 3600 * 1000
# Other nodes may take the same agent at the same time; each attempt reads the record anew.
_ATTEMPTS: Final = 50
# The agents of one host whose records are written at once.
_SIDE_BY_SIDE: Final = 16


class Holder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session that has an agent, and the node that has the session."""

    node: str
    # Where other nodes reach this one.
    url: str
    session: str
    # The running gateway that the session is of.
    host: str = ""
    # The session that the host has given up for this one, because this node could not resume it.
    instead_of: str = ""


class SharedLease(Struct, frozen=True):
    holder: Holder
    epoch: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Holder).decode


class LeaseRecords:
    """Its methods raise StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, agent: str) -> SharedLease | None:
        record = await self._store.record(_key(agent))
        return None if record is None else _lease(record)

    async def take(self, holder: Holder, agents: Iterable[str]) -> dict[str, int]:
        """Give a session the agents; whoever had them has them no more. Returns the epochs."""
        turns = asyncio.Semaphore(_SIDE_BY_SIDE)
        names = [*agents]
        body = _encode(holder)

        async def take(agent: str) -> int:
            async with turns:
                return await self._take(agent, holder.node, body)

        results = await asyncio.gather(*map(take, names), return_exceptions=True)
        epochs: dict[str, int] = {}
        for name, result in zip(names, results, strict=True):
            if isinstance(result, BaseException):
                # The other agents are taken, and another attempt finds them so.
                raise result
            epochs[name] = result
        return epochs

    async def _take(self, agent: str, node: str, body: bytes) -> int:
        key = _key(agent)
        for _ in range(_ATTEMPTS):
            record = await self._store.record(key)
            if record is not None and record.body == body:
                # Taken before, by an attempt whose answer was lost.
                return record.version
            version = 0 if record is None else record.version
            try:
                await self._store.change(Put(key=key, body=body, tags=(node,), expected=version))
            except RecordConflict:
                continue
            return version + 1
        raise StoreUnusable(f"other nodes take {agent} again and again")

    async def release(self, agent: str, epoch: int) -> bool:
        """Whether the lease was still of this epoch; it is not any more."""
        try:
            await self._store.change(
                Put(key=_key(agent), due_in_ms=_FORGOTTEN_AFTER_MS, expected=epoch)
            )
        except RecordConflict:
            return False
        return True

    async def held_by(self, node: str) -> Mapping[str, int]:
        """The epochs of all agents that a node has."""
        return {agent: lease.epoch async for agent, lease in self._pages(tag=node)}

    async def in_tenant(self, tenant: str) -> Mapping[str, Holder]:
        """The holders of the agents of a tenant."""
        return {agent: lease.holder async for agent, lease in self._pages(scope=tenant)}

    async def _pages(
        self, *, scope: str | None = None, tag: str | None = None
    ) -> AsyncIterator[tuple[str, SharedLease]]:
        after: Key | None = None
        while True:
            page = await self._store.records(KIND, scope=scope, tag=tag, after=after, limit=_PAGE)
            for record in page:
                lease = _lease(record)
                if lease is not None:
                    yield f"{record.key.scope}/{record.key.id}", lease
            if len(page) < _PAGE:
                return
            after = page[-1].key


def due_kind() -> DueKind:
    """The due work of the main store."""
    return DueKind(name=KIND, handle=_forget)


async def _forget(_: Record) -> Sequence[Change]:
    # Due work deletes a record for which its handler has no change.
    return ()


def _key(agent: str) -> Key:
    tenant, _, id = agent.partition("/")
    return Key(KIND, tenant, id)


def _lease(record: Record) -> SharedLease | None:
    return SharedLease(_decode(record.body), record.version) if record.body else None
