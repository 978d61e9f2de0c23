import pytest
from msgspec import Struct

from trunkline.protocol import protojson_fields as readers


def test_proto_names_are_the_snake_case_of_json_names() -> None:
    assert readers.snake("messageId") == "message_id"
    assert readers.snake("oauth2SecurityScheme") == "oauth2_security_scheme"
    assert readers.snake("id") == "id"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("x", "a string"),
        ([], "an array"),
        ({}, "an object"),
        (None, "null"),
    ],
)
def test_kinds_have_names(value: object, kind: str) -> None:
    assert readers.kind_of(value) == kind


class Strange(Struct):
    number: float = 0.0


@pytest.mark.parametrize("into", [Strange, int])
def test_a_schema_that_no_reader_knows_is_our_fault(into: type) -> None:
    with pytest.raises(TypeError):
        readers.read({}, into)


def test_paths() -> None:
    assert readers.join("", "a") == "a"
    assert readers.join("a", "b") == "a.b"
