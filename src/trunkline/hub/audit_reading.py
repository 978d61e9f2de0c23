"""`AuditReader`: reads the rows of all chains, from a store or through a running gateway."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from trunkline.hub.audit_chain import HEAD, SEGMENT, Damaged, Head, head_of, segment_id
from trunkline.hub.audit_rows import BrokenLine, Line, read_line
from trunkline.ports.records import Key, Record

# Segments that are held in memory at a time, a few hundred KB each at most.
PAGE: Final = 16
_HEADS: Final = 200
# Closed chains that are looked at for the last rows, beside all open ones.
_RECENT_CHAINS: Final = 5


class Records(Protocol):
    """The part of a store that a reader needs."""

    async def record(self, key: Key) -> Record | None: ...

    async def records(
        self,
        kind: str,
        *,
        scope: str | None = None,
        after: Key | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[Record]: ...


class Place(Struct, frozen=True):
    """How far a reader is in a chain."""

    chain: str
    number: int


class AuditReader:
    """Lines that cannot be read are left out: `verify` finds them."""

    def __init__(self, records: Records) -> None:
        self.records = records

    async def heads(self) -> list[Head]:
        """The chains in the order in which they were begun."""
        found: list[Head] = []
        async for record in self.pages(HEAD, "", limit=_HEADS):
            try:
                found.append(head_of(record))
            except Damaged:
                continue
        return sorted(found, key=lambda head: (head.started_ms, head.chain))

    async def pages(
        self, kind: str, scope: str, *, limit: int = PAGE, after: str = ""
    ) -> AsyncIterator[Record]:
        """All records of a scope, a page at a time."""
        key = Key(kind, scope, after) if after else None
        while True:
            page = await self.records.records(kind, scope=scope, after=key, limit=limit)
            for record in page:
                yield record
            if len(page) < limit:
                return
            key = page[-1].key

    async def stored(self, *, since_ms: int = 0) -> AsyncIterator[tuple[str, Line, bytes]]:
        """All rows from a time on, chain by chain: the chain, the row, and its line as stored."""
        for head in await self.heads():
            if head.is_open or head.closed_ms >= since_ms:
                async for record in self.pages(SEGMENT, head.chain):
                    for line, stored in lines_of(record):
                        if line.at_ms >= since_ms:
                            yield head.chain, line, stored

    async def rows_of(self, chain: str, *, after: int) -> AsyncIterator[Line]:
        """The rows of a chain behind a number."""
        # The segment that has the row may begin before it.
        first = await self._segment_before(chain, after + 1)
        async for record in self.pages(SEGMENT, chain, after=first):
            for line, _ in lines_of(record):
                if line.n > after:
                    yield line

    async def _segment_before(self, chain: str, number: int) -> str:
        """The id behind which the segment of a row is found."""
        key = Key(SEGMENT, chain, segment_id(number + 1))
        page = await self.records.records(
            SEGMENT, scope=chain, after=key, newest_first=True, limit=2
        )
        return page[1].key.id if len(page) > 1 else ""

    async def last(self, count: int) -> list[tuple[Head, Line]]:
        """The last rows of all chains, in the order of their times."""
        found: list[tuple[Head, Line]] = []
        heads = await self.heads()
        closed = [head for head in heads if not head.is_open][-_RECENT_CHAINS:]
        for head in [*closed, *(head for head in heads if head.is_open)]:
            found += [(head, line) for line in await self._last_of(head, count)]
        found.sort(key=lambda pair: pair[1].at_ms)
        return found[-count:] if count else []

    async def _last_of(self, head: Head, count: int) -> list[Line]:
        found: list[Line] = []
        after: Key | None = None
        while len(found) < count:
            page = await self.records.records(
                SEGMENT, scope=head.chain, after=after, newest_first=True, limit=PAGE
            )
            for record in page:
                found = [line for line, _ in lines_of(record)] + found
                if len(found) >= count:
                    break
            if len(page) < PAGE:
                break
            after = page[-1].key
        return found[-count:] if count else []


def lines_of(record: Record) -> list[tuple[Line, bytes]]:
    """The rows of a segment that can be read, and their lines as stored."""
    found: list[tuple[Line, bytes]] = []
    for line in record.body.split(b"\n"):
        try:
            found.append((read_line(line), line))
        except BrokenLine:
            continue
    return found
