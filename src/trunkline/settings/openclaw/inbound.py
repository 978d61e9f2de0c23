"""The inbound accounts of an OpenClaw document, `channels.a2a.accounts`, and the agents with the
preset `openclaw-inbound` that they become.

Names, defaults, leniencies and the texts of errors are those of the OpenClaw inbound plugin, so
that a file which served there serves here.
"""

import os.path
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from trunkline.model.errors import ConfigError
from trunkline.settings.agent_card import SkillSettings
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

# Keys of an account that hold one value: our name, theirs, and how the value is read.
KEYS: Mapping[str, tuple[str, Callable[[Any], str | int]]] = {
    "name": ("label", text_of),
    "description": ("description", text_of),
    "agent_id": ("defaultAgentId", text_of),
    "session_store": ("sessionStore", text_of),
    "v03_protocol_version": ("protocolVersion", text_of),
    "agent_card_path": ("agentCardPath", path_of),
    "jsonrpc_path": ("jsonRpcPath", path_of),
    "max_body_bytes": ("maxBodyBytes", positive_integer),
}
# Our key of an agent, and the key of the account that it comes from.
NAMES = {
    **{ours: theirs for ours, (theirs, _) in KEYS.items()},
    "public_url": "publicBaseUrl",
    "input_modes": "defaultInputModes",
    "output_modes": "defaultOutputModes",
    "store": "taskStore",
}
# The keys of an account that its agent has with the same value.
SAME = (
    *("name", "public_url", "v03_protocol_version", "agent_card_path", "jsonrpc_path"),
    *("max_body_bytes", "agent_style", "origin_routing_policy"),
)


class TaskStore(Struct, frozen=True, kw_only=True):
    kind: Literal["memory", "json-file"] = "memory"
    path: str = ""


CHAT = SkillSettings(id="chat", name="Chat")


class Account(Struct, frozen=True, kw_only=True):
    """An account, with our name for each of its keys."""

    id: str
    enabled: bool = True
    name: str
    description: str = ""
    # Without a slash at the end; empty when the account has no valid URL.
    public_url: str = ""
    agent_id: str = ""
    session_store: str = ""
    v03_protocol_version: str = "0.3.0"
    agent_card_path: str = "/.well-known/agent-card.json"
    jsonrpc_path: str = "/a2a/jsonrpc"
    max_body_bytes: int = 1048576
    input_modes: tuple[str, ...] = MODES
    output_modes: tuple[str, ...] = MODES
    # Whether the file names the modes; if so, they override those of the agent itself.
    names_input_modes: bool = False
    names_output_modes: bool = False
    agent_style: str = "hybrid"
    origin_routing_policy: str = "suppress-generic-followup"
    store: TaskStore = TaskStore()
    skills: tuple[SkillSettings, ...] = (CHAT,)

    @property
    def idle_reason(self) -> str:
        """The reason why the account does not run; empty when it runs."""
        if not self.enabled:
            return DISABLED
        return "" if self.public_url else UNCONFIGURED


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
        return Account(id=account_id, name=account_id, enabled=False)


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
    inputs = _input_modes(raw, prefix)
    outputs = distinct(texts_of(raw.get("defaultOutputModes")))
    found: dict[str, Any] = {
        **{ours: read(raw.get(theirs)) for ours, (theirs, read) in KEYS.items()},
        "public_url": _public_base_url(raw.get("publicBaseUrl"), prefix),
        "input_modes": inputs,
        "output_modes": outputs,
        "agent_style": choice(raw, "agentStyle", STYLES, prefix),
        "origin_routing_policy": choice(raw, "originRoutingPolicy", POLICIES, prefix),
        "store": _task_store(raw, prefix),
        "skills": _skills(raw.get("skills")),
    }
    return Account(
        id=account_id,
        enabled=raw.get("enabled") is not False,
        names_input_modes=bool(inputs),
        names_output_modes=bool(outputs),
        # A value that is absent or does not fit leaves the default.
        **{"name": account_id} | {key: value for key, value in found.items() if value},
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


def _skills(value: Any) -> tuple[SkillSettings, ...]:
    """Entries without id or name are left out, and so is a second one of the same id."""
    skills: dict[str, SkillSettings] = {}
    for raw in value if isinstance(value, list) else ():
        if not isinstance(raw, Mapping):
            continue
        skill = SkillSettings(
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
        for path in (account.agent_card_path, account.jsonrpc_path) if account.enabled else ():
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
        path = account.store.path
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
    own_store = account.store.kind == "json-file" or keeps_memory
    # Without modes in the file, the modes of the agent itself hold.
    modes = {
        **({"input_modes": account.input_modes} if account.names_input_modes else {}),
        **({"output_modes": account.output_modes} if account.names_output_modes else {}),
    }
    return {
        **{key: getattr(account, key) for key in SAME},
        "description": account.description or DESCRIPTION,
        "version": VERSION,
        "profile": "openclaw-inbound",
        "default": default,
        "backend": dict(backend),
        "agent_id": account.agent_id or AGENT_ID,
        "account_id": account.id,
        **modes,
        "skills": [
            {**asdict(skill), "description": skill.description or skill.name, **modes}
            for skill in account.skills
        ],
        "unavailable": account.idle_reason,
        **({"store": asdict(account.store)} if own_store else {}),
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
