"""`Head`: the state of one chain of audit rows, and the records in which chains are kept.

Each start of a node begins a chain and is its only writer. The rows are in *segments*, records of
many lines whose id is the number of the first one. The head says where the chain begins and ends,
and names the chain before it; the *tip* names the chain that was begun last. So a chain that is
missing is found as well.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.hub.audit_rows import genesis, link
from trunkline.ports.records import Key, Put, Record

# All chains, by their id.
HEAD: Final = "audit-chain.1"
# The rows; the scope is the chain.
SEGMENT: Final = "audit.1"
# Rows that were committed with a task or a change and are not in a chain yet; the scope is the
# chain of the node that admitted them.
OUTBOX: Final = "audit-attempt.1"
# A chain that another node closed: its open attempts have no outcome yet. The id is the chain.
GONE: Final = "audit-gone.1"
TIP: Final = Key("audit-tip.1", "", "")

MAX_SEGMENT_ROWS: Final = 256
MAX_SEGMENT_BYTES: Final = 256 * 1024


class Head(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    chain: str
    # The chain that was begun before this one; empty for the first.
    before: str = ""
    started_ms: int
    # The last row and its hash; number 0 for a chain without rows.
    last: int = 0
    hash: str
    # The first row that retention has left, and the hash before it.
    first: int = 1
    hash_before_first: str
    # When its node stopped, or another one found that it is gone; 0 while it writes.
    closed_ms: int = 0
    # Whether another node closed it: outcomes that its node had in memory are not written.
    is_abandoned: bool = False

    @property
    def is_open(self) -> bool:
        return not self.closed_ms


class Damaged(Exception):
    """A head, or the record of the newest chain, is not what was written."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Head).decode
_decode_tip = msgspec.json.Decoder(str).decode


def begun(chain: str, *, before: str, now_ms: int) -> Head:
    """The head of a chain without rows."""
    first = genesis(chain, before, now_ms)
    return Head(chain=chain, before=before, started_ms=now_ms, hash=first, hash_before_first=first)


def closed_at(head: Head, now_ms: int) -> Head:
    return msgspec.structs.replace(head, closed_ms=max(now_ms, 1))


def closing(head: Head, *, expected: int, now_ms: int) -> tuple[Put, Put]:
    """The changes that close the chain of a node that is gone."""
    closed = msgspec.structs.replace(closed_at(head, now_ms), is_abandoned=True)
    return put_head(closed, expected=expected), Put(key=Key(GONE, "", head.chain))


def head_key(chain: str) -> Key:
    return Key(HEAD, "", chain)


def put_head(head: Head, *, expected: int) -> Put:
    return Put(key=head_key(head.chain), body=_sealed(head), expected=expected)


def put_tip(chain: str, *, expected: int) -> Put:
    return Put(key=TIP, body=_sealed(chain), expected=expected)


def head_of(record: Record) -> Head:
    """Raises Damaged."""
    return _decode(_unsealed(record.body))


def tip_of(record: Record | None) -> str:
    """The chain that was begun last; empty before the first one. Raises Damaged."""
    return "" if record is None else _decode_tip(_unsealed(record.body))


def _sealed(value: Head | str) -> bytes:
    """JSON with its hash, because the rows tell nothing of some members."""
    content = _encode(value)
    return b"%b\n%b" % (content, sha256(content).hexdigest().encode())


def _unsealed(body: bytes) -> bytes:
    content, _, seal = body.rpartition(b"\n")
    if seal != sha256(content).hexdigest().encode():
        raise Damaged
    return content


def segment_id(first: int) -> str:
    return f"{first:016d}"


def extended(head: Head, bodies: Sequence[bytes]) -> tuple[Head, list[Put]]:
    """The head after these encoded rows, and the segments that hold them."""
    segments: list[Put] = []
    lines: list[bytes] = []
    number, digest, size, first = head.last, head.hash, 0, head.last + 1
    for body in bodies:
        number += 1
        line, digest = link(body, number=number, before=digest)
        lines.append(line)
        size += len(line)
        if len(lines) == MAX_SEGMENT_ROWS or size > MAX_SEGMENT_BYTES:
            segments.append(_segment(head.chain, first, lines))
            lines, size, first = [], 0, number + 1
    if lines:
        segments.append(_segment(head.chain, first, lines))
    return msgspec.structs.replace(head, last=number, hash=digest), segments


def _segment(chain: str, first: int, lines: Sequence[bytes]) -> Put:
    return Put(key=Key(SEGMENT, chain, segment_id(first)), body=b"\n".join(lines), expected=0)
