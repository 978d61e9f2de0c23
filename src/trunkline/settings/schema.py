"""The JSON Schema of the configuration file, for editors."""

from typing import Any

import msgspec

from trunkline.config.secret import Secret
from trunkline.settings.root import Settings


def schema() -> dict[str, Any]:
    raw = msgspec.json.schema(Settings, schema_hook=_secret_as_text)
    # Through JSON, so that defaults that are tuples are lists.
    made = msgspec.json.decode(msgspec.json.encode(raw))
    _add_titles(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Trunkline configuration",
        **made,
    }


def _secret_as_text(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": "string", "format": "password"}
    raise NotImplementedError


def _add_titles(made: dict[str, Any]) -> None:
    """Editors show the title of a key, so each one has its name."""
    for table in made["$defs"].values():
        for name, key in table.get("properties", {}).items():
            key.setdefault("title", name)
            if name == "kind" and "description" not in key:
                key["description"] = table.get("description", "Which kind it is.")
