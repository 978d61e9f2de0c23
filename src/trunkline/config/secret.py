"""A text that may be used but never shown."""

import hmac
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

MASK: Final = "***"


class Secret:
    """Prints as `***` everywhere; only `reveal()` gives the text away."""

    __slots__ = ("_text", "variable")

    def __init__(self, text: str, *, variable: str = "") -> None:
        """`variable`: the name of the environment variable that holds the same text."""
        self._text = text
        self.variable = variable

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> str:
        raise TypeError("a secret is not to be pickled")


def secrets_in(value: object) -> Iterator[str]:
    """Every secret text in settings, so that a caller can keep them out of its output."""
    match value:
        case Secret():
            if value:
                yield value.reveal()
        case Struct():
            for name in value.__struct_fields__:
                yield from secrets_in(getattr(value, name))
        case dict():
            for item in value.values():
                yield from secrets_in(item)
        case list() | tuple():
            for item in value:
                yield from secrets_in(item)
        case _:
            pass


def revealed(headers: Mapping[str, Secret]) -> dict[str, str]:
    return {name: value.reveal() for name, value in headers.items()}
