"""Bytes inside JSON that come back as they went in."""

import base64

import msgspec
from msgspec import Raw

_skip = msgspec.json.Decoder(Raw).decode
_MARK = b'"base64:'


def to_json(data: bytes) -> Raw:
    """The bytes themselves where they are JSON on one line, else as a marked text."""
    if b"\n" not in data and not data.startswith(_MARK) and _is_json(data):
        return Raw(data)
    return Raw(_MARK + base64.b64encode(data) + b'"')


def from_json(raw: Raw) -> bytes:
    data = bytes(raw)
    return base64.b64decode(data[len(_MARK) : -1]) if data.startswith(_MARK) else data


def _is_json(data: bytes) -> bool:
    try:
        # Space around a value is not part of it, and would be lost.
        return bytes(_skip(data)) == data
    except msgspec.DecodeError:
        return False
