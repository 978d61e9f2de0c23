"""Limits of one request, checked before the expensive work."""

import re
from collections.abc import Iterator, Mapping, Sized
from itertools import islice
from typing import Final
from urllib.parse import parse_qsl

from trunkline.model.errors import InvalidParams, InvalidRequest, ParseFailed
from trunkline.model.values import Message
from trunkline.protocol import v03_types as v03

# Every value costs about 100 ns to decode, and more to check, store and write again. These
# are for all lists and objects of a request together, so they also bound what `metadata`
# and `data` hold. A table of 25,000 rows with 4 columns fits.
MAX_VALUES: Final = 100_000
MAX_CONTAINERS: Final = 25_000
# The gateway reads these lists of a message item by item.
MAX_PARTS: Final = 1_000
MAX_REFERENCES: Final = 1_000
# Agents declare, and clients accept, a handful of these.
MAX_OUTPUT_MODES: Final = 100
MAX_EXTENSIONS: Final = 100
# The query of a list has eight names.
MAX_QUERY_FIELDS: Final = 100

# A string, or the rest of one: brackets and commas inside do not count. Possessive quantifiers keep
# the scans linear. Each pattern matches at every position, in the last resort up to the end of the
# body, so the scan looks at no byte twice.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_TO_COMMA = re.compile(rb'(?:[^",]++|' + _STRING + rb")*+(?:,|\Z)", re.DOTALL)
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+(?:[\[\]{}]|\Z)", re.DOTALL)
# The name of a member, right before its value.
_NAME = re.compile(rb'"([A-Za-z0-9_-]{1,64})"[ \t\r\n]*:[ \t\r\n]*\Z')
# A value has two strings at most, its name and itself.
_MAX_QUOTES = 4 * MAX_VALUES
# The number of values to look at, to find the field with too many.
_SAMPLE = MAX_VALUES // 10


def check_json(body: bytes, *, max_depth: int) -> None:
    """Refuse a body that no parser should see: broken UTF-8 (ParseFailed), nesting beyond
    `max_depth` (InvalidRequest), and too many values (InvalidParams)."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise ParseFailed(f"the body is not valid UTF-8 (byte {error.start})") from None
    # A body has no more values than commas and is no deeper than its brackets, so most bodies need
    # no scan.
    openings = body.count(b"{") + body.count(b"[")
    if openings > max_depth or (len(body) > MAX_VALUES and body.count(b",") > MAX_VALUES):
        _check_structure(body, max_depth)


def _check_structure(body: bytes, max_depth: int) -> None:
    """Takes time in proportion to the limits, not to the size of the body."""
    if body.count(b'"') - body.count(rb"\"") > _MAX_QUOTES:
        raise _too_many(body, MAX_VALUES, "values", max_depth)
    # A long text may hold many commas and brackets; without strings there is little left.
    structure = _without_strings(body)
    if structure.count(b",") > MAX_VALUES:
        raise _too_many(body, MAX_VALUES, "values", max_depth)
    if _depth_exceeds(structure, max_depth):
        raise _too_deep(max_depth)
    if structure.count(b"{") + structure.count(b"[") > MAX_CONTAINERS:
        raise _too_many(body, MAX_CONTAINERS, "lists and objects", max_depth)


def _without_strings(body: bytes) -> bytes:
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    return b"".join(plain.split(b'"')[::2])


def _too_deep(max_depth: int) -> InvalidRequest:
    return InvalidRequest(f"the JSON is nested deeper than {max_depth} levels")


def _too_many(body: bytes, limit: int, what: str, max_depth: int) -> InvalidParams | InvalidRequest:
    # The regular expression skips the values without Python code for each.
    last = next(islice(_TO_COMMA.finditer(body), _SAMPLE, None), None)
    sample = body if last is None else body[: last.end()]
    if _depth_exceeds(sample, max_depth):
        return _too_deep(max_depth)
    return InvalidParams.at(
        _field_of(sample),
        f"makes the request hold more than {limit:,} {what}; send fewer, or send them as a file",
    )


def _depth_exceeds(body: bytes, max_depth: int) -> bool:
    depth = 0
    for _, opens in _brackets(body):
        depth += 1 if opens else -1
        if depth > max_depth:
            return True
    return False


def _brackets(body: bytes) -> Iterator[tuple[int, bool]]:
    """The position of each bracket, and whether it opens, up to the number that a body may have."""
    for found in islice(_TO_BRACKET.finditer(body), 2 * MAX_CONTAINERS):
        at = found.end() - 1
        if at >= found.start() and body[at] in b"{[]}":
            yield at, body[at] in b"{["


def _field_of(body: bytes) -> str:
    """The member that holds most of the values at the beginning of the body."""
    # `open_at` has the start of each open list or object, `held` the number of values in it so far.
    open_at: list[int] = []
    held = [0]
    for at, opens in _brackets(body):
        if opens:
            held[-1] += 1
            open_at.append(at)
            held.append(0)
        elif open_at:
            open_at.pop()
            held.pop()
    most = max(range(len(held)), key=held.__getitem__)
    # Few lists and objects: the values are in the one that is still open.
    inmost = most if held[most] > _SAMPLE // 8 else len(open_at)
    for at in reversed(open_at[:inmost]):
        name = _NAME.search(body, max(0, at - 128), at)
        if name is not None:
            return name[1].decode()
    return "request"


# Their names in both versions and both spellings.
_MESSAGE_LISTS: Final = (
    ("parts", MAX_PARTS),
    ("content", MAX_PARTS),
    ("extensions", MAX_EXTENSIONS),
    ("referenceTaskIds", MAX_REFERENCES),
    ("reference_task_ids", MAX_REFERENCES),
)
_SEND_LISTS: Final = (
    *[("message", name, limit) for name, limit in _MESSAGE_LISTS],
    # The message of 0.3 over REST, as some clients call it.
    *[("request", name, limit) for name, limit in _MESSAGE_LISTS],
    ("configuration", "acceptedOutputModes", MAX_OUTPUT_MODES),
    ("configuration", "accepted_output_modes", MAX_OUTPUT_MODES),
)


def check_send_tree(tree: object) -> None:
    """Refuse parameters whose lists are too long, whatever else may be wrong with them."""
    if not isinstance(tree, Mapping):
        return
    for member, name, limit in _SEND_LISTS:
        holder = tree.get(member)
        items = holder.get(name) if isinstance(holder, Mapping) else None
        if isinstance(items, list):
            check_list(items, f"{member}.{name}", limit)


def check_message(message: Message | v03.Message | v03.LooseMessage) -> None:
    """The same for a message that was decoded."""
    check_list(message.parts, "message.parts", MAX_PARTS)
    check_list(message.extensions, "message.extensions", MAX_EXTENSIONS)
    check_list(message.reference_task_ids, "message.referenceTaskIds", MAX_REFERENCES)


def check_modes(modes: Sized) -> None:
    check_list(modes, "configuration.acceptedOutputModes", MAX_OUTPUT_MODES)


def check_list(items: Sized, field: str, limit: int) -> None:
    if len(items) > limit:
        raise InvalidParams.at(
            field, f"holds {len(items):,} items, and at most {limit:,} are taken; send fewer"
        )


def query_fields(query: bytes | str, *, errors: str = "replace") -> list[tuple[str, str]]:
    """Names and values of a query."""
    text = query.decode("latin-1") if isinstance(query, bytes) else query
    if text.count("&") >= MAX_QUERY_FIELDS:
        raise InvalidParams.at("query", f"has more than {MAX_QUERY_FIELDS} fields; send fewer")
    return parse_qsl(text, keep_blank_values=True, errors=errors)
