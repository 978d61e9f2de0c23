"""Journal entries and snapshots as the rows of the database hold them.

As in the SQLite store, entries of a task that are committed together share the row of the last
one. A body that is larger than a slice lies in slices, and its row has a *mark* with the number of
the value in its place.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.stores.sqlite.rows import MAX_BYTES, MAX_ENTRIES, PACKED

# Sequence of the last entry, kind and body.
EventRow: TypeAlias = tuple[int, str, bytes]
# The same with the time of the commit.
TimedRow: TypeAlias = tuple[int, str, bytes, int | None]

# The first byte of a mark, which the number of a large value follows.
_MARK = b"\0"
# Goes before a body that begins with one of these two bytes, as no JSON does.
_ESCAPE = b"\1"
_FIRST_PLAIN = b"\2"
_NUMBER = struct.Struct(">q")
_NO_VALUES: Mapping[int, bytes] = {}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


def mark(number: int) -> bytes:
    """What stands in a row in place of a body that lies in slices."""
    return _MARK + _NUMBER.pack(number)


def number_in(body: bytes) -> int | None:
    """The number of the large value whose mark this is; None for any other body."""
    return _unpack(body) if body[:1] == _MARK else None


def _unpack(marked: bytes) -> int:
    number: int = _NUMBER.unpack_from(marked, 1)[0]
    return number


def stored(body: bytes) -> bytes:
    """A body that is not larger than a slice, as its row holds it."""
    return _ESCAPE + body if body < _FIRST_PLAIN and body else body


def plain(body: bytes, values: Mapping[int, bytes] = _NO_VALUES) -> bytes:
    """The body that a row stands for. `values` has those that lie in slices."""
    if body >= _FIRST_PLAIN or not body:
        return body
    return body[1:] if body[:1] == _ESCAPE else values[_unpack(body)]


def event_rows(entries: Sequence[Entry], values: Mapping[int, int]) -> list[EventRow]:
    """The rows of entries that are committed together. `values` has the numbers of their bodies
    that lie in slices, by the identity of the body."""
    if len(entries) > MAX_ENTRIES:
        rows: list[EventRow] = []
        for first in range(0, len(entries), MAX_ENTRIES):
            rows += event_rows(entries[first : first + MAX_ENTRIES], values)
        return rows
    if len(entries) > 1 and sum([len(entry.body) for entry in entries]) <= MAX_BYTES:
        packed = _encode([(entry.kind, entry.body) for entry in entries])
        return [(entries[-1].seq, PACKED, packed)]
    return [(entry.seq, entry.kind, stored_or_mark(entry.body, values)) for entry in entries]


def stored_or_mark(body: bytes, values: Mapping[int, int]) -> bytes:
    return stored(body) if len(body) <= SLICE_BYTES else mark(values[id(body)])


def numbers_in(rows: Iterable[EventRow | TimedRow]) -> list[int]:
    """The large values that `entries_after` needs for these rows."""
    return [
        number
        for _, kind, body, *_ in rows
        if kind != PACKED and (number := number_in(body)) is not None
    ]


def entries_after(
    rows: Iterable[TimedRow],
    after: int,
    limit: int,
    values: Mapping[int, bytes] = _NO_VALUES,
) -> tuple[Entry, ...]:
    """Up to `limit` entries (all, if it is negative) of these rows, above a sequence. `values` has
    the bodies that lie in slices."""
    found: list[Entry] = []
    for last, kind, body, committed_ms in rows:
        if kind == PACKED:
            pairs = _decode(body)
            found += [
                Entry(seq, *pair, None, committed_ms)
                for seq, pair in enumerate(pairs, last - len(pairs) + 1)
                if seq > after
            ]
        else:
            found.append(Entry(last, kind, plain(body, values), None, committed_ms))
        if 0 <= limit <= len(found):
            return tuple(found[:limit])
    return tuple(found)
