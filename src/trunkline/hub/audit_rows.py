"""`Row`: one line of the audit, and how lines are chained and checked.

A line is a JSON object: first the number of the row, then its fields, last its hash. The hash is
SHA-256 of the hash before and of the line up to the hash, so a line that was changed, removed or
moved no longer fits. Lines of an export can be checked in the same way.
"""

import hashlib
import re
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

RowKind: TypeAlias = Literal["attempt", "outcome", "refusal", "change", "lost"]

# An attempt whose outcome is not known, because its node ended first.
INTERRUPTED: Final = "interrupted"
OK: Final = "ok"


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Number and hash are added when the row is chained."""

    kind: RowKind
    at_ms: int
    # Joins an attempt with its outcome.
    id: str = ""
    # The id of the principal; empty for a caller without a credential.
    who: str = ""
    # The public id of the credential.
    token: str = ""
    # The principals that `who` acts for, the first caller first.
    chain: tuple[str, ...] = ()
    # The handle of the agent that asked, for a call of one agent of the gateway to another.
    asked_by: str = ""
    tenant: str = ""
    # The address of a caller without a credential, as far as the gateway knows it.
    source: str = ""
    agent: str = ""
    operation: str = ""
    binding: str = ""
    task_id: str = ""
    context_id: str = ""
    is_follow_up: bool = False
    # Of an outcome: ok, failed, canceled, interrupted or unstarted.
    outcome: str = ""
    # Of a refusal: the reason for programs.
    reason: str = ""
    # How long the turn ran, and the time from the message to its end; absent for a turn that did
    # not start.
    ran_ms: int | None = None
    took_ms: int | None = None
    bytes_in: int = 0
    question: str = ""
    # How many refusals or lost rows this row stands for.
    count: int = 1
    # Of a change: what was done, to what, and the details.
    action: str = ""
    subject: str = ""
    detail: str = ""
    # The chain of the node that died before it wrote the row.
    recovered_from: str = ""


class Line(Row, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A row as it is stored."""

    n: int
    hash: str


class BrokenLine(Exception):
    """A stored line is not what was written. The text says how that shows."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode
_sha256 = hashlib.sha256

# Hexadecimal digits of a hash.
_HASH_CHARS = 64
# What stands between the fields and the hash, and behind the hash.
_BEFORE_HASH, _END = b',"hash":"', b'"}'
_TAIL = len(_BEFORE_HASH) + _HASH_CHARS + len(_END)
_NUMBER = re.compile(rb'\{"n":(0|[1-9][0-9]{0,15}),')


def encode_row(row: Row) -> bytes:
    """The row without number and hash, as the outbox keeps it."""
    return _encode(row)


def recovered(body: bytes, chain: str) -> bytes:
    """The encoded row of a node that died, with the chain of that node."""
    return body[:-1] + b',"recoveredFrom":' + _encode(chain) + b"}"


def link(body: bytes, *, number: int, before: str) -> tuple[bytes, str]:
    """The line of an encoded row, and its hash."""
    content = b'{"n":%d,%b' % (number, body[1:-1])
    digest = _sha256(before.encode() + content).hexdigest()
    return b"%b%b%b%b" % (content, _BEFORE_HASH, digest.encode(), _END), digest


def check_line(line: bytes, *, number: int, before: str) -> str:
    """The hash of a line that is as it was written. Raises BrokenLine."""
    found = _NUMBER.match(line)
    if found is None:
        raise BrokenLine("the line does not begin with a number")
    if int(found[1]) != number:
        raise BrokenLine(f"the number of the row is {int(found[1])}")
    content, tail = line[:-_TAIL], line[-_TAIL:]
    digest = _sha256(before.encode() + content).hexdigest()
    if tail != b"%b%b%b" % (_BEFORE_HASH, digest.encode(), _END):
        raise BrokenLine("the hash does not fit the row and the hash before it")
    return digest


def read_line(line: bytes) -> Line:
    """Raises BrokenLine."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenLine(f"the line cannot be read: {error}") from None


def genesis(chain: str, before: str, started_ms: int) -> str:
    """The hash before the first row of a chain. It binds the chain to the one before it."""
    return _sha256(_encode(("trunkline audit", chain, before, started_ms))).hexdigest()
