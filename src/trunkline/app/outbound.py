"""Targets and the tool `remote_agent`, made of the settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trunkline.config.problems import did_you_mean
from trunkline.config.secret import revealed
from trunkline.model.addresses import without_password
from trunkline.model.errors import ConfigError
from trunkline.remote.credentials import credentials_of
from trunkline.remote.target import Target
from trunkline.remote.tool import (
    Defaults,
    Policy,
    RemoteAgentTool,
    TaskHandleSettings,
    ToolConfig,
    open_remote_agent,
)
from trunkline.remote.tool.a2a_send import A2aSend
from trunkline.remote.tool.config import normalized, with_usable_targets
from trunkline.remote.tool.failures import ToolFailure
from trunkline.settings import Settings
from trunkline.settings.stores import make_private_dir
from trunkline.settings.targets import TargetSettings, handles_path


def tool_config(settings: Settings) -> ToolConfig:
    """The configuration of the tool, with the targets in the order of the file."""
    remote = settings.remote
    return ToolConfig(
        enabled=remote.enabled,
        defaults=Defaults(
            timeout_ms=_ms(remote.timeout_s),
            max_stream_ms=_ms(remote.max_stream_s),
            max_stream_events=remote.max_stream_events,
            card_path=remote.card_path,
            transports=remote.transports,
            service_parameters=revealed(remote.headers),
        ),
        targets=tuple(
            _target(alias, target, settings) for alias, target in settings.targets.items()
        ),
        task_handles=TaskHandleSettings(
            ttl_ms=_ms(remote.handle_ttl_s),
            max_entries=remote.max_handles,
            durable=remote.durable_handles,
        ),
        policy=Policy(
            accepted_output_modes=tuple(dict.fromkeys(remote.accepted_output_modes)),
            normalize_base_url=remote.normalize_urls,
            enforce_supported_transports=remote.enforce_transports,
            allow_target_url_override=remote.allow_target_url,
        ),
    )


def target_for(settings: Settings, url_or_alias: str) -> Target:
    """The configured target of that alias or URL, else the agent at the URL.

    An empty text means the default target. Raises ConfigError.
    """
    config = with_usable_targets(tool_config(settings))
    named = config.target_named(url_or_alias) if url_or_alias else config.default_target
    if named is not None:
        return named
    if "://" not in url_or_alias:
        raise ConfigError(_unknown(without_password(url_or_alias), config.aliases))
    url = normalized(url_or_alias)
    if url is None:
        raise ConfigError(
            f'"{without_password(url_or_alias)[:200]}" is not the URL of an agent. Give an http '
            "or https URL without user and password; credentials belong in [targets.ALIAS]."
        )
    same = [target for target in config.targets if target.url == url]
    if len(same) > 1:
        names = ", ".join(target.alias for target in same)
        raise ConfigError(f"several targets have the URL {url}. Name one of them: {names}.")
    # Headers of [remote] may be keys; they are for configured targets alone.
    remote = settings.remote
    fresh = Target(
        url=url,
        card_path=remote.card_path,
        transports=remote.transports,
        allow_private=settings.network.allow_private_addresses,
    )
    return same[0] if same else fresh


@asynccontextmanager
async def open_tool(settings: Settings) -> AsyncIterator[RemoteAgentTool]:
    """`remote_agent` as the settings have it. Raises ConfigError."""
    remote = settings.remote
    if not remote.enabled:
        raise ConfigError("remote_agent is off. Set enabled = true in [remote].")
    handles = handles_path(remote, settings.store) if remote.durable_handles else None
    if handles is not None:
        make_private_dir(handles.parent, table="remote", key="handles_path")
    try:
        async with open_remote_agent(tool_config(settings), handles=handles) as tool:
            yield tool
    except ToolFailure as failure:
        raise ConfigError(failure.message) from None


@asynccontextmanager
async def open_a2a_send(settings: Settings) -> AsyncIterator[A2aSend]:
    """`a2a_send` over a client of its own. Raises ConfigError."""
    async with open_tool(settings) as remote_agent:
        yield A2aSend(remote_agent)


def _target(alias: str, given: TargetSettings, settings: Settings) -> Target:
    remote = settings.remote
    return Target(
        url=given.base_url,
        card_path=given.card_path or remote.card_path,
        transports=given.transports or remote.transports,
        version=given.a2a_version,
        alias=alias,
        description=given.description,
        tags=tuple(dict.fromkeys(given.tags)),
        examples=tuple(dict.fromkeys(given.examples)),
        default=given.default,
        headers=revealed(given.headers),
        credentials=credentials_of(given.credentials),
        idempotency=given.idempotency,
        card_keys=given.card_keys,
        require_signature=given.require_signature,
        trusted_origins=given.trusted_origins,
        allow_private=settings.network.allow_private_addresses,
        timeout_s=given.timeout_s or remote.timeout_s,
    )


def _unknown(alias: str, aliases: tuple[str, ...]) -> str:
    if not alias:
        return "no target is named and none is the default. Name one, or set default = true."
    known = f"Known: {', '.join(aliases)}." if aliases else "None is configured."
    looks_like_url = "." in alias or ":" in alias or "/" in alias or alias == "localhost"
    hint = f'For a URL, write its scheme: "https://{alias}". ' if looks_like_url else ""
    return f'there is no target "{alias}". {did_you_mean(alias, aliases)}{hint}{known}'


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
