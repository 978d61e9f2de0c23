"""The inbound accounts of an OpenClaw document, `channels.a2a.accounts`, and the agents with the
preset `openclaw-inbound` that they become.

Names, defaults, leniencies and the texts of errors are those of the OpenClaw inbound plugin, so
that a file which served there serves here.
"""

import os.path
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from trunkline.model.errors import ConfigError
from trunkline.settings.agents import slug
from trunkline.settings.openclaw.values import (
    choice,
    distinct,
    holds_user,
    mapping_at,
    path_of,
    positive_integer,
    quoted,
    text_of,
    texts_of,
    web_url,
)
from trunkline.version import VERSION

MODES = ("text/plain", "application/json")
FORBIDDEN = ("restPath", "capabilities", "auth")
STYLES = ("hybrid", "task-generating")
POLICIES = ("legacy-origin-routing", "suppress-generic-followup")
UNCONFIGURED = "publicBaseUrl is required to advertise a valid agent card."
DISABLED = "This A2A inbound account is disabled."

OWNER = "openclaw"
DESCRIPTION = "Expose an OpenClaw agent as an inbound A2A endpoint."
AGENT_ID = "main"

# Our key of an agent, and the key of the account that it comes from.
NAMES = {
    "name": "label",
    "description": "description",
    "public_url": "publicBaseUrl",
    "agent_id": "defaultAgentId",
    "v03_protocol_version": "protocolVersion",
    "agent_card_path": "agentCardPath",
    "jsonrpc_path": "jsonRpcPath",
    "max_body_bytes": "maxBodyBytes",
    "input_modes": "defaultInputModes",
    "output_modes": "defaultOutputModes",
    "store": "taskStore",
}


