"""Write configuration.md, profiles.md and trunkline.schema.json in docs/reference."""

import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

from trunkline.config.called_agents import CredentialSettings
from trunkline.config.secret import Secret
from trunkline.hub.agent_limits import AgentLimits
from trunkline.hub.credential_settings import CertificateHolder, ClientCertificates, JwtIssuer
from trunkline.hub.sign_in_settings import ProviderSettings as SignInProvider
from trunkline.hub.sign_in_settings import SignInSettings
from trunkline.model.profile import ProfileKeys
from trunkline.relay.tenants.settings import TenantSettings
from trunkline.settings import schema
from trunkline.settings.agent_card import (
    ExtendedCardSettings,
    ExtensionSettings,
    ProviderSettings,
    SkillSettings,
)
from trunkline.settings.agents import AgentSettings
from trunkline.settings.auth import ApiKey, AuthSettings
from trunkline.settings.backends import BackendSettings
from trunkline.settings.cluster import ClusterSettings
from trunkline.settings.console import ConsoleSettings
from trunkline.settings.decode import (
    allows_none,
    bare_type,
    default_of,
    description,
    is_struct,
)
from trunkline.settings.hub import HubSettings
from trunkline.settings.hub_audit import HubAuditSettings
from trunkline.settings.openclaw.profile import ProfileSettings
from trunkline.settings.profiles import PRESETS
from trunkline.settings.relay import RelaySettings
from trunkline.settings.relay_server import RelayedAgentSettings, RelayServerSettings
from trunkline.settings.routing import RouteSettings, RoutingSettings
from trunkline.settings.server import ServerSettings
from trunkline.settings.stores import StoreSettings
from trunkline.settings.targets import NetworkSettings, RemoteSettings, TargetSettings

DOCS = Path(__file__).resolve().parent.parent / "docs"
INTRODUCTION = """\
# Configuration

<!-- Written by tools/gen_config_docs.py from src/trunkline/settings; edit the structs there. -->

`trunkline serve --config trunkline.toml` reads a TOML file; the environment variable
`TRUNKLINE_CONFIG` can name it too. A file in the current folder is read only if you name it.
Options on the command line override the file. Without a file, `serve` publishes a demo agent on
loopback.

- `trunkline config check FILE` prints every problem of a file at once.
- `trunkline config show FILE` prints every key with its effective value; secrets are masked.
- `trunkline config schema` prints a JSON Schema for editors.
- A complete annotated example: [examples/trunkline.toml](../examples/trunkline.toml).

Any string may contain `${NAME}` (an environment variable, which must be set) or
`${NAME:-default}`; write `$${` for a literal `${`. Numbers and booleans may be references too:
`port = "${PORT}"`. Relative paths start at the folder of the file. Unknown keys are refused.

A gateway that other machines can reach, through `host` or `public_url`, needs a key:

```toml
[auth.keys.me]
key = "${TRUNKLINE_KEY}"
```
"""

SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("[server]", ServerSettings),
    ("[store]", StoreSettings),
    ("[cluster]", ClusterSettings),
    ("[auth]", AuthSettings),
    ("[auth.keys.NAME]", ApiKey),
    ("[routing]", RoutingSettings),
    ("[[routes]]", RouteSettings),
    ('[agents."OWNER/SLUG"]', AgentSettings),
    ('[[agents."OWNER/SLUG".skills]]', SkillSettings),
    ('[agents."OWNER/SLUG".provider]', ProviderSettings),
    ('[[agents."OWNER/SLUG".extensions]]', ExtensionSettings),
    ('[agents."OWNER/SLUG".extended_card]', ExtendedCardSettings),
    ('[agents."OWNER/SLUG".limits]', AgentLimits),
    ("[targets.ALIAS]", TargetSettings),
    ("[remote]", RemoteSettings),
    ("[relay]", RelaySettings),
    ("[relay_server]", RelayServerSettings),
    ("[relay_server.tenants.NAME]", TenantSettings),
    ('[relay_server.agents."TENANT/AGENT"]', RelayedAgentSettings),
    ("[hub]", HubSettings),
    ("[hub.jwt.NAME]", JwtIssuer),
    ("[hub.client_certificates]", ClientCertificates),
    ('[hub.client_certificates.principals."sha256:…"]', CertificateHolder),
    ("[hub.sign_in]", SignInSettings),
    ("[hub.audit]", HubAuditSettings),
    ("[console]", ConsoleSettings),
    ("[network]", NetworkSettings),
)


