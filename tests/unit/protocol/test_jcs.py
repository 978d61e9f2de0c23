"""The canonical form of JSON, beside the examples of RFC 8785 and the reference of the SDK."""

import json
import math

import pytest
from a2a.utils._jcs import canonicalize
from hypothesis import given
from hypothesis import strategies as st

from trunkline.protocol.jcs import MAX_DEPTH, canonical, number

# RFC 8785, appendix B, and the borders between the ways to write a number.
NUMBERS = {
    0.0: "0",
    5e-324: "5e-324",
    -1.7976931348623157e308: "-1.7976931348623157e+308",
    9007199254740992: "9007199254740992",
    295147905179352830000: "295147905179352830000",
    9.999999999999997e22: "9.999999999999997e+22",
    1e23: "1e+23",
    999999999999999900000: "999999999999999900000",
    1e21: "1e+21",
    9.999999999999997e-7: "9.999999999999997e-7",
    0.000001: "0.000001",
    333333333.3333332: "333333333.3333332",
    -0.0000033333333333333333: "-0.0000033333333333333333",
    4.5: "4.5",
    0.002: "0.002",
    1e-27: "1e-27",
    1e30: "1e+30",
    56.0: "56",
    12345678901234567890: "12345678901234567000",
}


@pytest.mark.parametrize("value", NUMBERS)
def test_numbers_are_those_of_ecmascript(value: float) -> None:
    assert number(value) == NUMBERS[value]


def test_zero_has_no_sign() -> None:
    assert number(-0.0) == "0"


def test_the_order_of_members_is_that_of_utf_16() -> None:
    tree = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    assert list(json.loads(canonical(tree)).values()) == [2, 4, 6, 7, 1, 5, 3]


def test_only_what_must_be_escaped_is() -> None:
    text = '\u20ac$\x0f\nA\'B"\\\\"/\u2028'
    assert canonical(text) == '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u2028"'.encode()


def test_without_spaces_and_whatever_is_nested() -> None:
    tree = {"b": [1, {"d": None, "c": []}, ""], "a": {}, "c": True, "d": False}
    assert canonical(tree) == b'{"a":{},"b":[1,{"c":[],"d":null},""],"c":true,"d":false}'


@pytest.mark.parametrize(
    "tree", [math.inf, -math.inf, math.nan, 10**400, "\ud800", {"\udc00": 1}, {1, 2}]
)
def test_what_has_no_canonical_form(tree: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical(tree)


def test_nesting_has_an_end() -> None:
    tree: object = 1
    for _ in range(MAX_DEPTH - 1):
        tree = [tree]
    assert canonical(tree).startswith(b"[[")
    with pytest.raises(ValueError, match="deeper"):
        canonical([tree])


TEXTS = st.text(st.characters(codec="utf-8"))
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(TREES)
def test_the_same_as_the_reference_and_the_same_value(tree: object) -> None:
    written = canonical(tree)
    assert written.decode() == canonicalize(tree)
    assert canonical(json.loads(written)) == written
