"""Settings for people and editors: as a document and as TOML with secrets masked, and the JSON
Schema of the configuration file."""

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from trunkline.config.problems import dotted
from trunkline.config.secret import MASK, Secret
from trunkline.settings.root import Settings
from trunkline.settings.stores import StoreSettings, database_path, own_folder


def effective(settings: Settings) -> dict[str, Any]:
    """Every key with the value in force, ready for JSON; keys that are not set are left out."""
    agents = {
        handle: replace(agent, store=_placed(agent.store)) if agent.store is not None else agent
        for handle, agent in settings.agents.items()
    }
    settings = replace(settings, store=_placed(settings.store), agents=agents)
    made: dict[str, Any] = _without_none(msgspec.to_builtins(settings, enc_hook=_masked))
    return made


def _placed(store: StoreSettings) -> StoreSettings:
    match store.kind:
        case "sqlite":
            return replace(store, path=str(database_path(store)))
        case "postgres":
            return replace(store, path=str(own_folder(store)))
        case _:
            return store


def to_toml(document: dict[str, Any]) -> str:
    lines: list[str] = []
    _table(document, "", lines)
    return "\n".join(lines).strip() + "\n"


def _masked(value: object) -> str:
    if isinstance(value, Secret):
        return MASK
    raise NotImplementedError


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def _table(table: dict[str, Any], prefix: str, lines: list[str]) -> None:
    below = {key: value for key, value in table.items() if _is_section(key, value)}
    for key, value in table.items():
        if key not in below:
            lines.append(f"{dotted((key,))} = {_inline(value)}")
    for key, value in below.items():
        name = f"{prefix}{dotted((key,))}"
        for item in value if isinstance(value, list) else [value]:
            header = f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            # A table that only holds tables needs no header of its own.
            needless = item and all(_is_section(k, v) for k, v in item.items())
            if isinstance(value, list) or not needless:
                lines.extend(["", header])
            _table(item, f"{name}.", lines)


def _is_section(key: str, value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    # These tables are short, so they stay on one line.
    return isinstance(value, dict) and key not in ("backend", "params")


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{dotted((key,))} = {_inline(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_inline(item) for item in value)}]"
    if isinstance(value, float):
        return repr(value)
    # TOML's basic strings and booleans are written as in JSON.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


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