PROFILES = """\
# Profiles

<!-- Written by tools/gen_config_docs.py from src/trunkline/model/profile.py. -->

A2A leaves some behaviour open: whether a short answer needs a task, how a full queue answers,
what a restart does. A profile decides these points for one agent. Each point is a key in the
table of the agent. A preset sets all keys, and a key beside it overrides the preset:

```toml
[agents."acme/support"]
name = "Support"
profile = "openclaw-inbound"
agent_style = "task-generating"
backend = { kind = "echo" }
```

`standard` is the default. `openclaw-inbound` behaves like the inbound A2A plugin of OpenClaw,
`openclaw-design` like OpenClaw's A2A integration design, `hub` like a hub of agents. Keys that
contradict each other are refused at the start, with the reason. `trunkline config show` prints
the effective values.

## Keys
"""


def profile_reference() -> str:
    """The page docs/reference/profiles.md: each key, and its value in each preset."""
    names = [name for name in PRESETS if name != "standard"]
    rows = [
        f"| `{key}` | {_default(field)} | "
        + " | ".join(f"`{json.dumps(PRESETS[n][key])}`" if key in PRESETS[n] else "" for n in names)
        + " |"
        for field in fields(ProfileSettings)
        if any((key := field.encode_name) in PRESETS[name] for name in names)
    ]
    head = [
        "## Presets",
        "",
        "An empty cell means the value of `standard`. Keys with the same value in all presets are "
        "left out.",
        "",
        f"| key | `standard` | {' | '.join(f'`{name}`' for name in names)} |",
        "|---|---|" + "---|" * len(names),
    ]
    keys = f"{PROFILES}\n{_rows(fields(ProfileSettings))}"
    return "\n".join([keys, *head, *rows]) + "\n"


def reference() -> str:
    parts = [INTRODUCTION]
    for header, cls in SECTIONS:
        parts.append(f"## `{header}`\n\n{_about(cls)}\n\n{_rows(_own(cls))}")
    parts.append("## Backends\n\nThe `backend` of an agent is a table with one of these kinds.\n")
    parts += [_of_kind(cls) for cls in get_args(BackendSettings)]
    parts.append(
        "## Credentials\n\nThe `credentials` of a target are a table with one of these kinds.\n"
    )
    parts += [_of_kind(cls) for cls in get_args(CredentialSettings)]
    parts.append(
        "## Sign-in providers\n\nEach table `[hub.sign_in.providers.NAME]` is of one of these "
        "kinds.\n"
    )
    parts += [_of_kind(cls) for cls in get_args(SignInProvider)]
    return "\n".join(parts).rstrip() + "\n"


def _of_kind(cls: type[Struct]) -> str:
    rows = _rows(_own(cls))
    tag = cls.__struct_config__.tag
    return f'### `kind = "{tag}"`\n\n{_about(cls)}\n' + (f"\n{rows}" if rows else "")


def _about(cls: type[Struct]) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _own(cls: type[Struct]) -> list[FieldInfo]:
    """The keys of a table; those of the profile have a page of their own."""
    profile = ProfileKeys.__struct_fields__ if cls is AgentSettings else ()
    return [field for field in fields(cls) if field.name not in profile]


def _rows(keys: Iterable[FieldInfo]) -> str:
    rows = [_row(field) for field in keys]
    if not rows:
        return ""
    head = ["| key | type | default | description |", "|---|---|---|---|"]
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
        return " or ".join(f"`{json.dumps(choice)}`" for choice in get_args(bare))
    if get_origin(bare) is tuple:
        item = get_args(bare)[0]
        plural = "" if get_origin(bare_type(item)) is Literal else "s"
        return f"list of {_kind(item)}{plural}"
    if get_origin(bare) is dict:
        return "table of tables" if is_struct(get_args(bare)[1]) else "table"
    names = {str: "string", int: "integer", float: "number", bool: "boolean"}
    return "secret string" if bare is Secret else names.get(bare, "table")


def _bounds(kind: Any) -> Iterator[str]:
    for meta in get_args(kind)[1:]:
        if isinstance(meta, Meta):
            signs = (("≥", meta.ge), (">", meta.gt), ("≤", meta.le))
            yield from (f"{sign} {bound}" for sign, bound in signs if bound is not None)


def _default(field: FieldInfo) -> str:
    value = default_of(field)
    if value is NODEFAULT:
        return "required"
    if value is None or isinstance(value, Struct) or value in ("", (), {}):
        return "–"
    return f"`{json.dumps(value)}`"


def main() -> None:
    (DOCS / "reference" / "configuration.md").write_text(reference(), "utf-8")
    (DOCS / "reference" / "profiles.md").write_text(profile_reference(), "utf-8")
    (DOCS / "reference" / "trunkline.schema.json").write_text(
        json.dumps(schema(), indent=2) + "\n", "utf-8"
    )


if __name__ == "__main__":
    main()
