"""Inbound accounts as agents with the preset `openclaw-inbound`."""

from collections.abc import Iterator, Mapping
from typing import Any

from trunkline.settings.openclaw.accounts import Account, Accounts, TaskStore
from trunkline.settings.target import slug
from trunkline.version import VERSION

OWNER = "openclaw"
DESCRIPTION = "Expose an OpenClaw agent as an inbound A2A endpoint."
AGENT_ID = "main"

# Our key of an agent → the key of the account that it was made of.
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
        "skills": [*_skills(account)],
        "unavailable": account.idle_reason,
        **({"store": _store(store)} if own_store else {}),
    }


def _store(store: TaskStore) -> dict[str, Any]:
    return {"kind": store.kind, "path": store.path}


def _skills(account: Account) -> Iterator[dict[str, Any]]:
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
    """Those that the account names; others are up to the agent, and then the same."""
    inputs, outputs = account.default_input_modes, account.default_output_modes
    return {
        **({"input_modes": [*inputs]} if account.names_input_modes else {}),
        **({"output_modes": [*outputs]} if account.names_output_modes else {}),
    }


def _free_handle(account_id: str, taken: Mapping[str, object]) -> str:
    """Ids that differ in case or signs alone have the same slug; the later one gets a number."""
    handle = first = f"{OWNER}/{slug(account_id)}"
    number = 2
    while handle in taken:
        handle = f"{first}-{number}"
        number += 1
    return handle
