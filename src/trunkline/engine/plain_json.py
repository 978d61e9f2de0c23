"""`plain`: a value as JSON that every store, every binding and every client can carry.

What agents answer was often written by a model, and what JSON parsers accept is more than that:
NaN, halves of characters, lists within lists without end.
"""

import math
from typing import Any, Final

# Gateways refuse JSON that is nested deeper than 64 levels, and parsers of protocol buffers from 50
# on; the messages around it need some of them.
MAX_DEPTH: Final = 32
# JSON has no larger numbers than floating-point numbers.
_MAX_BITS: Final = 1023


class TooDeep(ValueError):
    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {MAX_DEPTH} levels")


def plain(value: Any, *, depth: int = MAX_DEPTH) -> Any:
    """The value without what JSON has no form for. Raises TooDeep. `value` consists of dicts,
    lists and scalars, as a parser returns them."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else None
    if not isinstance(value, dict | list | tuple):
        return value
    if not depth:
        raise TooDeep
    if isinstance(value, dict):
        return {plain_text(key): plain(each, depth=depth - 1) for key, each in value.items()}
    return [plain(each, depth=depth - 1) for each in value]


def plain_text(text: str) -> str:
    """The text with a replacement character for each half of a character that stands alone."""
    if text.isascii():
        return text
    # UTF-16 puts halves together that were escaped one by one, and only it can tell them apart.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
