"""`canonical`: the one way to write a JSON value, so that it can be signed (RFC 8785)."""

from decimal import Decimal
from typing import Any, Final

import msgspec

# The depth of the reference implementation; deeper values have no canonical form here.
MAX_DEPTH: Final = 128
# Integers up to here are exact as a double. RFC 8785, 3.2.2.3: larger ones are written as the
# double nearest to them.
_EXACT: Final = 2**53


def canonical(tree: Any) -> bytes:
    """Raises ValueError for values without such a form: infinite numbers, lone surrogates."""
    pieces: list[str] = []
    _write(tree, pieces, 1)
    return "".join(pieces).encode()


def _write(tree: Any, into: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    match tree:
        case None | bool():
            into.append({None: "null", True: "true", False: "false"}[tree])
        case str():
            into.append(_string(tree))
        case int() | float():
            into.append(number(tree))
        case list() | tuple():
            for i, one in enumerate(tree):
                into.append("," if i else "[")
                _write(one, into, depth + 1)
            into.append("]" if tree else "[]")
        case dict():
            # RFC 8785, 3.2.3: by UTF-16 code units, so a surrogate pair sorts before U+E000.
            names = sorted(tree, key=lambda name: str(name).encode("utf-16-be"))
            for i, name in enumerate(names):
                into.append(("," if i else "{") + _string(name) + ":")
                _write(tree[name], into, depth + 1)
            into.append("}" if tree else "{}")
        case _:
            raise ValueError(f"no JSON value: {type(tree).__name__}")


def _string(text: str) -> str:
    # RFC 8785, 3.2.2.2: msgspec escapes exactly these characters.
    return msgspec.json.encode(text).decode()


def number(value: float) -> str:
    """As ECMAScript writes it (RFC 8785, 3.2.2.3)."""
    if isinstance(value, int) and abs(value) <= _EXACT:
        return str(value)
    try:
        value = float(value)
    except OverflowError:
        raise ValueError("a number is out of range") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    if value == 0:
        return "0"
    # The shortest digits that give the same double; Python and ECMAScript agree on those. The value
    # is 0.DIGITS times ten to the power of `point`.
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    point = len(digits) + int(exponent)
    return ("-" if value < 0 else "") + _placed("".join(map(str, digits)), point)


def _placed(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    power = f"e{point - 1:+d}"
    return f"{digits[0]}.{digits[1:]}{power}" if count > 1 else digits + power
