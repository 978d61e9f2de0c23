"""`read_answer`: what the text of an agent says when it is read as a structured answer.

Agents that know nothing of structured answers are understood too: then the text is the output.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trunkline.engine.plain_json import TooDeep, plain, plain_text
from trunkline.model.call_outcomes import UNSTATED, StructuredAnswer

# The confidence of an answer whose JSON is broken, or unusable.
BROKEN: Final = 0.3
# Limits of the search for a JSON object in a text: how many opening braces are tried, how long the
# text may be, and how many characters may be read without success.
_MAX_TRIES: Final = 32
_MAX_CHARS: Final = 1024 * 1024
_MAX_READ: Final = 4 * _MAX_CHARS

_decoder = json.JSONDecoder(parse_constant=lambda _: None)
_encode = msgspec.json.Encoder().encode


def read_answer(text: str) -> StructuredAnswer:
    """The answer in the first JSON object of the text, which may stand in prose; the text itself
    where there is no such object."""
    found = _first_object(text) if len(text) <= _MAX_CHARS else None
    if found is not None:
        try:
            return of_object(found)
        except TooDeep:
            pass
    is_broken = "}" in text[text.find("{") :] if "{" in text else False
    return StructuredAnswer(plain_text(text), BROKEN if is_broken else UNSTATED)


def of_object(value: Mapping[str, Any]) -> StructuredAnswer:
    """`output`, else `result`, else the whole object is the output. Raises TooDeep."""
    value = plain(value)
    output = value.get("output", value.get("result", value))
    return StructuredAnswer(
        output,
        confidence_of(value.get("confidence")),
        texts_of(value.get("assumptions")),
        texts_of(value.get("caveats")),
    )


def confidence_of(value: Any) -> float:
    """A number from 0 to 1, whatever an agent states as its confidence."""
    # Nothing equals NaN, not even itself.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return UNSTATED
    return float(min(max(value, 0), 1))


def _first_object(text: str) -> dict[str, Any] | None:
    start, read = -1, 0
    for _ in range(_MAX_TRIES):
        start = text.find("{", start + 1)
        if start < 0 or read > _MAX_READ:
            return None
        try:
            value, _ = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            read += error.pos - start
        except (ValueError, RecursionError):
            # A number of thousands of digits, or a list in a list in a list …
            read += len(text) - start
        else:
            if value:
                return value if isinstance(value, dict) else None
    return None


def texts_of(value: Any) -> tuple[str, ...]:
    """A list of texts, of which an agent may also state a single one."""
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        return ()
    return tuple([each if isinstance(each, str) else _encode(each).decode() for each in value])
