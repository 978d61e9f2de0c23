"""States and journal entries as the database holds them.

Entries of a task that are committed together share a row: a row costs far more than its bytes,
and most tasks live for a commit or two. A row lies at the place of its last entry, so the last
row gives the last sequence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from trunkline.model.events import Entry
from trunkline.model.values import TaskState

# These numbers are in files that outlive the code.
CODES: dict[TaskState, int] = {
    TaskState.UNSPECIFIED: 0,
    TaskState.SUBMITTED: 1,
    TaskState.WORKING: 2,
    TaskState.INPUT_REQUIRED: 3,
    TaskState.AUTH_REQUIRED: 4,
    TaskState.COMPLETED: 5,
    TaskState.FAILED: 6,
    TaskState.CANCELED: 7,
    TaskState.REJECTED: 8,
}
STATES: tuple[TaskState, ...] = tuple(CODES)
# An interval, so that the counters of all of them lie side by side.
FIRST_TERMINAL = CODES[TaskState.COMPLETED]

# A place in the journal is `task << SEQ_BITS | seq`.
SEQ_BITS = 24
MAX_SEQ = (1 << SEQ_BITS) - 1

# The sqlite3 module looks for an adapter of every `bytes` it binds, in vain, and makes
# an error text each time: 0.4 µs more than copying them into a `bytearray`.
Blob = bytearray

# In place of a kind: the body is a MessagePack array of pairs, kind and body.
PACKED = ""
# Bounds of a row, which a reader decodes as a whole to get one entry.
MAX_ENTRIES = 64
MAX_BYTES = 65536

_encode_into = msgspec.msgpack.Encoder().encode_into
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


def add_rows(
    rows: list[Any], start: int, entries: Sequence[Entry], committed_ms: int | None
) -> None:
    """Add place, kind, body and time of each row. `start` is the place of sequence 0."""
    if len(entries) > MAX_ENTRIES:
        for first in range(0, len(entries), MAX_ENTRIES):
            add_rows(rows, start, entries[first : first + MAX_ENTRIES], committed_ms)
        return
    if len(entries) > 1:
        packed = Blob()
        # A loop, because a comprehension costs a call in Python 3.11.
        pairs: list[tuple[str, bytes]] = []
        for entry in entries:
            pairs.append((entry.kind, entry.body))
        _encode_into(pairs, packed)
        if len(packed) <= MAX_BYTES:
            rows += (start | entries[-1].seq, PACKED, packed, committed_ms)
            return
    for entry in entries:
        rows += (start | entry.seq, entry.kind, Blob(entry.body), committed_ms)


def by_time(entries: Sequence[Entry]) -> Iterator[tuple[int | None, list[Entry]]]:
    """The entries in runs of the same time: a row has one time."""
    for committed_ms, run in groupby(entries, key=attrgetter("committed_ms")):
        yield committed_ms, [*run]


def entries_after(
    rows: Iterable[tuple[int, str, bytes, int | None]],
    after: int,
    limit: int,
    whole: Callable[[bytes], bytes] | None = None,
) -> tuple[Entry, ...]:
    """Up to `limit` entries (all, if it is negative) of these rows, above a sequence.

    `whole` gives the body of an entry that has a number in its place.
    """
    found: list[Entry] = []
    for place, kind, body, committed_ms in rows:
        last = place & MAX_SEQ
        if kind == PACKED:
            pairs = _decode(body)
            found += [
                Entry(seq, *pair, None, committed_ms)
                for seq, pair in enumerate(pairs, last - len(pairs) + 1)
                if seq > after
            ]
        else:
            if whole is not None and type(body) is not bytes:
                body = whole(body)
            found.append(Entry(last, kind, body, None, committed_ms))
        if 0 <= limit <= len(found):
            return tuple(found[:limit])
    return tuple(found)
