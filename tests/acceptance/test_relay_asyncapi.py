"""docs/reference/relay-asyncapi.json is a document of AsyncAPI, by the schema that `./check
javascript` installs."""

import json
from pathlib import Path

import pytest
from jsonschema_rs import Draft7Validator
from tools.gen_relay_asyncapi import DOCS, DOCUMENT

SCHEMA = Path(__file__).parent / "js/node_modules/@asyncapi/specs/schemas/3.0.0-without-$id.json"


@pytest.mark.skipif(
    not SCHEMA.exists(), reason="the schema of AsyncAPI is not installed: ./check javascript"
)
def test_it_is_an_asyncapi_document() -> None:
    found = json.loads((DOCS / DOCUMENT).read_text("utf-8"))
    validator = Draft7Validator(json.loads(SCHEMA.read_text("utf-8")))
    assert [error.message for error in validator.iter_errors(found)] == []
    assert not validator.is_valid(found | {"channels": {"x": {"messages": 1}}})
