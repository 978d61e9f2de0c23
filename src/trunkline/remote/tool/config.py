"""`ToolConfig`: the configuration of the tool, read from the document of the plugin."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.errors import ConfigError
from trunkline.remote.target import CARD_PATH, TRANSPORTS, Target, merged
from trunkline.remote.tool.ajv import is_uri

_PREFIX: Final = "Invalid openclaw-a2a-outbound config: "
# Names that a configuration may hold; GRPC is known, and refused where it is enforced.
_KNOWN_TRANSPORTS: Final = (*TRANSPORTS, "GRPC")


_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class InvalidConfig(ConfigError, TypeError):
    pass


class Defaults(Struct, frozen=True, kw_only=True):
    timeout_ms: int = 120_000
    # Even a busy stream ends here. An hour is longer than hosts let a tool run.
    max_stream_ms: int = 3_600_000
    # The result of a stream holds all its events; no answer in use has as many.
    max_stream_events: int = 100_000
    card_path: str = CARD_PATH
    transports: tuple[str, ...] = TRANSPORTS
    service_parameters: Mapping[str, str] = {}


class TaskHandleSettings(Struct, frozen=True, kw_only=True):
    ttl_ms: int = 86_400_000
    max_entries: int = 1000
    # False: handles end with the process, as they do in the plugin.
    durable: bool = True


class Policy(Struct, frozen=True, kw_only=True):
    accepted_output_modes: tuple[str, ...] = ()
    normalize_base_url: bool = True
    enforce_supported_transports: bool = True
    allow_target_url_override: bool = False


class ToolConfig(Struct, frozen=True, kw_only=True):
    enabled: bool = False
    defaults: Defaults = Defaults()
    targets: tuple[Target, ...] = ()
    task_handles: TaskHandleSettings = TaskHandleSettings()
    policy: Policy = Policy()

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple([target.alias for target in self.targets])

    @property
    def default_target(self) -> Target | None:
        return next((target for target in self.targets if target.default), None)

    def target_named(self, alias: str) -> Target | None:
        return next((target for target in self.targets if target.alias == alias), None)

    def spelling(self, url: str) -> str | None:
        """The URL in the form in which targets are compared; None if it is unusable."""
        plain = normalized(url)
        return plain if plain is None or self.policy.normalize_base_url else url


def normalized(url: str) -> str | None:
    """The URL in its normal form; None if it cannot be the URL of an agent.

    A user or password in a URL would reach summaries and logs, so it is refused.
    """
    if not is_uri(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    if parts.scheme not in _DEFAULT_PORTS or not host or "@" in parts.netloc:
        return None
    where = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        where = f"{where}:{port}"
    return urlunsplit((parts.scheme, where, parts.path.rstrip("/") or "/", parts.query, ""))


def parse_config(document: object) -> ToolConfig:
    """The plugin's document. Scalars that do not fit fall back; wrong targets raise."""
    root = _table(document)
    defaults = _defaults(_table(root.get("defaults")))
    handles, policy = _table(root.get("taskHandles")), _table(root.get("policy"))
    return ToolConfig(
        enabled=root.get("enabled") is True,
        defaults=defaults,
        targets=_targets(root.get("targets"), defaults),
        task_handles=TaskHandleSettings(
            ttl_ms=_positive(handles.get("ttlMs"), TaskHandleSettings().ttl_ms),
            max_entries=_positive(handles.get("maxEntries"), TaskHandleSettings().max_entries),
            durable=_flag(handles.get("durable"), True),
        ),
        policy=Policy(
            accepted_output_modes=_texts(policy.get("acceptedOutputModes")),
            normalize_base_url=_flag(policy.get("normalizeBaseUrl"), True),
            enforce_supported_transports=_flag(policy.get("enforceSupportedTransports"), True),
            allow_target_url_override=_flag(policy.get("allowTargetUrlOverride"), False),
        ),
    )


def with_usable_targets(config: ToolConfig) -> ToolConfig:
    """The configuration with targets that are ready to be called; raises for a wrong URL."""
    targets = []
    for index, target in enumerate(config.targets):
        url = config.spelling(target.url)
        if url is None:
            raise InvalidConfig(
                f"Invalid URL: targets[{index}].baseUrl of {target.alias!r} is no absolute "
                "http or https URL without user and password"
            )
        # Default headers may hold keys for the configured agents. They become part of those
        # targets, so a URL that came with a request does not get them.
        headers = merged(config.defaults.service_parameters, target.headers)
        targets.append(replace(target, url=url, headers=headers))
    return replace(config, targets=tuple(targets))


def _defaults(table: Mapping[str, Any]) -> Defaults:
    plain = Defaults()
    return Defaults(
        timeout_ms=_positive(table.get("timeoutMs"), plain.timeout_ms),
        max_stream_ms=_positive(table.get("maxStreamMs"), plain.max_stream_ms),
        max_stream_events=_positive(table.get("maxStreamEvents"), plain.max_stream_events),
        card_path=_text(table.get("cardPath")) or plain.card_path,
        transports=_transports(table.get("preferredTransports"), plain.transports),
        service_parameters=_string_map(table.get("serviceParameters")),
    )


def _targets(given: object, defaults: Defaults) -> tuple[Target, ...]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise InvalidConfig(f"{_PREFIX}targets must be an array")
    targets: list[Target] = []
    for index, entry in enumerate(given):
        target = _target(entry, f"targets[{index}]", defaults)
        if any(other.alias == target.alias for other in targets):
            raise InvalidConfig(f'{_PREFIX}targets contains duplicate alias "{target.alias}"')
        first = next((other for other in targets if other.default), None)
        if target.default and first is not None:
            raise InvalidConfig(
                f"{_PREFIX}targets contains multiple default entries "
                f'("{first.alias}" and "{target.alias}")'
            )
        targets.append(target)
    return tuple(targets)


def _target(entry: object, where: str, defaults: Defaults) -> Target:
    if not isinstance(entry, Mapping):
        raise InvalidConfig(f"{_PREFIX}{where} must be an object")
    for name in ("alias", "baseUrl"):
        if not _text(entry.get(name)):
            raise InvalidConfig(f"{_PREFIX}{where}.{name} must be a non-empty string")
    return Target(
        alias=_text(entry["alias"]),
        url=_text(entry["baseUrl"]),
        description=_text(entry.get("description")),
        tags=_texts(entry.get("tags")),
        card_path=_text(entry.get("cardPath")) or defaults.card_path,
        transports=_transports(entry.get("preferredTransports"), defaults.transports),
        examples=_texts(entry.get("examples")),
        default=entry.get("default") is True,
        headers=_string_map(entry.get("headers")),
    )


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else ()
    return tuple(dict.fromkeys([text for text in map(_text, items) if text]))


def _positive(value: object, default: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return int(value) if 1 <= value < 2**53 else default


def _flag(value: object, default: bool) -> bool:
    return value if isinstance(value, bool) else default


def _transports(value: object, default: tuple[str, ...]) -> tuple[str, ...]:
    known = [name for name in _texts(value) if name in _KNOWN_TRANSPORTS]
    return tuple(dict.fromkeys(known)) or default


def _string_map(value: object) -> dict[str, str]:
    return {name: text for name, text in _table(value).items() if isinstance(text, str)}
