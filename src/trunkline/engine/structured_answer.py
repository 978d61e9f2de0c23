"""`read_answer`: what the text of an agent says when it is read as a structured answer.

Agents that know nothing of structured answers are understood too: then the text is the output.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trunkline.model.call_outcomes import UNSTATED, StructuredAnswer

# The confidence of an answer whose JSON is broken.
BROKEN: Final = 0.3
# So many opening braces are tried as the begin of the JSON object of a text.
_MAX_TRIES: Final = 32

_decoder = json.JSONDecoder(parse_constant=lambda _: None)


def read_answer(text: str) -> StructuredAnswer:
    """The answer in the first JSON object of the text, which may stand in prose; the text itself
    where there is no such object."""
    found = _first_object(text)
    if found is not None:
        return of_object(found)
    is_broken = "{" in text and "}" in text[text.index("{") :]
    return StructuredAnswer(text, BROKEN if is_broken else UNSTATED)


def of_object(value: Mapping[str, Any]) -> StructuredAnswer:
    """`output`, else `result`, else the whole object is the output."""
    output = value.get("output", value.get("result", value))
    return StructuredAnswer(
        output,
        confidence_of(value.get("confidence")),
        _texts(value.get("assumptions")),
        _texts(value.get("caveats")),
    )


def confidence_of(value: Any) -> float:
    """A number from 0 to 1, whatever an agent states as its confidence."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return UNSTATED
    return float(min(max(value, 0), 1))


def _first_object(text: str) -> dict[str, Any] | None:
    start = -1
    for _ in range(_MAX_TRIES):
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            value, _ = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if value:
            return value if isinstance(value, dict) else None
    return None


def _texts(value: Any) -> tuple[str, ...]:
    """A list of texts, of which an agent may also state a single one."""
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, Sequence):
        return ()
    return tuple([each if isinstance(each, str) else json.dumps(each) for each in value])
