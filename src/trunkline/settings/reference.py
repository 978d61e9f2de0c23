"""The reference in docs/configuration.md, written from the structs."""

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

from trunkline.settings.agents import (
    AgentSettings,
    BackendSettings,
    ExtendedCardSettings,
    ExtensionSettings,
    ProviderSettings,
    SkillSettings,
)
from trunkline.settings.secret import Secret
from trunkline.settings.server import ApiKey, AuthSettings, ServerSettings, StoreSettings
from trunkline.settings.shapes import allows_none, bare_type, default_of, description, is_struct

INTRODUCTION = """\
# Configuration

<!-- Written by tools/gen_config_docs.py from src/trunkline/settings; edit the structs there. -->

`trunkline serve --config trunkline.toml` reads a TOML file; so does the environment variable
`TRUNKLINE_CONFIG`. A file in the current folder is never picked up by itself. Flags win over the
file. Without a file, `serve` publishes a demo agent on loopback.

- `trunkline config check FILE` says everything that is wrong, at once.
- `trunkline config show FILE` prints every key with the value in force, secrets masked.
- `trunkline config schema` prints a JSON Schema for editors.
- A complete annotated example: [examples/trunkline.toml](examples/trunkline.toml).

Any text may hold `${NAME}` (an environment variable, which must be set) or `${NAME:-default}`;
`$${` stands for `${` itself. Numbers and booleans may be references too: `port = "${PORT}"`.
Relative paths start at the folder of the file. Unknown keys are refused.

A gateway that others than this machine can reach, by `host` or by `public_url`, needs a key:

```toml
[auth.keys.me]
key = "${TRUNKLINE_KEY}"
```
"""

SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("[server]", ServerSettings),
    ("[store]", StoreSettings),
    ("[auth]", AuthSettings),
    ("[auth.keys.NAME]", ApiKey),
    ('[agents."OWNER/SLUG"]', AgentSettings),
    ('[[agents."OWNER/SLUG".skills]]', SkillSettings),
    ('[agents."OWNER/SLUG".provider]', ProviderSettings),
    ('[[agents."OWNER/SLUG".extensions]]', ExtensionSettings),
    ('[agents."OWNER/SLUG".extended_card]', ExtendedCardSettings),
)


def reference() -> str:
    parts = [INTRODUCTION]
    for header, cls in SECTIONS:
        parts.append(f"## `{header}`\n\n{_about(cls)}\n\n{_rows(cls)}")
    parts.append("## Backends\n\nThe `backend` of an agent is a table with a `kind`.\n")
    for cls in get_args(BackendSettings):
        tag = cls.__struct_config__.tag
        rows = _rows(cls)
        parts.append(f'### `kind = "{tag}"`\n\n{_about(cls)}\n' + (f"\n{rows}" if rows else ""))
    return "\n".join(parts).rstrip() + "\n"


def _about(cls: type[Struct]) -> str:
    return (cls.__doc__ or "").strip()


def _rows(cls: type[Struct]) -> str:
    rows = [_row(field) for field in fields(cls)]
    if not rows:
        return ""
    head = ["| key | type | default | what it is |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _row(field: FieldInfo) -> str:
    cells = (
        f"`{field.encode_name}`",
        ", ".join((_kind(field.type), *_bounds(field.type))),
        _default(field),
        description(field.type),
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _kind(kind: Any) -> str:
    bare = bare_type(kind)
    if allows_none(bare):
        return _kind(get_args(bare)[0])
    if get_origin(bare) is Literal:
        return " or ".join(f'`"{choice}"`' for choice in get_args(bare))
    if get_origin(bare) is tuple:
        return f"list of {_kind(get_args(bare)[0])}s"
    if get_origin(bare) is dict:
        return "table of tables" if is_struct(get_args(bare)[1]) else "table"
    names = {str: "text", int: "integer", float: "number", bool: "boolean", Secret: "secret text"}
    return names.get(bare, "table")


def _bounds(kind: Any) -> Iterator[str]:
    for meta in get_args(kind)[1:]:
        if isinstance(meta, Meta):
            signs = (("≥", meta.ge), (">", meta.gt), ("≤", meta.le))
            yield from (f"{sign} {bound}" for sign, bound in signs if bound is not None)


def _default(field: FieldInfo) -> str:
    value = default_of(field)
    if value is NODEFAULT:
        return "required"
    if value is None or value in ("", (), {}):
        return "–"
    return f"`{json.dumps(value)}`"
