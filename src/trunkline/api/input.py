"""`read_query`, `read_json` and `read_form`: what a client sent, checked against the types of a
route.

Everything that a type does not say is refused here, with the name of the field: names that are
given twice, of which a proxy in front may have read the other one; numbers that no store takes; and
NUL characters.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.requests import Request

from trunkline.model.errors import (
    InvalidParams,
    InvalidRequest,
    ParseFailed,
    PayloadTooLarge,
    WrongMediaType,
)
from trunkline.protocol.limits import MAX_QUERY_FIELDS, check_json, query_fields

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MAX_BODY_BYTES: Final = 256 * 1024
# The addresses that take forms need no credential, and the largest form that means something has
# a token and a password.
MAX_FORM_BYTES: Final = 16 * 1024
_MAX_DEPTH: Final = 32
# Each value takes Python some microseconds below, in which no other request is served. The largest
# body that means something has a few hundred.
_MAX_VALUES: Final = 10_000
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# A text of the client may be in an error. The answer must not grow with the request.
_SHOWN: Final = 200
INTEGERS: Final = range(-(2**63), 2**63)
_DIGITS: Final = len(str(INTEGERS.start))


class _TooLarge:
    """Stands for an integer beyond 64 bits."""


_TOO_LARGE: Final = _TooLarge()


def read_query(query: bytes, kind: type[Struct]) -> Any:
    """The fields of a query as a struct. Raises InvalidParams.

    Unknown fields are ignored, unless the struct forbids them.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    is_strict = kind.__struct_config__.forbid_unknown_fields
    given: dict[str, str] = {}
    try:
        pairs = query_fields(query, errors="strict")
    except UnicodeDecodeError:
        raise InvalidParams.at("query", "is not valid UTF-8") from None
    for name, value in pairs:
        if name not in fields:
            if is_strict:
                known = ", ".join(fields)
                raise _at(name, f"is unknown here; this address takes {known}")
            continue
        if name in given:
            raise _at(name, "is given more than once")
        _check_value(name, value)
        given[name] = value
    try:
        found = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise violation(error) from None
    for name, field in fields.items():
        value = getattr(found, field.name)
        if value is None and name in given:
            # msgspec takes the text `null` for none at all.
            raise _at(name, "must be left out, or have a value")
        if isinstance(value, float) and not math.isfinite(value):
            raise _at(name, "must be a finite number")
        if isinstance(value, int) and value not in INTEGERS:
            raise _at(name, "must be an integer of at most 64 bits")
    return found


async def read_json(
    request: Request,
    kind: Any,
    *,
    max_bytes: int = MAX_BODY_BYTES,
    decoder: Callable[[bytes], Any] | None = None,
) -> Any:
    """The body as a value of the type. `decoder` reads it in place of `decode`.
    Raises InvalidParams, ParseFailed, InvalidRequest, PayloadTooLarge or WrongMediaType."""
    media_type = request.headers.get("content-type")
    if media_type is not None and media_type.partition(";")[0].strip().lower() != JSON:
        raise WrongMediaType(f"Content-Type must be {JSON}")
    data = await read_body(request, max_bytes=max_bytes)
    if media_type is None:
        # A POST without a body, as `curl -X POST` sends it, has no type either.
        if data:
            raise WrongMediaType(f"Content-Type must be {JSON}")
        data = b"{}"
    return decode(data, kind) if decoder is None else decoder(data)


def decode(data: bytes, kind: Any) -> Any:
    """A value of the type. Raises InvalidParams, ParseFailed or InvalidRequest."""
    check_json(data, max_depth=_MAX_DEPTH)
    if data.count(b",") > _MAX_VALUES and _STRING.sub(b"", data).count(b",") > _MAX_VALUES:
        raise _at("body", f"holds more than {_MAX_VALUES:,} values; send fewer")
    try:
        # Python's own parser is the one that shows the members as they came.
        json.loads(data, object_pairs_hook=_checked, parse_int=_integer, parse_constant=_constant)
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise violation(error) from None
    except (msgspec.DecodeError, ValueError):
        raise ParseFailed("The body is not JSON") from None


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises InvalidParams, InvalidRequest, PayloadTooLarge or
    WrongMediaType."""
    media_type = request.headers.get("content-type", "")
    if media_type.partition(";")[0].strip().lower() != FORM:
        raise WrongMediaType(f"Content-Type must be {FORM}")
    data = await read_body(request, max_bytes=MAX_FORM_BYTES)
    if data.count(b"&") >= MAX_QUERY_FIELDS:
        raise InvalidParams.at("form", f"has more than {MAX_QUERY_FIELDS} fields; send fewer")
    try:
        pairs = query_fields(data, errors="strict")
    except UnicodeDecodeError:
        raise InvalidRequest("The form is not valid UTF-8") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise _at(name, "is given more than once")
        fields[name] = value
    return fields


async def read_body(request: Request, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The body of a request. Raises PayloadTooLarge, before a client that waits for
    `100 Continue` sends a body that is too large."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > max_bytes:
        raise _too_large(max_bytes)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            raise _too_large(max_bytes)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The request body is larger than {max_bytes} bytes; send only the fields of this address"
    )


def _checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _at(name, "is given more than once")
        _check_value("body", name)
        _check_value(name, value)
        members[name] = value
    return members


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise _at(name, "holds a NUL character; leave it out")
    elif isinstance(value, list):
        for each in value:
            _check_value(name, each)
    elif value is _TOO_LARGE:
        raise _at(name, "must be an integer of at most 64 bits")


def _integer(text: str) -> int | _TooLarge:
    # Python takes a time that grows with the square of the length, and refuses 5,000 digits.
    if len(text) > _DIGITS:
        return _TOO_LARGE
    number = int(text)
    return number if number in INTEGERS else _TOO_LARGE


def _constant(text: str) -> None:
    raise ParseFailed(f"The body is not JSON: {text} is not a JSON number")


_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def violation(error: msgspec.ValidationError) -> InvalidParams:
    """The error names the field as the client wrote it."""
    what, _, where = str(error).partition(" - at `$")
    place = where.rstrip("`").lstrip(".")
    if missing := _MISSING.fullmatch(what):
        return _at(_joined(place, missing[1]), "is required")
    if unknown := _UNKNOWN.fullmatch(what):
        return _at(_joined(place, unknown[1]), "is unknown here; leave it out")
    return _at(place or "body", what[:1].lower() + what[1:])


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _at(name: str, what: str) -> InvalidParams:
    return InvalidParams.at(name[:_SHOWN] or '""', what[:_SHOWN])
