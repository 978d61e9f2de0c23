"""A value as JSON that stores and bindings carry."""

from typing import Any

import msgspec
import pytest

from trunkline.engine.plain_json import MAX_DEPTH, TooDeep, plain, plain_text


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
        (float("nan"), None),
        ([float("inf"), -float("inf")], [None, None]),
        (10**400, None),
        (2**64, 2**64),
        ("\ud83d\ude00", "😀"),
        ("half \ud83d", "half �"),
        ({"\udc00": "\x00"}, {"�": "\x00"}),
        ((1, 2), [1, 2]),
    ],
)
def test_a_value_is_what_json_has_a_form_for(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert msgspec.json.decode(msgspec.json.encode(plain(value))) == expected


def test_deep_nesting_is_refused() -> None:
    assert plain(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(TooDeep, match=f"deeper than {MAX_DEPTH} levels"):
        plain(nested(MAX_DEPTH + 1))
    with pytest.raises(TooDeep):
        plain({"a": nested(100_000)})


def test_texts_without_halves_of_characters_stay_as_they_are() -> None:
    for text in ("", "plain", "naïve 😀 \x00 \u2028"):
        assert plain_text(text) == text
