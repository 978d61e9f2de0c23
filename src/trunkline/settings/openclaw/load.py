"""Settings from an `openclaw.json`, with a TOML file and flags on top."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trunkline.config.problems import InvalidSettings, Problem
from trunkline.model.errors import ConfigError
from trunkline.settings.environment import expand, literal
from trunkline.settings.load import Document, from_document, merged, python_backend, read_toml
from trunkline.settings.openclaw import a2a_section, inbound, listen_address, outbound
from trunkline.settings.openclaw.a2a_section import Design, parse_design
from trunkline.settings.openclaw.file import read
from trunkline.settings.openclaw.inbound import Accounts, parse_accounts
from trunkline.settings.openclaw.values import mapping_at
from trunkline.settings.root import Settings

ECHO: Document = {"kind": "echo"}


class OpenClaw(Struct, frozen=True, kw_only=True):
    settings: Settings
    # Remarks for the person who starts the gateway.
    notes: tuple[str, ...] = ()


def load_openclaw(
    path: str | Path,
    *,
    target: str | None = None,
    config: str | Path | None = None,
    overrides: Document | None = None,
    environment: Mapping[str, str] = os.environ,
) -> OpenClaw:
    """The accounts and the server of the file. The Python agent of `target` answers for all.

    `config` is a TOML file whose keys win over the file, as `overrides` win over both. Raises
    ConfigError.
    """
    document = _filled(path, environment, _relevant_part)
    try:
        accounts, server = parse_accounts(document), parse_design(document)
        calls = outbound.document_of(document)
        above = merged(read_toml(Path(config)) if config is not None else {}, overrides or {})
        # A host in the TOML file or on the command line wins, so gateway.bind may be wrong then.
        has_host = bool(mapping_at(above, "server").get("host"))
        host = "" if has_host else listen_address.host_of(mapping_at(document, "gateway"))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from None
    made = _document(accounts, server, above, ECHO if target is None else python_backend(target))
    made |= calls
    if host:
        made["server"] = {"host": host}
    if not made["agents"] and not calls and not _says_enough(above):
        raise ConfigError(f"{path}: {_nothing(accounts)}")

    def renamed(problem: Problem) -> Problem:
        problem = outbound.renamed(problem, document)
        is_above = has_host and problem.path == ("server", "host")
        is_of_relay = problem.path[:1] == ("relay",) and bool(above.get("relay"))
        return problem if is_above or is_of_relay else _renamed(problem, accounts)

    settings = _settings(made, above, path, config, environment, renamed)
    return OpenClaw(
        settings=settings,
        notes=tuple(_notes(document, accounts, settings, has_target=target is not None)),
    )


def load_openclaw_targets(
    path: str | Path,
    *,
    config: str | Path | None = None,
    overrides: Document | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """The agents to call. The agents to serve are not read.

    `config` and `overrides` are as above. Raises ConfigError.
    """
    document = _filled(path, environment, outbound.relevant_part)
    try:
        made = outbound.document_of(document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from None
    above = merged(read_toml(Path(config)) if config is not None else {}, overrides or {})
    if not made and not _says_enough(above):
        raise ConfigError(
            f"{path}: there is nobody to call. Add a target below {outbound.WHERE}.config.targets, "
            "or an agent below a2a.client.agents."
        )
    return _settings(
        made, above, path, config, environment, lambda one: outbound.renamed(one, document)
    )


def _settings(
    made: Document,
    above: Document,
    path: str | Path,
    config: str | Path | None,
    environment: Mapping[str, str],
    renamed: Callable[[Problem], Problem],
) -> Settings:
    """Settings from `made`, with the keys of `above` on top. `renamed` gives a problem the name
    that its key has in the file."""
    try:
        return from_document(
            merged(literal(made), above),
            folder=Path(config).absolute().parent if config is not None else None,
            source=str(path) if config is None else f"{path} with {config}",
            environment=environment,
        )
    except InvalidSettings as error:
        found = [renamed(problem) for problem in error.problems]
        raise InvalidSettings(found, source=error.source) from None


def _filled(
    path: str | Path, environment: Mapping[str, str], relevant_part: Callable[[Document], Document]
) -> Document:
    problems: list[Problem] = []
    filled: Document = expand(
        relevant_part(read(Path(path))), environment=environment, problems=problems
    )
    if problems:
        raise InvalidSettings(problems, source=str(path))
    return filled


def _relevant_part(document: Document) -> Document:
    """The part of the file that is read. The rest may refer to variables that are not set."""
    a2a = dict(mapping_at(document, "a2a"))
    if "server" in a2a and not a2a_section.uses_relay(a2a):
        a2a["server"] = _without(mapping_at(a2a, "server"), "relay")
    calls = outbound.relevant_part(document)
    agent = mapping_at(document, "agent")
    return {
        "channels": {"a2a": dict(mapping_at(document, "channels", "a2a"))},
        "a2a": {**a2a, **calls.pop("a2a")},
        "agent": {key: agent[key] for key in ("name", "description") if key in agent},
        "gateway": listen_address.relevant_part(mapping_at(document, "gateway")),
        "skills": _entries(document.get("skills")),
        "tools": _entries(document.get("tools")),
        **calls,
    }


def _says_enough(above: Document) -> bool:
    return any(above.get(key) for key in ("agents", "targets", "remote"))


def _entries(listed: Any) -> list[Any]:
    # OpenClaw also has objects of these names, with another meaning.
    keys = ("name", "displayName", "description", "expose")
    return [
        {key: item[key] for key in keys if key in item}
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, Mapping)
    ]


def _without(raw: Document, key: str) -> Document:
    return {name: value for name, value in raw.items() if name != key}


def _document(
    accounts: Accounts, server: Design | None, above: Document, backend: Document
) -> dict[str, Any]:
    has_store = bool(above.get("store"))
    has_keys = bool(mapping_at(above, "auth", "keys")) or bool(server and server.api_key)
    others = mapping_at(above, "agents").values()
    has_default = any(isinstance(other, Mapping) and other.get("default") for other in others)
    default_id = "" if has_default else accounts.default_id
    agents = {
        handle: inbound.agent_of(
            account,
            backend=backend,
            default=account.id == default_id and not account.idle_reason,
            keeps_memory=not has_store,
        )
        for handle, account in inbound.handles(accounts).items()
    }
    document: dict[str, Any] = {"agents": agents, "auth": {}}
    if server is not None:
        taken = [agent["agent_card_path"] for agent in agents.values()]
        ids = [account.id for account in accounts.all]
        is_at_root = not has_default and a2a_section.ROOT_CARD not in taken
        free_id = a2a_section.HANDLE if "default" in ids else "default"
        extends = has_keys and server.hidden_skills
        agents[a2a_section.HANDLE] = {
            **server.agent,
            "backend": dict(backend),
            "account_id": server.agent["account_id"] or free_id,
            "default": not has_default and not any(agent["default"] for agent in agents.values()),
            **({"agent_card_path": a2a_section.ROOT_CARD} if is_at_root else {}),
            **({"extended_card": {"skills": server.hidden_skills}} if extends else {}),
        }
        document["store"] = {"kind": "sqlite", "path": a2a_section.DATABASE}
        if server.api_key is not None:
            document["auth"]["keys"] = {a2a_section.PRINCIPAL: {"key": server.api_key}}
        if server.scheme:
            document["auth"]["schemes"] = [server.scheme]
        if server.relay:
            document["relay"] = server.relay
    is_relayed_only = server is not None and server.relay.get("mode") == "relay"
    if not has_keys and not (is_relayed_only and not accounts.all):
        # Without a key, the file describes an open endpoint. It is served on loopback.
        document["auth"]["anonymous"] = "always"
    return document


def _nothing(accounts: Accounts) -> str:
    if not accounts.all:
        return (
            "there is nothing to serve. Add an account below channels.a2a.accounts, or the "
            "section a2a.server."
        )
    account = accounts.find(accounts.default_id)
    return (
        f"no account is enabled. channels.a2a.accounts.{account.id}: {account.idle_reason} "
        "Set enabled: true."
    )


def _renamed(problem: Problem, accounts: Accounts) -> Problem:
    """The problem under the name that the key has in the file."""
    match problem.path:
        case ("server", "host"):
            return replace(problem, path=("gateway", "bind"))
        case ("agents", a2a_section.HANDLE, str(key)) if key in a2a_section.SERVER_KEYS:
            return replace(problem, path=("a2a", "server", a2a_section.SERVER_KEYS[key]))
        case ("agents", a2a_section.HANDLE, str(key), *rest):
            of_card = {ours: theirs for theirs, ours in a2a_section.CARD_KEYS.items()}
            return replace(problem, path=("a2a", "agentCard", of_card.get(key, key), *rest))
        case ("relay", str(key), *_) if key in a2a_section.RELAY_KEYS:
            return replace(problem, path=("a2a", "server", "relay", a2a_section.RELAY_KEYS[key]))
        case ("auth", "keys", a2a_section.PRINCIPAL, "key"):
            return replace(problem, path=("a2a", "server", "auth", "apiKey"))
        case ("agents", str(handle), str(key), *rest):
            account = inbound.handles(accounts).get(handle)
            if account is None:
                return problem
            keys = ("channels", "a2a", "accounts", account.id, inbound.NAMES.get(key, key))
            return replace(problem, path=(*keys, *rest))
        case _:
            return problem


def _notes(
    document: Document, accounts: Accounts, settings: Settings, *, has_target: bool
) -> Iterator[str]:
    if not has_target and any(not agent.unavailable for agent in settings.agents.values()):
        yield (
            "no agent of yours is behind this: the echo agent answers. Run your own with "
            "trunkline serve FILE.py --openclaw-config …"
        )
    for account in accounts.all:
        if account.idle_reason:
            yield f'account "{account.id}" does not run. {account.idle_reason}'
        if account.session_store:
            yield f'account "{account.id}": sessionStore is not used; sessions are kept with tasks.'
    if settings.allows_anonymous() and settings.is_exposed():
        urls = " and ".join(dict.fromkeys(settings.public_urls().values()))
        yield (
            f"no key is required: anyone who reaches {urls} may call and can see the tasks "
            "of all callers without a key. To require a key, add [auth.keys.NAME] with a key to a "
            "TOML file and give it with --config."
        )
    if outbound.is_off(document):
        yield f"remote_agent is off: {outbound.WHERE}.config.enabled is not true."
