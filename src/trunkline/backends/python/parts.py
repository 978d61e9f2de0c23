"""Parts out of plain values."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from trunkline.model.values import Part

# Text, bytes, a Part, or anything JSON can say.
Content: TypeAlias = Any


def part_of(content: Content) -> Part:
    if isinstance(content, str):
        return Part(text=content)
    if isinstance(content, Part):
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return Part(raw=bytes(content), media_type="application/octet-stream")
    return Part(data=json_of(content))


def json_of(value: object) -> Any:
    """The value as plain JSON, for its owner may go on with it; dataclasses, dates and the
    like are converted."""
    try:
        # Here rather than in the journal, so that the agent's author sees whose value it is.
        return msgspec.to_builtins(value, str_keys=True)
    except TypeError as error:
        raise TypeError(
            f"an agent can say text, bytes, parts, artifacts and JSON values, "
            f"not {type(value).__name__} ({error})"
        ) from None


def parts_of(contents: Iterable[Content]) -> tuple[Part, ...]:
    return tuple(part_of(content) for content in contents)
