"""Agents to call in an OpenClaw document, as `[targets]` and `[remote]`.

They are in the configuration of the outbound plugin, which the tool's own reader reads, so its
defaults, leniencies and errors hold here; and `a2a.client.agents` of the integration design.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from trunkline.config.problems import Problem
from trunkline.model.errors import ConfigError
from trunkline.settings.openclaw.values import flag, mapping_at, text, text_of

PLUGIN: Final = "openclaw-a2a-outbound"
_KEYS: Final = ("plugins", "entries", PLUGIN)
WHERE: Final = f'plugins.entries."{PLUGIN}"'
# Our keys, with the names that they have in the plugin's document.
_TARGET_NAMES: Final = {
    "base_url": "baseUrl",
    "card_path": "cardPath",
    "transports": "preferredTransports",
}
_REMOTE_NAMES: Final = {
    "card_path": ("defaults", "cardPath"),
    "transports": ("defaults", "preferredTransports"),
    "headers": ("defaults", "serviceParameters"),
}


def relevant_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the file that is read. The rest may refer to variables that are not set."""
    a2a, client = mapping_at(document, "a2a"), mapping_at(document, "a2a", "client")
    keys = ("enabled",) if client.get("enabled") is False else ("enabled", "agents")
    kept: dict[str, Any] = {"client": {key: client[key] for key in keys if key in client}}
    if "enabled" in a2a:
        kept["enabled"] = a2a["enabled"]
    entry = mapping_at(document, *_KEYS)
    plugin = {key: entry[key] for key in ("enabled", "config") if key in entry}
    return {"a2a": kept, "plugins": {"entries": {PLUGIN: plugin}}}


def document_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """`targets` and `remote` of our own file. Raises ConfigError, as the plugin does."""
    peers = _peers(document)
    if not mapping_at(document, *_KEYS):
        return {"targets": peers} if peers else {}
    # Imported here because it loads the client, which a gateway without targets does not need.
    from trunkline.remote.tool.config import parse_config

    config = parse_config(_config(document))
    defaults, handles, policy = config.defaults, config.task_handles, config.policy
    targets = {
        target.alias: {
            "base_url": target.url,
            "description": target.description,
            "tags": list(target.tags),
            "examples": list(target.examples),
            "default": target.default,
            "card_path": target.card_path,
            "transports": list(target.transports),
            "headers": dict(target.headers),
        }
        for target in config.targets
    }
    remote: dict[str, Any] = {
        "enabled": not is_off(document),
        "timeout_s": defaults.timeout_ms / 1000,
        "max_stream_s": defaults.max_stream_ms / 1000,
        "max_stream_events": defaults.max_stream_events,
        "card_path": defaults.card_path,
        "transports": list(defaults.transports),
        "headers": dict(defaults.service_parameters),
        "accepted_output_modes": list(policy.accepted_output_modes),
        "allow_target_url": policy.allow_target_url_override,
        "normalize_urls": policy.normalize_base_url,
        "enforce_transports": policy.enforce_supported_transports,
        "handle_ttl_s": handles.ttl_ms / 1000,
        "max_handles": handles.max_entries,
        "durable_handles": handles.durable,
    }
    if targets and not peers:
        # The plugin has one tool; `a2a_send` is for the agents of the integration design.
        remote["tools"] = ["remote_agent"]
    return {"targets": peers | targets, "remote": remote}


def _peers(document: Mapping[str, Any]) -> dict[str, Any]:
    a2a, client = mapping_at(document, "a2a"), mapping_at(document, "a2a", "client")
    if not flag(a2a, "enabled", "a2a") or not flag(client, "enabled", "a2a.client"):
        return {}
    found = {}
    for name, peer in mapping_at(client, "agents").items():
        prefix = f"a2a.client.agents.{name}"
        if not isinstance(peer, Mapping):
            raise ConfigError(f"{prefix} must be an object with a url.")
        url, token = text(peer, "url", prefix), text(peer, "token", prefix)
        if not url:
            raise ConfigError(f"{prefix}.url is required.")
        found[name] = {
            "base_url": url,
            **({"credentials": {"kind": "bearer", "token": token}} if token else {}),
        }
    return found


def is_off(document: Mapping[str, Any]) -> bool:
    """Whether the plugin is configured but it or its tool is not turned on."""
    entry = mapping_at(document, *_KEYS)
    is_on = entry.get("enabled") is not False and _config(document).get("enabled") is True
    return bool(entry) and not is_on


def renamed(problem: Problem, document: Mapping[str, Any]) -> Problem:
    """The problem under the name that the key has in the plugin's document."""
    match problem.path:
        case ("targets", str(alias), *rest):
            index = _index(document, alias)
            if index is None:
                return _of_peer(problem, document, alias, rest)
            names = [_TARGET_NAMES.get(str(step), step) for step in rest] or ["alias"]
            return replace(problem, path=(*_KEYS, "config", "targets", index, *names))
        case ("remote", str(key), *rest) if key in _REMOTE_NAMES and _config(document):
            return replace(problem, path=(*_KEYS, "config", *_REMOTE_NAMES[key], *rest))
        case _:
            return problem


def _of_peer(
    problem: Problem, document: Mapping[str, Any], alias: str, rest: list[str | int]
) -> Problem:
    if alias not in mapping_at(document, "a2a", "client", "agents"):
        return problem
    names = {"base_url": "url", "credentials": "token"}
    key = [names.get(str(step), step) for step in rest[:1]]
    return replace(problem, path=("a2a", "client", "agents", alias, *key))


def _config(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping_at(document, *_KEYS, "config")


def _index(document: Mapping[str, Any], alias: str) -> int | None:
    targets = _config(document).get("targets")
    for index, entry in enumerate(targets if isinstance(targets, list) else ()):
        if isinstance(entry, Mapping) and text_of(entry.get("alias")) == alias:
            return index
    return None
