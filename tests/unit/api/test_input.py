"""Queries and bodies as a client may send them: what is taken, and which field is at fault."""

from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from trunkline.api.input import decode, read_query
from trunkline.model.errors import CallerError, InvalidParams, InvalidRequest, ParseFailed


class Query(Struct, frozen=True, kw_only=True, rename="camel"):
    page_size: Annotated[int, Meta(ge=1, le=100)] = 20
    mine: bool = False
    share: float = 0.0
    q: str | None = None
    day: int | None = None


class StrictQuery(Query, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Part(Struct, frozen=True, kw_only=True, rename="camel"):
    day_limit: int = 0
    tags: tuple[str, ...] = ()


class Body(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: str
    kind: Literal["a", "b"] = "a"
    limits: Part = Part()
    labels: dict[str, str] = {}


def test_a_query_is_read_by_its_type() -> None:
    query = read_query(b"pageSize=5&mine=true&share=0.5&q=a+b&other=1&other=2", Query)
    assert query == Query(page_size=5, mine=True, share=0.5, q="a b")
    assert read_query(b"", Query) == Query()
    assert read_query(b"q=null", Query) == Query(q="null")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (b"pageSize=0", "pageSize"),
        (b"pageSize=ten", "pageSize"),
        (b"pageSize=", "pageSize"),
        (b"pageSize=5&pageSize=5", "pageSize"),
        (b"pageSize=" + b"9" * 5_000, "pageSize"),
        (b"pageSize=99999999999999999999", "pageSize"),
        (b"mine=perhaps", "mine"),
        (b"day=null", "day"),
        (b"share=nan", "share"),
        (b"share=inf", "share"),
        (b"share=1e999", "share"),
        (b"q=a%00b", "q"),
        (b"q=%FF", "query"),
        (b"&".join([b"q"] * 100_000), "query"),
    ],
)
def test_a_wrong_query_names_the_field(query: bytes, field: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        read_query(query, Query)
    assert [violation.field for violation in caught.value.violations] == [field]


def test_a_struct_may_forbid_unknown_fields_of_a_query() -> None:
    with pytest.raises(InvalidParams, match=r"pagesize: is unknown here; .* pageSize, mine"):
        read_query(b"pagesize=5", StrictQuery)


def test_a_body_is_read_by_its_type() -> None:
    body = decode(b'{"name": "x", "limits": {"dayLimit": 3, "more": 1}}', Body)
    assert body == Body(name="x", limits=Part(day_limit=3))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "name"),
        (b'{"name": 1}', "name"),
        (b'{"name": "x", "nmae": "y"}', "nmae"),
        (b'{"name": "x", "kind": "c"}', "kind"),
        (b'{"name": "x", "name": "y"}', "name"),
        (b'{"name": "x", "limits": {"dayLimit": 1, "dayLimit": 2}}', "dayLimit"),
        (b'{"name": "x", "limits": {"dayLimit": 1.5}}', "limits.dayLimit"),
        (b'{"name": "x", "limits": {"dayLimit": 9223372036854775808}}', "dayLimit"),
        (b'{"name": "x", "limits": {"dayLimit": ' + b"9" * 5_000 + b"}}", "dayLimit"),
        (b'{"name": "x", "limits": {"dayLimit": [[' + b"9" * 50 + b"]]}}", "dayLimit"),
        (b'{"name": "x", "limits": {"tags": ["a", 1]}}', "limits.tags[1]"),
        (b'{"name": "a\\u0000b"}', "name"),
        (b'{"name": "x", "limits": {"tags": ["\\u0000"]}}', "tags"),
        (b'{"name": "x", "labels": {"\\u0000": ""}}', "body"),
        (b"null", "body"),
        (b"[]", "body"),
        (b'"name"', "body"),
    ],
)
def test_a_wrong_body_names_the_field(body: bytes, field: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        decode(body, Body)
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"name=x",
        b'{"name": NaN}',
        b'{"name": "x", "limits": {"dayLimit": Infinity}}',
        b'{"name": "x"} x',
        b'{"name": "\\ud800"}',
        b"\xef\xbb\xbf{}",
        b'{"name": "\xff"}',
        b'{"name": 01}',
        b"{'name': 1}",
    ],
)
def test_what_is_not_json_is_refused_as_that(body: bytes) -> None:
    with pytest.raises(ParseFailed):
        decode(body, Body)


def test_a_body_is_not_nested_deeply() -> None:
    with pytest.raises(InvalidRequest, match="nested deeper"):
        decode(b"[" * 100_000, Body)


def test_a_body_holds_few_values_and_texts_of_any_kind() -> None:
    many = b'{"name": "x", "limits": {"tags": [%b]}}' % b",".join([b'"a"'] * 20_000)
    with pytest.raises(InvalidParams, match="body: holds more than 10,000 values"):
        decode(many, Body)
    text = ',"\\' * 20_000
    assert decode(msgspec.json.encode({"name": text}), Body) == Body(name=text)


def test_an_error_does_not_grow_with_the_request() -> None:
    name = "n" * 100_000
    for body in (f'{{"name": "x", "{name}": 1}}', f'{{"{name}": 1, "{name}": 2}}'):
        with pytest.raises(InvalidParams) as caught:
            decode(body.encode(), Body)
        assert len(caught.value.message) < 500


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_any_json_is_taken_or_refused_as_a_fault_of_the_caller(tree: Any) -> None:
    text = msgspec.json.encode(tree) if not _has_big(tree) else repr(tree).encode()
    with suppress(CallerError):
        assert isinstance(decode(text, Body), Body)


@given(st.binary())
def test_any_bytes_are_refused_as_a_fault_of_the_caller(body: bytes) -> None:
    with pytest.raises(CallerError):
        decode(body, Body)


@given(st.binary())
def test_any_query_is_taken_or_refused_as_a_fault_of_the_caller(query: bytes) -> None:
    with suppress(InvalidParams):
        assert isinstance(read_query(query, StrictQuery), StrictQuery)


def _has_big(tree: Any) -> bool:
    if isinstance(tree, int):
        return tree not in range(-(2**63), 2**64)
    if isinstance(tree, dict):
        return any(map(_has_big, tree.values()))
    return isinstance(tree, list) and any(map(_has_big, tree))
