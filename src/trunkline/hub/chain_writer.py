"""`ChainWriter`: adds rows to the chain of this node in the main store.

Each append is one change: the new segments, the head, which must be the one that this writer knows,
and whatever belongs to the rows. When the store fails, the writer looks at the head before the next
append, because the store may have made the change and not answered.
"""

import logging
from collections.abc import Sequence
from typing import Final

from trunkline.hub.audit_chain import (
    SEGMENT,
    TIP,
    Damaged,
    Head,
    begun,
    closed_at,
    extended,
    head_key,
    head_of,
    put_head,
    put_tip,
    segment_id,
    tip_of,
)
from trunkline.model.errors import RecordConflict, StoreError
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.records import Change, Key, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.audit")

# The name of the chain before, where the record that names it cannot be read.
DAMAGED: Final = "(damaged)"
# Other nodes may begin a chain at the same time.
_ATTEMPTS = 50


class ChainWriter:
    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        # Known from the start, because messages may come before the chain is begun.
        self.chain = ids.new()
        self._store: Store | None = None
        self._head: Head | None = None
        self._version = 0
        # The head that a change would have made whose outcome is not known.
        self._unsure: Head | None = None

    @property
    def head(self) -> Head:
        assert self._head is not None, "the chain is not begun"
        return self._head

    @property
    def store(self) -> Store:
        assert self._store is not None, "the chain is not begun"
        return self._store

    async def begin(self, store: Store) -> None:
        """Begin a chain behind the one that was begun last. Raises StoreError."""
        self._store = store
        for attempt in range(_ATTEMPTS):
            tip = await store.record(TIP)
            if _tip(tip) == self.chain:
                # An earlier attempt succeeded, and the store did not answer.
                break
            head = begun(self.chain, before=_tip(tip), now_ms=self._clock.now_ms())
            version = 0 if tip is None else tip.version
            try:
                await store.change(
                    put_head(head, expected=0), put_tip(self.chain, expected=version)
                )
                break
            except RecordConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
        await self._reread()

    async def append(self, bodies: Sequence[bytes], *also: Change) -> bool:
        """Add encoded rows, together with other changes. Returns whether they were added; False
        means that something has changed meanwhile, and the caller makes the append anew. Raises
        StoreError when the store does not answer; `settle` then tells whether they were added."""
        head, segments = extended(self.head, bodies)
        try:
            await self.store.change(put_head(head, expected=self._version), *segments, *also)
        except RecordConflict as error:
            await self._give_way(error)
            return False
        except StoreError:
            self._unsure = head
            raise
        self._head, self._version = head, self._version + 1
        return True

    async def settle(self) -> bool | None:
        """Find out whether the last append was made, if that is not known. Returns None where it
        is. Raises StoreError."""
        if self._unsure is None:
            return None
        wanted = self._unsure
        await self._reread()
        self._unsure = None
        was_made = self.head.hash == wanted.hash
        if not self.head.is_open:
            await self._begin_anew()
        return was_made

    async def close(self) -> None:
        """End the chain: nothing comes after. Raises StoreError."""
        closed = closed_at(self.head, self._clock.now_ms())
        try:
            await self.store.change(put_head(closed, expected=self._version))
        except RecordConflict:
            _log.warning("another node has closed the audit chain of this one")

    async def prune(self, head: Head, *changes: Change) -> None:
        """Replace the head of this chain by one that begins later. Raises StoreError."""
        self._unsure = head
        await self.store.change(put_head(head, expected=self._version), *changes)
        self._unsure = None
        self._head, self._version = head, self._version + 1

    async def _give_way(self, error: RecordConflict) -> None:
        """A record was not what this writer expected: mostly another node took this one for dead,
        closed its chain and took over its rows."""
        chain = self.chain
        await self._reread()
        if self.chain != chain:
            return
        if not self.head.is_open:
            _log.warning(
                "another node took this one for dead, so the audit goes on in a new chain",
                extra={"chain": self.chain},
            )
            await self._begin_anew()
        elif await self._has_rows_behind():
            _log.error(
                "the audit chain cannot be extended, so a new one is begun; run "
                "'trunkline audit verify'",
                extra={"chain": self.chain, "reason": error.message},
            )
            await self._begin_anew()
        # Else another node has changed one of the other records first, such as a row that both took
        # over.

    async def _has_rows_behind(self) -> bool:
        """Whether there are rows behind the end of the chain, which only a person can have put
        there."""
        end = Key(SEGMENT, self.chain, segment_id(self.head.last))
        return bool(await self.store.records(SEGMENT, scope=self.chain, after=end, limit=1))

    async def _begin_anew(self) -> None:
        self.chain = self._ids.new()
        await self.begin(self.store)

    async def _reread(self) -> None:
        record = await self.store.record(head_key(self.chain))
        try:
            head = None if record is None else head_of(record)
        except Damaged:
            head = None
        if head is None or record is None:
            # Only a person, or a broken disk, can have done that; `verify` says where.
            _log.error(
                "the head of the audit chain is gone or damaged, so a new one is begun",
                extra={"chain": self.chain},
            )
            await self._begin_anew()
            return
        self._head, self._version = head, record.version


def _tip(record: Record | None) -> str:
    try:
        return tip_of(record)
    except Damaged:
        # The gateway starts, and `verify` misses a chain of this name.
        _log.error("the record of the newest audit chain is damaged; run 'trunkline audit verify'")
        return DAMAGED
