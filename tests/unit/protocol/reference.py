"""The ProtoJSON of google.protobuf, which ships without types."""

import importlib
from typing import Any, TypeVar

T = TypeVar("T")

_json_format: Any = importlib.import_module("google.protobuf.json_format")


def read(raw: bytes, into: T, **options: bool) -> T:
    """Parses `raw` into the message `into`; unknown fields are refused unless an option says."""
    _json_format.Parse(raw, into, **options)
    return into


def write(message: object, **options: bool) -> Any:
    """The message as a JSON tree."""
    return _json_format.MessageToDict(message, **options)


def write_text(message: object, **options: bool) -> bytes:
    text: str = _json_format.MessageToJson(message, **options)
    return text.encode()
