import json
from typing import Any

import pytest
from hypothesis import given
from tests.unit.protocol.strategies import few, json_values

from trunkline.model.errors import InvalidParams, InvalidRequest, ParseFailed
from trunkline.protocol.limits import (
    MAX_CONTAINERS,
    MAX_PARTS,
    MAX_QUERY_FIELDS,
    MAX_VALUES,
    check_json,
    check_send_tree,
    query_fields,
)


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
    "body", [b'"' + b"[" * 500_000, b'"\\' * 300_000 + b"[[[", b"[]" * 10_000], ids=["a", "b", "c"]
)
def test_hostile_bodies_are_scanned_in_linear_time(body: bytes) -> None:
    check_json(body, max_depth=2)


@pytest.mark.parametrize("body", [b'{"a":"\xff"}', b'"\xed\xa0\x80"', b'"\xc3'])
def test_broken_utf8_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseFailed, match="UTF-8"):
        check_json(body, max_depth=8)


def test_sound_utf8_passes() -> None:
    check_json('{"a":"žluťoučký 🐎"}'.encode(), max_depth=8)


def field_refused(body: bytes) -> str:
    with pytest.raises(InvalidParams) as caught:
        check_json(body, max_depth=64)
    (violation,) = caught.value.violations
    return violation.field


def nested(name: str, items: str) -> bytes:
    return f'{{"params":{{"message":{{"text":"a","{name}" : [{items}]}}}}}}'.encode()


@pytest.mark.parametrize("item", ["1", '"a"', '"\\"a,"', "null", '"[{"'])
def test_as_many_values_as_are_allowed_pass(item: str) -> None:
    check_json(nested("list", ",".join([item] * (MAX_VALUES - 2))), max_depth=64)


@pytest.mark.parametrize("item", ["1", '"a"', '"\\"a,"', "null", '"[{"', '{"a":"b","c":"d"}'])
@pytest.mark.parametrize("count", [MAX_VALUES + 10, 10 * MAX_VALUES])
def test_too_many_values_are_refused_with_the_name_of_their_list(item: str, count: int) -> None:
    assert field_refused(nested("list", ",".join([item] * count))) == "list"


@pytest.mark.parametrize("item", ["[]", "{}", '{"a":[]}', "[[[]]]"])
def test_too_many_lists_and_objects_are_refused_with_the_name_of_theirs(item: str) -> None:
    assert field_refused(nested("list", ",".join([item] * (MAX_CONTAINERS + 1)))) == "list"


def test_members_of_an_object_count_as_values() -> None:
    members = ",".join([f'"k{number}":1' for number in range(MAX_VALUES + 10)])
    assert field_refused(f'{{"a":[1,2],"metadata":{{{members}}}}}'.encode()) == "metadata"


def test_a_list_without_a_name_is_the_request() -> None:
    assert field_refused(b"[" + b"1," * (MAX_VALUES + 1) + b"1]") == "request"


def test_a_list_that_a_short_one_precedes_is_named() -> None:
    short, long = ",".join(["1"] * 100), ",".join(["1"] * 3 * MAX_VALUES)
    assert field_refused(f'{{"short":[{short}],"long":[{long}]}}'.encode()) == "long"


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    text = 'a, {b}, [c], \\"d\\", \\\\' * MAX_VALUES
    check_json(f'{{"text":"{text}"}}'.encode(), max_depth=64)


@few
@given(json_values)
def test_nothing_of_a_usual_size_is_too_much(value: Any) -> None:
    # One bracket more than is looked at without a scan.
    body = json.dumps([value, *[[]] * 64]).encode()
    check_json(body, max_depth=64)


def test_parameters_are_checked_whatever_they_are() -> None:
    trees: list[Any] = [None, [], {"message": 1}, {"message": {"parts": {}}, "configuration": []}]
    for tree in trees:
        check_send_tree(tree)
    check_send_tree({"message": {"parts": [None] * MAX_PARTS}})
    with pytest.raises(InvalidParams, match=r"message\.parts: holds 1,001 items"):
        check_send_tree({"message": {"parts": [None] * (MAX_PARTS + 1)}})


def test_a_query_has_few_fields() -> None:
    fields = [f"a{number}" for number in range(MAX_QUERY_FIELDS)]
    assert query_fields("&".join(fields).encode()) == [(name, "") for name in fields]
    with pytest.raises(InvalidParams, match="more than 100 fields"):
        query_fields("&".join([*fields, "b"]))
