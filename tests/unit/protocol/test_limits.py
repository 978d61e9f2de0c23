import json
from typing import Any

import pytest
from hypothesis import given
from tests.unit.protocol.strategies import few, json_values

from trunkline.model.errors import InvalidRequest, ParseFailed
from trunkline.protocol.limits import check_json


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@few
@given(json_values)
def test_exactly_the_depth_of_the_value_is_allowed(value: Any) -> None:
    body, depth = json.dumps(value).encode(), depth_of(value)
    check_json(body, max_depth=depth)
    if depth:
        with pytest.raises(InvalidRequest):
            check_json(body, max_depth=depth - 1)


def test_brackets_inside_strings_do_not_count() -> None:
    body = json.dumps({"a": "[[[{{{", "b\\": '"[[[\\', "c": "\\\\"}).encode()
    check_json(body, max_depth=1)


def test_many_shallow_brackets_are_fine() -> None:
    check_json(b"[" + b"{}," * 1000 + b"{}]", max_depth=2)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_is_refused_in_linear_time(opening: bytes) -> None:
    with pytest.raises(InvalidRequest, match="deeper than 64 levels"):
        check_json(opening * 1_000_000, max_depth=64)


@pytest.mark.parametrize(
    "body", [b'"' + b"[" * 500_000, b'"\\' * 300_000 + b"[[[", b"[]" * 300_000], ids=["a", "b", "c"]
)
def test_hostile_bodies_are_scanned_in_linear_time(body: bytes) -> None:
    check_json(body, max_depth=2)


@pytest.mark.parametrize("body", [b'{"a":"\xff"}', b'"\xed\xa0\x80"', b'"\xc3'])
def test_broken_utf8_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseFailed, match="UTF-8"):
        check_json(body, max_depth=8)


def test_sound_utf8_passes() -> None:
    check_json('{"a":"žluťoučký 🐎"}'.encode(), max_depth=8)
