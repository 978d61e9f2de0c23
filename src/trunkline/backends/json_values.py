"""Readers for the JSON of an agent or its server. They raise nothing, whatever it holds."""

from typing import Any

import msgspec
from msgspec import UNSET

_decode = msgspec.json.Decoder().decode


def json_value(data: bytes | str | msgspec.Raw) -> Any:
    """The value; UNSET where the data is not JSON."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET


def json_object(data: bytes | str | msgspec.Raw) -> dict[str, Any] | None:
    """The object; None where the data is something else."""
    value = json_value(data)
    return value if isinstance(value, dict) else None


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def numbers(value: Any, names: dict[str, str]) -> dict[str, int | float]:
    """The fields that hold a number. `names` maps their names to ours."""
    found = table(value)
    return {
        ours: found[theirs]
        for theirs, ours in names.items()
        if isinstance(found.get(theirs), int | float) and not isinstance(found[theirs], bool)
    }
