"""The `a2a` section of OpenClaw's integration design, as an agent with `openclaw-design`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trunkline.config.secret import Secret
from trunkline.model.errors import ConfigError
from trunkline.settings.environment import secret_of
from trunkline.settings.openclaw.values import (
    choice,
    flag,
    holds_user,
    mapping_at,
    number,
    path_of,
    text,
    text_of,
    web_url,
)

HANDLE = "openclaw-design/main"
PRINCIPAL = "openclaw"
NAME = "OpenClaw Agent"
AGENT_ID = "main"
DATABASE = "~/.openclaw/data/a2a-tasks.db"
ROOT_CARD = "/.well-known/agent-card.json"

# The keys that `agentCard` may override, with our key for each. The gateway writes all others.
CARD_KEYS = {
    "version": "version",
    "provider": "provider",
    "documentationUrl": "documentation_url",
    "iconUrl": "icon_url",
    "defaultInputModes": "input_modes",
    "defaultOutputModes": "output_modes",
    "skills": "skills",
}
# Our key of the agent, and the key of `a2a.server` that it comes from.
SERVER_KEYS = {
    "agent_id": "agentId",
    "account_id": "accountId",
    "public_url": "publicUrl",
    "jsonrpc_path": "path",
    "rest_path": "path",
}


# The modes that attach the agent to the relay of the section, and our key of each of its keys.
RELAY_MODES = ("relay", "both")
RELAY_KEYS = {"url": "url", "tenant": "tenant", "agents": "agentId", "token": "token"}


class Design(Struct, frozen=True, kw_only=True):
    # The table of the agent, as far as the section alone decides it.
    agent: dict[str, Any]
    # Skills with a description that only authenticated callers may read.
    hidden_skills: list[dict[str, str]]
    api_key: Secret | None
    # In which header the key is sent; empty: in either.
    scheme: str
    # The table of the relay; empty in the mode direct.
    relay: dict[str, Any]


def parse_design(document: Mapping[str, Any]) -> Design | None:
    """None when the document has no server or has it switched off. Raises ConfigError."""
    a2a, server = mapping_at(document, "a2a"), mapping_at(document, "a2a", "server")
    if not server or not flag(a2a, "enabled", "a2a") or not flag(server, "enabled", "a2a.server"):
        return None
    mode = choice(server, "mode", ("direct", *RELAY_MODES), "a2a.server") or "direct"
    agent, card = mapping_at(document, "agent"), mapping_at(a2a, "agentCard")
    tasks = mapping_at(a2a, "tasks")
    key, scheme = _auth(server, a2a)
    name = text_of(agent.get("name")) or text_of(card.get("name")) or NAME
    path = _path(server)
    skills, hidden = _skills(document)
    return Design(
        agent={
            "name": name,
            "description": text_of(agent.get("description"))
            or text_of(card.get("description"))
            or name,
            "profile": "openclaw-design",
            "jsonrpc_path": path,
            "rest_path": f"{path.rstrip('/')}/rest",
            "public_url": "" if mode == "relay" else _public_url(server, mode),
            "agent_id": _id("agentId", server, a2a) or AGENT_ID,
            "account_id": _id("accountId", server, a2a),
            "streaming": flag(a2a, "streaming", "a2a"),
            "retention_s": number(tasks, "ttlDays", "a2a.tasks", default=7.0) * 86400,
            "task_deadline_s": number(tasks, "timeoutMinutes", "a2a.tasks", default=30.0) * 60,
            "skills": skills,
            **_overrides(card),
        },
        hidden_skills=[] if "skills" in card else hidden,
        api_key=key,
        scheme=scheme,
        relay=_relay(server, mode) if mode in RELAY_MODES else {},
    )


def uses_relay(a2a: Mapping[str, Any]) -> bool:
    """Whether the section `a2a` has a server that attaches to a relay."""
    server = mapping_at(a2a, "server")
    is_on = a2a.get("enabled") is not False and server.get("enabled") is not False
    return is_on and server.get("mode") in RELAY_MODES


def _relay(server: Mapping[str, Any], mode: str) -> dict[str, Any]:
    raw, where = server.get("relay"), "a2a.server.relay"
    if not isinstance(raw, Mapping):
        raise ConfigError(
            f'{where} is required in mode "{mode}": an object with '
            f"{', '.join(RELAY_KEYS.values())}."
        )
    for key in raw:
        if key not in RELAY_KEYS.values():
            raise ConfigError(
                f"{where}.{key} is not known. Known here: {', '.join(RELAY_KEYS.values())}; the "
                "table [relay] of a TOML file has more, and is given with --config."
            )
    values = {key: text(raw, key, where) for key in RELAY_KEYS.values()}
    values = {key: value if key == "token" else value.strip() for key, value in values.items()}
    if missing := [key for key, value in values.items() if not value]:
        remedy = {"token": ' Best as "${A2A_RELAY_TOKEN}".'}.get(missing[0], "")
        raise ConfigError(f'{where}.{missing[0]} is required in mode "{mode}".{remedy}')
    return {
        "url": values["url"],
        "tenant": values["tenant"],
        "agents": {values["agentId"]: HANDLE},
        "token": secret_of(values["token"]),
        "mode": mode,
    }


def _path(server: Mapping[str, Any]) -> str:
    path = path_of(text(server, "path", "a2a.server"))
    return (path.rstrip("/") or "/") if path else "/a2a"


def _public_url(server: Mapping[str, Any], mode: str) -> str:
    written = text(server, "publicUrl", "a2a.server")
    if not written:
        raise ConfigError(
            f'a2a.server.publicUrl is required in mode "{mode}"; give the URL at which others '
            'reach this gateway, for example "https://my-agent.example.com".'
        )
    url = web_url(written)
    if not url or holds_user(url):
        raise ConfigError(
            "a2a.server.publicUrl must be an http or https URL without user and password, for "
            'example "https://my-agent.example.com".'
        )
    return url


def _id(key: str, server: Mapping[str, Any], a2a: Mapping[str, Any]) -> str:
    return text(server if key in server else a2a, key, "a2a.server").strip()


def _auth(server: Mapping[str, Any], a2a: Mapping[str, Any]) -> tuple[Secret | None, str]:
    """The key, and the scheme that says in which header it is sent."""
    raw = server.get("auth", a2a.get("auth"))
    if raw is None:
        return None, ""
    if not isinstance(raw, Mapping):
        raise ConfigError("a2a.server.auth must be an object with scheme and apiKey.")
    scheme = choice(raw, "scheme", ("bearer", "apiKey"), "a2a.server.auth")
    key = text(raw, "apiKey", "a2a.server.auth")
    if not key:
        raise ConfigError(
            "a2a.server.auth.apiKey is required; without it nobody could call. "
            'Best as "${NAME_OF_VARIABLE}".'
        )
    return secret_of(key), scheme


def _overrides(card: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in card.items():
        if key in ("name", "description"):
            continue
        if key not in CARD_KEYS:
            raise ConfigError(
                f"a2a.agentCard.{key} cannot be set; the gateway writes it from what it serves. "
                f"Remove it. Known here: name, description, {', '.join(CARD_KEYS)}."
            )
        made[CARD_KEYS[key]] = _renamed_modes(value) if key == "skills" else value
    return made


def _renamed_modes(skills: Any) -> Any:
    """A skill of a card has two keys that we spell differently."""
    names = {"inputModes": "input_modes", "outputModes": "output_modes"}
    return [
        {names.get(key, key): value for key, value in skill.items()}
        if isinstance(skill, Mapping)
        else skill
        for skill in (skills if isinstance(skills, list) else [skills])
    ]


def _skills(document: Mapping[str, Any]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Skills and exposed tools for all callers, and those that authenticated callers see with their
    description. Of several with one name, the first counts."""
    public: dict[str, dict[str, str]] = {}
    hidden: list[dict[str, str]] = []
    for key in ("skills", "tools"):
        for raw in document.get(key, ()):
            name, expose = text_of(raw.get("name")), raw.get("expose")
            if not name or name in public or (key == "tools" and expose is False):
                continue
            title = text_of(raw.get("displayName")) or name
            description = text_of(raw.get("description"))
            skill = {"id": name, "name": title, "description": title}
            described = skill | {"description": description or title}
            is_open = key == "skills" or expose is True
            public[name] = described if is_open else skill
            if description and not is_open:
                hidden.append(described)
    return list(public.values()), hidden
