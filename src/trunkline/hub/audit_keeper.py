"""`AuditKeeper`: takes over what nodes that are gone have left in the audit, and forgets old rows.

A node that shares its store renews a record while it lives. When the time of that record comes, due
work of any node closes the chain; the rows that the node left in the outbox then go into the chain
of the node that finds them first, and so does the outcome `interrupted` of each attempt without
one. In a store of one process, all other chains are closed at the
start. Rows of the outbox of an agent's own store may come later, so every node keeps looking.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.hub.audit_chain import (
    GONE,
    HEAD,
    OUTBOX,
    SEGMENT,
    Damaged,
    Head,
    closing,
    head_key,
    head_of,
    put_head,
)
from trunkline.hub.audit_rows import BrokenLine, read_line
from trunkline.hub.audit_writer import AuditWriter
from trunkline.model.errors import RecordConflict, StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Defer, Delete, Key, Put, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.audit")

# The sign of life of a node; the scope is its chain.
NODE: Final = "audit-node.1"
# After this time without a sign of life, the chain of a node is closed.
DEAD_AFTER_MS: Final = 60_000
TICK_S: Final = 5.0
_RENEW_TICKS: Final = 4
_SWEEP_TICKS: Final = 6
_RETENTION_TICKS: Final = 720
_DAY_MS: Final = 86_400_000
_PAGE: Final = 32
_LAST_ID: Final = "\U0010ffff"


class AuditKeeper:
    def __init__(self, writer: AuditWriter, clock: Clock, *, keep_days: float) -> None:
        """`keep_days` is 0 for rows that are kept for ever."""
        self._writer = writer
        self._clock = clock
        self._keep_days = keep_days
        self._is_shared = False
        # Due work begins before the hub is open.
        self._is_open = False
        self._signed = ""
        self._tasks = BackgroundTasks("audit keeper")

    async def open(self, *, is_shared: bool) -> None:
        """The writer is open. Raises StoreError."""
        self._is_shared, self._is_open = is_shared, True
        if is_shared:
            await self._sign()
        else:
            await self._close_others()
        await self.sweep()
        self._tasks.spawn(self._keep_looking(), name="audit keeper")

    async def close(self) -> None:
        await self._tasks.close()

    async def leave(self) -> None:
        """The chain of this node is closed, so it needs no sign of life any more."""
        if self._signed:
            try:
                await self._store.change(Delete(key=_node_key(self._signed)))
            except StoreError:
                return

    @property
    def _store(self) -> Store:
        return self._writer.chain.store

    async def _keep_looking(self) -> None:
        ticks = 0
        while True:
            await self._clock.sleep(TICK_S)
            ticks += 1
            try:
                self._writer.tick()
                if self._is_shared and ticks % _RENEW_TICKS == 0:
                    await self._sign()
                if ticks % _SWEEP_TICKS == 0:
                    await self.sweep()
                # Soon after the start as well: a gateway may be restarted every hour.
                if ticks % _RETENTION_TICKS == 1:
                    await self.forget_old()
            except StoreError:
                # The writer logs a store that is away, and the next round tries again.
                continue
            except Exception:  # noqa: BLE001 - logged; the audit goes on
                _log.exception("the audit cannot be looked after")

    async def _sign(self) -> None:
        chain = self._writer.chain.chain
        await self._store.change(Put(key=_node_key(chain), due_in_ms=DEAD_AFTER_MS))
        self._signed = chain

    async def presume_dead(self, sign: Record) -> Sequence[Change]:
        """Due work: a node has given no sign of life, so its chain is closed."""
        chain = sign.key.scope
        if not self._is_open:
            return (Defer(key=sign.key, in_ms=DEAD_AFTER_MS // 10, expected=sign.version),)
        if chain == self._writer.chain.chain:
            return (Put(key=sign.key, due_in_ms=DEAD_AFTER_MS),)
        version, head = await self._head(chain)
        if head is None or not head.is_open:
            return ()
        _log.warning("the audit chain of a node that is gone is closed", extra={"chain": chain})
        return closing(head, expected=version, now_ms=self._clock.now_ms())

    async def _close_others(self) -> None:
        """No other process has the store, so the nodes of all other chains are gone."""
        async for record, head in heads(self._store):
            if head.is_open and head.chain != self._writer.chain.chain:
                now_ms = self._clock.now_ms()
                await self._store.change(*closing(head, expected=record.version, now_ms=now_ms))

    async def sweep(self) -> None:
        """Take over what the nodes of closed chains have left. Raises StoreError."""
        await self._sweep_outboxes()
        for gone in await self._store.records(GONE, scope="", limit=_PAGE):
            await self._writer.interrupt(gone.key.id)
            await self._store.change(Delete(key=gone.key))

    async def _sweep_outboxes(self) -> None:
        after: Key | None = None
        while True:
            found = await self._store.records(OUTBOX, after=after, limit=1)
            if not found:
                return
            chain = found[0].key.scope
            # The next outbox, whatever this one holds.
            after = Key(OUTBOX, chain, _LAST_ID)
            _, head = await self._head(chain)
            if chain == self._writer.chain.chain or (head is not None and head.is_open):
                continue
            is_abandoned = head is None or head.is_abandoned
            count = await self._writer.adopt(chain, is_abandoned=is_abandoned)
            if count:
                extra = {"chain": chain, "rows": count}
                _log.info("audit rows of a node that is gone are taken over", extra=extra)

    async def _head(self, chain: str) -> tuple[int, Head | None]:
        """The version of the head of a chain, and the head; None for one that is gone or damaged.
        Raises StoreError."""
        record = await self._store.record(head_key(chain))
        if record is None:
            return 0, None
        try:
            return record.version, head_of(record)
        except Damaged:
            return record.version, None

    async def forget_old(self) -> None:
        """Delete the segments whose rows are all too old, from the start of each chain. The head
        then says where the chain begins. Raises StoreError."""
        if not self._keep_days:
            return
        before_ms = self._clock.now_ms() - round(self._keep_days * _DAY_MS)
        async for record, head in heads(self._store):
            while head.first <= head.last:
                shorter, deletes = await self._without_old(head, before_ms)
                if not deletes:
                    break
                try:
                    if head.chain == self._writer.chain.chain:
                        shorter = await self._writer.prune(shorter, *deletes)
                    elif head.is_open:
                        # Its own node does it.
                        break
                    else:
                        await self._store.change(
                            put_head(shorter, expected=record.version), *deletes
                        )
                        record = replace(record, version=record.version + 1)
                except RecordConflict:
                    break
                head = shorter

    async def _without_old(self, head: Head, before_ms: int) -> tuple[Head, list[Delete]]:
        deletes: list[Delete] = []
        found = await self._store.records(SEGMENT, scope=head.chain, limit=_PAGE)
        for record in found:
            try:
                rows = [read_line(line) for line in record.body.split(b"\n")]
            except BrokenLine:
                # Damage stays, for `verify` to find.
                break
            # Rows are in the order of their commits: one that a node left long ago may be the last.
            last, newest_ms = rows[-1], max([row.at_ms for row in rows])
            if newest_ms >= before_ms or last.n > head.last:
                break
            deletes.append(Delete(key=record.key, expected=record.version))
            head = replace(head, first=last.n + 1, hash_before_first=last.hash)
        return head, deletes


async def heads(store: Store) -> AsyncIterator[tuple[Record, Head]]:
    """The heads of all chains. Those that are damaged are left out: `verify` finds them."""
    after: Key | None = None
    while True:
        page = await store.records(HEAD, scope="", after=after, limit=100)
        for record in page:
            try:
                yield record, head_of(record)
            except Damaged:
                _log.error("the head of an audit chain is damaged", extra={"chain": record.key.id})
        if len(page) < 100:
            return
        after = page[-1].key


def _node_key(chain: str) -> Key:
    return Key(NODE, chain, "")
