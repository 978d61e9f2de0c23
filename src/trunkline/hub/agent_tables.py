"""`Tables`: the tables `backend` and `settings` of an agent, which may hold secrets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.config.secret import Secret
from trunkline.hub.agents import AgentRow, Skill
from trunkline.model.errors import InvalidParams
from trunkline.model.principal import OPERATOR, Principal

MAX_TABLE_BYTES: Final = 64 * 1024

Table: TypeAlias = Mapping[str, Any]

# Keys of an agent's table that the registry itself decides, or that belong to one file alone.
_TAKEN: Final = frozenset(
    (
        "name",
        "description",
        "skills",
        "profile",
        "backend",
        "default",
        "unavailable",
        "account_id",
        "agent_card_path",
        "jsonrpc_path",
        "rest_path",
        "addresses",
        "public_url",
        "limits",
    )
)
# Keys that change nothing but the card and the conversation of one agent. Operators may set the
# others too, such as `store`, which names a place on the machine of the gateway.
_FOR_OWNERS: Final = frozenset(
    (
        "version",
        "input_modes",
        "output_modes",
        "provider",
        "documentation_url",
        "icon_url",
        "context_mode",
        "stateless_context",
        "agent_style",
        "stream_shape",
        "result_in",
        "files",
        "busy",
        "refusal_state",
        "reply_wait_s",
        "on_reply_wait",
        "task_deadline_s",
        "queued_send",
        "on_restart",
        "streaming",
    )
)
# Keys of backends that lead out of the agent itself: `tools` calls the targets of the gateway with
# their credentials, `turn_log` is a file of the machine, and `device_identity` proves that it is
# this gateway.
_OF_OPERATORS: Final = frozenset(("tools", "turn_log", "device_identity"))


class Tables(Struct, frozen=True):
    """The two tables of an agent that the gateway takes as a configuration has them."""

    backend: Table
    settings: Table = {}


def tables_of(row: AgentRow) -> Tables:
    return msgspec.json.decode(row.tables.reveal(), type=Tables)


def sealed(tables: Tables) -> Secret:
    """Raises InvalidParams for tables that are too large."""
    body = msgspec.json.encode(tables)
    if len(body) > MAX_TABLE_BYTES:
        raise InvalidParams.at(
            "backend", f"is larger than {MAX_TABLE_BYTES} bytes of JSON, together with settings"
        )
    return Secret(body.decode())


def published_table(row: AgentRow) -> dict[str, Any]:
    """The table of the agent as the directory takes it."""
    tables = tables_of(row)
    table: dict[str, Any] = {
        **tables.settings,
        **row.limits.profile_keys(),
        "name": row.name,
        "description": row.description or row.tagline,
        "profile": row.profile,
        "backend": dict(tables.backend),
    }
    if row.skills:
        table["skills"] = [_skill_table(skill) for skill in row.skills]
    return table


def _skill_table(skill: Skill) -> dict[str, Any]:
    given = {name: getattr(skill, name) for name in Skill.__struct_fields__}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items() if v}


def check_tables(tables: Tables, *, by: Principal, owner_backends: Sequence[str]) -> None:
    """What this caller may put into the tables of an agent. Raises InvalidParams."""
    if masked := next(_masked(tables.backend, "backend"), None) or next(
        _masked(tables.settings, "settings"), None
    ):
        raise InvalidParams.at(
            masked,
            "is the mask of a secret; give the secret itself, or leave the whole table out to "
            "keep what is stored",
        )
    if taken := sorted(_TAKEN.intersection(tables.settings)):
        raise InvalidParams.at(
            f"settings.{taken[0]}", "is decided by the registry, or belongs to a file alone"
        )
    if OPERATOR in by.roles:
        return
    kind = tables.backend.get("kind")
    if kind not in owner_backends:
        allowed = ", ".join(owner_backends) or "none"
        raise InvalidParams.at(
            "backend.kind",
            f"only operators may use this kind of backend; others may use: {allowed} (the key "
            "hub.owner_backends of the gateway)",
        )
    if foreign := sorted(_OF_OPERATORS.intersection(tables.backend)):
        raise InvalidParams.at(f"backend.{foreign[0]}", "only operators may set this key")
    if foreign := sorted(set(tables.settings) - _FOR_OWNERS):
        raise InvalidParams.at(f"settings.{foreign[0]}", "only operators may set this key")


def confined(backend: Table, *, by: Principal, calling: Collection[str]) -> Table:
    """The backend as this caller may have it: an owner makes the gateway call no address that only
    the gateway can reach. Kinds that are `calling` take the key `public_only`."""
    if OPERATOR in by.roles or backend.get("kind") not in calling:
        return backend
    return {**backend, "public_only": True}


def _masked(value: Any, path: str) -> Iterator[str]:
    match value:
        case "***":
            yield path
        case dict():
            for key, item in value.items():
                yield from _masked(item, f"{path}.{key}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _masked(item, f"{path}[{index}]")
        case _:
            pass


def masked(table: Table, secrets: Sequence[str]) -> dict[str, Any]:
    """The table with every secret in it replaced by a mask."""
    hidden = {secret for secret in secrets if secret}

    def walk(value: Any) -> Any:
        match value:
            case str():
                return "***" if value in hidden else value
            case dict():
                return {key: walk(item) for key, item in value.items()}
            case list() | tuple():
                return [walk(item) for item in value]
            case _:
                return value

    return {key: walk(item) for key, item in table.items()}
