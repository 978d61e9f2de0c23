"""`verify`: checks all chains of the audit, and names each place that is not as it was written.

It reads a few segments at a time, and needs no more memory for a million rows. A node may add rows
meanwhile: those behind the head that was read first are left for the next time.
"""

from typing import Final

from msgspec import Struct

from trunkline.hub.audit_chain import (
    HEAD,
    SEGMENT,
    TIP,
    Damaged,
    Head,
    head_key,
    head_of,
    segment_id,
    tip_of,
)
from trunkline.hub.audit_reading import PAGE, AuditReader, Records
from trunkline.hub.audit_rows import BrokenLine, check_line, genesis
from trunkline.ports.records import Key, Record

MAX_FAULTS: Final = 100
_LAST_ID: Final = "\U0010ffff"


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    what: str
    # Empty for a fault of the list of chains.
    chain: str = ""
    # The number of the row; 0 for a fault of the chain as a whole.
    number: int = 0


class Verified(Struct, frozen=True, kw_only=True, rename="camel"):
    rows: int
    chains: int
    faults: tuple[Fault, ...]
    # Further faults that are not listed.
    more: int
    # The newest chain and its last hash. Keep them elsewhere, to notice later that the end of the
    # audit was taken away together with its head.
    newest: str
    hash: str

    @property
    def is_sound(self) -> bool:
        return not self.faults


class _Broken(Exception):
    """The rest of a chain cannot be checked."""

    def __init__(self, what: str, number: int = 0) -> None:
        super().__init__(what)
        self.what, self.number = what, number


class _Verification:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._reader = AuditReader(records)
        self._heads: dict[str, Head] = {}
        self._faults: list[Fault] = []
        self._more = 0
        self._rows = 0

    async def run(self) -> Verified:
        newest = await self._read_tip()
        await self._read_heads()
        self._check_list(newest)
        for head in list(self._heads.values()):
            await self._check_chain(head)
        await self._check_scopes()
        last = self._heads.get(newest)
        return Verified(
            rows=self._rows,
            chains=len(self._heads),
            faults=tuple(self._faults),
            more=self._more,
            newest=newest,
            hash="" if last is None else last.hash,
        )

    def _note(self, what: str, chain: str = "", number: int = 0) -> None:
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(what=what, chain=chain, number=number))
        else:
            self._more += 1

    async def _read_tip(self) -> str:
        try:
            return tip_of(await self._records.record(TIP))
        except Damaged:
            self._note("the record that names the newest chain is damaged")
            return ""

    async def _read_heads(self) -> None:
        async for record in self._reader.pages(HEAD, "", limit=PAGE):
            try:
                head = head_of(record)
            except Damaged:
                self._note("the head is damaged", record.key.id)
                continue
            if head.chain != record.key.id:
                self._note("the head is that of another chain", record.key.id)
            else:
                self._heads[head.chain] = head

    def _check_list(self, newest: str) -> None:
        """Follow the chains from the newest one to the first."""
        seen: set[str] = set()
        chain, by = newest, "the list of chains"
        while chain:
            if chain in seen:
                self._note("the chain comes before itself", chain)
                return
            seen.add(chain)
            head = self._heads.get(chain)
            if head is None:
                self._note(f"the chain is missing; {by} names it", chain)
                return
            chain, by = head.before, f"chain {chain}"
        # Chains that were begun after the list was read come behind the newest one.
        behind = {newest} if newest else set()
        others = [self._heads[chain] for chain in self._heads.keys() - seen]
        for head in sorted(others, key=lambda head: head.started_ms):
            if head.before in behind:
                behind.add(head.chain)
            else:
                self._note("no later chain names it", head.chain)

    async def _check_chain(self, head: Head) -> None:
        counted = self._rows
        try:
            await self._follow(head)
        except _Broken as fault:
            again = await self._head_now(head.chain)
            if again is not None and again.first != head.first:
                # Retention has shortened the chain meanwhile.
                self._rows = counted
                await self._check_chain(again)
                return
            self._note(fault.what, head.chain, fault.number)

    async def _head_now(self, chain: str) -> Head | None:
        """The head as it is by now; None for one that is gone or damaged."""
        record = await self._records.record(head_key(chain))
        try:
            return None if record is None else head_of(record)
        except Damaged:
            return None

    async def _follow(self, head: Head) -> None:
        before, number = head.hash_before_first, head.first
        if head.first == 1 and before != genesis(head.chain, head.before, head.started_ms):
            raise _Broken("the head does not fit the beginning of its chain")
        async for record in self._reader.pages(SEGMENT, head.chain):
            if number > head.last:
                await self._check_behind(head, record)
                break
            if record.key.id != segment_id(number):
                raise _Broken(
                    f"rows are missing: the next ones begin with {record.key.id.lstrip('0')}",
                    number,
                )
            for line in record.body.split(b"\n"):
                try:
                    before = check_line(line, number=number, before=before)
                except BrokenLine as error:
                    raise _Broken(str(error), number) from None
                number += 1
                self._rows += 1
        if number <= head.last:
            raise _Broken(f"rows {number} to {head.last} are missing at the end", number)
        if before != head.hash:
            raise _Broken("the last hash is not that of the head", head.last)

    async def _check_behind(self, head: Head, record: Record) -> None:
        """A row behind the end is one that was written meanwhile, or was put there."""
        again = await self._head_now(head.chain)
        # Ids of segments have one length, so they compare like their numbers.
        if record.key.id > segment_id((again or head).last):
            raise _Broken("there are rows behind the end of the chain", head.last + 1)

    async def _check_scopes(self) -> None:
        """Each chain that has rows has a head."""
        after: Key | None = None
        while True:
            found = await self._records.records(SEGMENT, after=after, limit=1)
            if not found:
                return
            chain = found[0].key.scope
            after = Key(SEGMENT, chain, _LAST_ID)
            if chain not in self._heads and await self._records.record(head_key(chain)) is None:
                self._note("the head is missing, and there are rows", chain)


async def verify(records: Records) -> Verified:
    """Raises StoreError."""
    return await _Verification(records).run()
