"""The `a2a` section of OpenClaw's integration design, as an agent with `openclaw-design`."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from trunkline.config.secret import Secret
from trunkline.model.errors import ConfigError
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
from trunkline.settings.references import secret_of

HANDLE = "openclaw-design/main"
PRINCIPAL = "openclaw"
NAME = "OpenClaw Agent"
AGENT_ID = "main"
DATABASE = "~/.openclaw/data/a2a-tasks.db"
ROOT_CARD = "/.well-known/agent-card.json"

# What `agentCard` may override, and our key for it. The rest follows from what is served.
CARD_KEYS = {
    "version": "version",
    "provider": "provider",
    "documentationUrl": "documentation_url",
    "iconUrl": "icon_url",
    "defaultInputModes": "input_modes",
    "defaultOutputModes": "output_modes",
    "skills": "skills",
}


class Entry(Struct, frozen=True, kw_only=True):
    """A skill or an exposed tool."""

    name: str
    title: str = ""
    description: str = ""
    # Whether everybody may read the description.
    is_open: bool = True


class Design(Struct, frozen=True, kw_only=True):
    name: str = NAME
    description: str = ""
    path: str = "/a2a"
    public_url: str
    api_key: Secret | None = None
    # In which header the key is sent; empty: in either.
    scheme: str = ""
    agent_id: str = AGENT_ID
    account_id: str = ""
    streaming: bool = True
    ttl_days: float = 7.0
    timeout_minutes: float = 30.0
    card: Mapping[str, Any] = {}
    entries: tuple[Entry, ...] = ()


def parse_design(document: Mapping[str, Any]) -> Design | None:
    """None when the document has no server or has it switched off. Raises ConfigError."""
    a2a, server = mapping_at(document, "a2a"), mapping_at(document, "a2a", "server")
    if not server or not flag(a2a, "enabled", "a2a") or not flag(server, "enabled", "a2a.server"):
        return None
    _check_mode(server)
    tasks = mapping_at(a2a, "tasks")
    card = mapping_at(a2a, "agentCard")
    agent = mapping_at(document, "agent")
    key, scheme = _auth(server, a2a)
    return Design(
        name=text_of(agent.get("name")) or text_of(card.get("name")) or NAME,
        description=text_of(agent.get("description")) or text_of(card.get("description")),
        path=_path(server),
        public_url=_public_url(server),
        api_key=key,
        scheme=scheme,
        agent_id=_id("agentId", server, a2a) or AGENT_ID,
        account_id=_id("accountId", server, a2a),
        streaming=flag(a2a, "streaming", "a2a"),
        ttl_days=number(tasks, "ttlDays", "a2a.tasks", default=7.0),
        timeout_minutes=number(tasks, "timeoutMinutes", "a2a.tasks", default=30.0),
        card=_overrides(card),
        entries=tuple(_entries(document)),
    )


def agent_of(
    design: Design,
    *,
    backend: Mapping[str, Any],
    account_id: str,
    has_keys: bool,
    at_root: bool,
    default: bool,
) -> dict[str, Any]:
    """The table of the agent.

    `has_keys`: there are callers who may see the extended card. `at_root`: its card is at the
    well-known address of the host as well.
    """
    public = [_skill(entry, described=entry.is_open) for entry in design.entries]
    hidden = [
        _skill(entry, described=True)
        for entry in design.entries
        if entry.description and not entry.is_open
    ]
    extends = has_keys and "skills" not in design.card and bool(hidden)
    return {
        "name": design.name,
        "description": design.description or design.name,
        "profile": "openclaw-design",
        "default": default,
        "backend": dict(backend),
        "public_url": design.public_url,
        "jsonrpc_path": design.path,
        "rest_path": f"{design.path.rstrip('/')}/rest",
        **({"agent_card_path": ROOT_CARD} if at_root else {}),
        "agent_id": design.agent_id,
        "account_id": account_id,
        "streaming": design.streaming,
        "retention_s": design.ttl_days * 86400,
        "task_deadline_s": design.timeout_minutes * 60,
        "skills": public,
        **({"extended_card": {"skills": hidden}} if extends else {}),
        **design.card,
    }


def _check_mode(server: Mapping[str, Any]) -> None:
    mode = choice(server, "mode", ("direct", "relay", "both"), "a2a.server") or "direct"
    if mode != "direct":
        raise ConfigError(
            f'a2a.server.mode "{mode}" is not available in this release; set it to "direct" and '
            "give a2a.server.publicUrl."
        )


def _path(server: Mapping[str, Any]) -> str:
    path = path_of(text(server, "path", "a2a.server"))
    return (path.rstrip("/") or "/") if path else "/a2a"


def _public_url(server: Mapping[str, Any]) -> str:
    written = text(server, "publicUrl", "a2a.server")
    if not written:
        raise ConfigError(
            'a2a.server.publicUrl is required in mode "direct"; give the URL at which others '
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


def _entries(document: Mapping[str, Any]) -> Iterator[Entry]:
    """Skills, then exposed tools; of several with one name, the first."""
    seen: set[str] = set()
    for key in ("skills", "tools"):
        for raw in document.get(key, ()):
            name = text_of(raw.get("name"))
            is_hidden = key == "tools" and raw.get("expose") is False
            if not name or is_hidden or name in seen:
                continue
            seen.add(name)
            yield Entry(
                name=name,
                title=text_of(raw.get("displayName")),
                description=text_of(raw.get("description")),
                is_open=key == "skills" or raw.get("expose") is True,
            )


def _skill(entry: Entry, *, described: bool) -> dict[str, Any]:
    title = entry.title or entry.name
    description = entry.description if described else ""
    return {"id": entry.name, "name": title, "description": description or title}
