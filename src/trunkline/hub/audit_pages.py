"""`AuditPages`: the rows of all chains as pages, the newest first.

Each chain is read backwards, and the chain whose next row is the latest gives the next one. A page
token says how far each chain was read, so rows that come later move nothing. One request reads a
bounded number of rows: where a filter fits few of them, a page is short and has a token to go on.
"""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.hub.audit_chain import SEGMENT, Head, segment_id
from trunkline.hub.audit_reading import AuditReader, Records, lines_of
from trunkline.hub.audit_rows import Line
from trunkline.model.errors import InvalidParams
from trunkline.ports.records import Key

# Rows that one request reads at most, whether they fit or not.
MAX_READ: Final = 5000
# A token has some fifty bytes for each chain that is being read, and so for each node.
MAX_TOKEN_CHARS: Final = 4000
TOKEN: Final = "^[A-Za-z0-9_-]*$"
_SEGMENTS: Final = 2
_NEVER: Final = 1 << 62


class _Place(Struct, frozen=True, array_like=True):
    """Where the next page begins."""

    # The last chain that was begun to be read, in the order of `_order`.
    last: tuple[int, str]
    # The next row of each chain that has rows left, among those that were begun to be read.
    next: dict[str, int]


class AuditSlice(Struct, frozen=True, kw_only=True):
    rows: list[tuple[str, Line]]
    # Empty where there are no older rows.
    token: str
    # The time of the oldest row that was read; None where none was.
    read_to_ms: int | None


class AuditPages:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._reader = AuditReader(records)

    async def page(
        self, fits: Callable[[Line], bool], *, limit: int, token: str = "", since_ms: int = 0
    ) -> AuditSlice:
        """Raises InvalidParams for a token that is none, and StoreError."""
        place = _place_of(token)
        heads = sorted(await self._reader.heads(), key=_order, reverse=True)
        merge = _Merge(self._records, heads, place)
        found: list[tuple[str, Line]] = []
        read_to_ms: int | None = None
        for _ in range(MAX_READ):
            if len(found) == limit:
                break
            row = await merge.next(since_ms)
            if row is None:
                return AuditSlice(rows=found, token="", read_to_ms=read_to_ms)
            at_ms = row[1].at_ms
            read_to_ms = at_ms if read_to_ms is None else min(at_ms, read_to_ms)
            if at_ms >= since_ms and fits(row[1]):
                found.append(row)
        return AuditSlice(rows=found, token=await merge.token(), read_to_ms=read_to_ms)


class _Merge:
    """Rows of several chains in the order of their times, the newest first."""

    def __init__(self, records: Records, heads: Sequence[Head], place: _Place | None) -> None:
        self._records = records
        self._last = (_NEVER, "") if place is None else place.last
        self._cursors: list[_Cursor] = []
        self._later: list[Head] = []
        for head in heads:
            if place is not None and head.chain in place.next:
                self._cursors.append(_Cursor(records, head, place.next[head.chain]))
            elif place is None or _order(head) < place.last:
                self._later.append(head)
        self._later.reverse()

    async def next(self, since_ms: int) -> tuple[str, Line] | None:
        """None where no row from that time on is left."""
        while True:
            best: _Cursor | None = None
            best_ms = -1
            for cursor in [*self._cursors]:
                latest_ms = await cursor.latest_ms()
                if latest_ms is None:
                    self._cursors.remove(cursor)
                elif latest_ms > best_ms:
                    best, best_ms = cursor, latest_ms
            # A chain has no row that is later than its end.
            if self._later and _order(self._later[-1])[0] >= best_ms:
                head = self._later.pop()
                self._last = _order(head)
                self._cursors.append(_Cursor(self._records, head, head.last))
                continue
            if best is None or best_ms < since_ms:
                return None
            return best.head.chain, best.take()

    async def token(self) -> str:
        """Empty where nothing is left."""
        left = {
            each.head.chain: each.at for each in self._cursors if await each.latest_ms() is not None
        }
        if not left and not self._later:
            return ""
        body = msgspec.json.encode(_Place(self._last, left))
        return urlsafe_b64encode(body).decode().rstrip("=")


class _Cursor:
    """Reads a chain backwards."""

    def __init__(self, records: Records, head: Head, at: int) -> None:
        self.head = head
        self.at = at
        self._records = records
        # Each row with the latest time of it and of those before it. A node writes rows of another
        # one that has ended behind its own, which are later.
        self._rows: list[tuple[int, Line]] = []

    async def latest_ms(self) -> int | None:
        """The latest time among the next rows; None at the end of the chain."""
        if not self._rows and self.at >= self.head.first:
            await self._read()
        return self._rows[-1][0] if self._rows else None

    async def _read(self) -> None:
        # Segments are named by their first rows, so the one that has the row comes first.
        before = Key(SEGMENT, self.head.chain, segment_id(self.at + 1))
        page = await self._records.records(
            SEGMENT, scope=self.head.chain, after=before, newest_first=True, limit=_SEGMENTS
        )
        latest_ms = 0
        for record in reversed(page):
            for line, _ in lines_of(record):
                if line.n <= self.at:
                    latest_ms = max(latest_ms, line.at_ms)
                    self._rows.append((latest_ms, line))
        # Without rows, retention has deleted them, or nothing in them can be read.
        self.at = self._rows[-1][1].n if self._rows else 0

    def take(self) -> Line:
        _, line = self._rows.pop()
        self.at = line.n - 1
        return line


def _order(head: Head) -> tuple[int, str]:
    """The time of the last row that a chain may have, and its id."""
    return head.closed_ms or _NEVER, head.chain


def _place_of(token: str) -> _Place | None:
    if not token:
        return None
    try:
        body = b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
        return msgspec.json.decode(body, type=_Place)
    except (NotBase64, ValueError, msgspec.DecodeError):
        raise InvalidParams.at("pageToken", "is not from an answer of this address") from None
