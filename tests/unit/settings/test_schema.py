import json
from typing import Any

from trunkline.settings import schema


def test_every_key_has_a_title_and_a_description() -> None:
    bare = [
        f"{table}.{name}"
        for table, definition in schema()["$defs"].items()
        for name, key in definition["properties"].items()
        if not key.get("title") or not key.get("description")
    ]
    assert bare == []


def test_unknown_keys_are_refused_and_secrets_are_texts() -> None:
    tables: dict[str, Any] = schema()["$defs"]
    assert all(table["additionalProperties"] is False for table in tables.values())
    key = tables["ApiKey"]["properties"]["key"]
    assert {"type": "string", "format": "password"} in key["anyOf"]


def test_it_is_json() -> None:
    assert json.loads(json.dumps(schema())) == schema()