class Skill(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class TaskStore(Struct, frozen=True, kw_only=True):
    kind: Literal["memory", "json-file"] = "memory"
    path: str = ""


CHAT = Skill(id="chat", name="Chat")


class Account(Struct, frozen=True, kw_only=True):
    id: str
    enabled: bool = True
    label: str
    description: str = ""
    # Without a slash at the end; empty when the account has no valid URL.
    public_base_url: str = ""
    default_agent_id: str = ""
    session_store: str = ""
    protocol_version: str = "0.3.0"
    agent_card_path: str = "/.well-known/agent-card.json"
    json_rpc_path: str = "/a2a/jsonrpc"
    max_body_bytes: int = 1048576
    default_input_modes: tuple[str, ...] = MODES
    default_output_modes: tuple[str, ...] = MODES
    # Whether the file names the modes; if so, they override those of the agent itself.
    names_input_modes: bool = False
    names_output_modes: bool = False
    agent_style: str = "hybrid"
    origin_routing_policy: str = "suppress-generic-followup"
    task_store: TaskStore = TaskStore()
    skills: tuple[Skill, ...] = (CHAT,)

    @property
    def idle_reason(self) -> str:
        """The reason why the account does not run; empty when it runs."""
        if not self.enabled:
            return DISABLED
        return "" if self.public_base_url else UNCONFIGURED


class Accounts(Struct, frozen=True, kw_only=True):
    """The accounts, in the order of their ids."""

    all: tuple[Account, ...] = ()

    @property
    def default_id(self) -> str:
        enabled = [account.id for account in self.all if account.enabled]
        return next(iter((*enabled, *(account.id for account in self.all))), "default")

    def find(self, account_id: str) -> Account:
        """The account of that id. An account that is not configured counts as disabled."""
        for account in self.all:
            if account.id == account_id:
                return account
        return Account(id=account_id, label=account_id, enabled=False)


def parse_accounts(document: Mapping[str, Any]) -> Accounts:
    """The accounts of the document. Raises ConfigError with the first fault of each account."""
    raw = mapping_at(document, "channels", "a2a", "accounts")
    accounts: list[Account] = []
    faults: list[str] = []
    for account_id in sorted(raw):
        try:
            accounts.append(_account(account_id, raw[account_id]))
        except ConfigError as fault:
            faults.append(fault.message)
    faults += [*_shared_routes(accounts), *_shared_stores(accounts)]
    if faults:
        raise ConfigError("\n".join(faults))
    return Accounts(all=tuple(accounts))


def _account(account_id: str, value: Any) -> Account:
    raw: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    prefix = _prefix(account_id)
    for key in FORBIDDEN:
        if key in raw:
            raise ConfigError(
                f'{prefix}.{key} is not supported; remove "{key}" from the A2A inbound account '
                "config."
            )
    known = Account(id=account_id, label=text_of(raw.get("label")) or account_id)
    enabled = raw.get("enabled")
    inputs = _input_modes(raw, prefix)
    outputs = distinct(texts_of(raw.get("defaultOutputModes")))
    return Account(
        id=account_id,
        label=known.label,
        enabled=enabled if isinstance(enabled, bool) else True,
        description=text_of(raw.get("description")),
        public_base_url=_public_base_url(raw.get("publicBaseUrl"), prefix),
        default_agent_id=text_of(raw.get("defaultAgentId")),
        session_store=text_of(raw.get("sessionStore")),
        protocol_version=text_of(raw.get("protocolVersion")) or known.protocol_version,
        agent_card_path=path_of(raw.get("agentCardPath")) or known.agent_card_path,
        json_rpc_path=path_of(raw.get("jsonRpcPath")) or known.json_rpc_path,
        max_body_bytes=positive_integer(raw.get("maxBodyBytes")) or known.max_body_bytes,
        default_input_modes=inputs or known.default_input_modes,
        default_output_modes=outputs or known.default_output_modes,
        names_input_modes=bool(inputs),
        names_output_modes=bool(outputs),
        agent_style=choice(raw, "agentStyle", STYLES, prefix) or known.agent_style,
        origin_routing_policy=choice(raw, "originRoutingPolicy", POLICIES, prefix)
        or known.origin_routing_policy,
        task_store=_task_store(raw, prefix),
        skills=_skills(raw.get("skills")) or known.skills,
    )


def _prefix(account_id: str) -> str:
    return f"channels.a2a.accounts.{account_id}"


def _public_base_url(value: Any, prefix: str) -> str:
    url = web_url(text_of(value))
    if holds_user(url):
        raise ConfigError(
            f"{prefix}.publicBaseUrl must not hold a user name or password; "
            "anyone can read it on the agent card."
        )
    return url


def _input_modes(raw: Mapping[str, Any], prefix: str) -> tuple[str, ...]:
    if "defaultInputModes" not in raw:
        return ()
    key, known = f"{prefix}.defaultInputModes", ", ".join(MODES)
    modes = raw["defaultInputModes"]
    if not isinstance(modes, list) or not all(isinstance(mode, str) for mode in modes):
        raise ConfigError(f"{key} must contain only supported string values: {known}.")
    for mode in modes:
        if mode not in MODES:
            raise ConfigError(f"{key} only supports {known}; received {quoted(mode)}.")
    return distinct(modes)


def _task_store(raw: Mapping[str, Any], prefix: str) -> TaskStore:
    if "taskStore" not in raw:
        return TaskStore()
    key, store = f"{prefix}.taskStore", raw["taskStore"]
    if not isinstance(store, Mapping):
        raise ConfigError(f"{key} must be an object when provided.")
    kind = store.get("kind")
    if kind == "memory":
        return TaskStore()
    if kind != "json-file":
        raise ConfigError(f'{key}.kind must be either "memory" or "json-file".')
    path = text_of(store.get("path"))
    if not os.path.isabs(path):
        raise ConfigError(
            f'{key}.path must be a non-empty absolute path when taskStore.kind is "json-file".'
        )
    return TaskStore(kind="json-file", path=os.path.normpath(path))


def _skills(value: Any) -> tuple[Skill, ...]:
    """Entries without id or name are left out, and so is a second one of the same id."""
    skills: dict[str, Skill] = {}
    for raw in value if isinstance(value, list) else ():
        if not isinstance(raw, Mapping):
            continue
        skill = Skill(
            id=text_of(raw.get("id")),
            name=text_of(raw.get("name")),
            description=text_of(raw.get("description")),
            tags=texts_of(raw.get("tags")),
            examples=texts_of(raw.get("examples")),
        )
        if skill.id and skill.name:
            skills.setdefault(skill.id, skill)
    return tuple(skills.values())


def _shared_routes(accounts: Iterable[Account]) -> Iterable[str]:
    """Routes that two accounts have. A disabled account has no routes."""
    owners: dict[str, str] = {}
    for account in accounts:
        for path in (account.agent_card_path, account.json_rpc_path) if account.enabled else ():
            if path in owners:
                yield (
                    f"{_prefix(account.id)} reuses route path {quoted(path)} already assigned to "
                    f'account "{owners[path]}"'
                )
            owners.setdefault(path, account.id)


def _shared_stores(accounts: Iterable[Account]) -> Iterable[str]:
    """Stores that two accounts have. A disabled account keeps its records and its store."""
    owners: dict[str, str] = {}
    for account in accounts:
        path = account.task_store.path
        if path and path in owners:
            yield (
                f"{_prefix(account.id)}.taskStore.path reuses json-file task store path "
                f'{quoted(path)} already assigned to account "{owners[path]}".'
            )
        owners.setdefault(path, account.id)


def handles(accounts: Accounts) -> dict[str, Account]:
    """The enabled accounts by the handle that each is published under."""
    found: dict[str, Account] = {}
    for account in accounts.all:
        if account.enabled:
            found[_free_handle(account.id, found)] = account
    return found


def agent_of(
    account: Account, *, backend: Mapping[str, Any], default: bool, keeps_memory: bool
) -> dict[str, Any]:
    """The table of the agent. `keeps_memory`: a store in memory is a store of its own."""
    store = account.task_store
    own_store = store.kind == "json-file" or keeps_memory
    return {
        "name": account.label,
        "description": account.description or DESCRIPTION,
        "version": VERSION,
        "profile": "openclaw-inbound",
        "default": default,
        "backend": dict(backend),
        "agent_style": account.agent_style,
        "origin_routing_policy": account.origin_routing_policy,
        "public_url": account.public_base_url,
        "agent_id": account.default_agent_id or AGENT_ID,
        "account_id": account.id,
        "v03_protocol_version": account.protocol_version,
        "agent_card_path": account.agent_card_path,
        "jsonrpc_path": account.json_rpc_path,
        "max_body_bytes": account.max_body_bytes,
        **_modes(account),
        "skills": [*_skill_tables(account)],
        "unavailable": account.idle_reason,
        **({"store": {"kind": store.kind, "path": store.path}} if own_store else {}),
    }


def _skill_tables(account: Account) -> Iterator[dict[str, Any]]:
    for skill in account.skills:
        yield {
            "id": skill.id,
            "name": skill.name,
            "description": skill.description or skill.name,
            "tags": [*skill.tags],
            "examples": [*skill.examples],
            **_modes(account),
        }


def _modes(account: Account) -> dict[str, Any]:
    """The modes that the account names. Without them, the modes of the agent itself hold."""
    inputs, outputs = account.default_input_modes, account.default_output_modes
    return {
        **({"input_modes": [*inputs]} if account.names_input_modes else {}),
        **({"output_modes": [*outputs]} if account.names_output_modes else {}),
    }


def _free_handle(account_id: str, taken: Mapping[str, object]) -> str:
    """A handle that is not taken. Ids that differ only in case or signs have the same slug, so the
    later one gets a number."""
    handle = first = f"{OWNER}/{slug(account_id)}"
    number = 2
    while handle in taken:
        handle = f"{first}-{number}"
        number += 1
    return handle
