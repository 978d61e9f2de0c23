"""Settings of the agents that are called, and of the tool that calls them."""

from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trunkline.config.called_agents import (
    CARD_PATH,
    TRANSPORTS,
    A2aVersion,
    Credentials,
    Headers,
    TrustedOrigins,
    card_path_problems,
    header_problems,
    origin_problems,
    transport_problems,
    url_problems,
)
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.secret import Secret
from trunkline.settings.stores import StoreSettings, data_dir, database_path

HANDLES_NAME = "handles.db"
MAX_ALIAS_CHARS = 100


class NetworkSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which addresses the gateway calls."""

    allow_private_addresses: Annotated[
        bool,
        Meta(
            description="For development: call loopback, private and other special addresses also "
            "where only another agent names them, in its card. Whoever writes such a card can "
            "then reach whatever this machine can. Prefer `trusted_origins`."
        ),
    ] = False


class TargetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A remote agent to call. The name of its table is the alias."""

    base_url: Annotated[
        str,
        Meta(
            description="Base URL of the agent, to which `card_path` is added, or the URL of "
            "its card."
        ),
    ]
    description: Annotated[
        str, Meta(description="Purpose of the target. Empty: the description on its card.")
    ] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Keywords to select it by.")] = ()
    examples: Annotated[tuple[str, ...], Meta(description="Example prompts.")] = ()
    default: Annotated[bool, Meta(description="Use this target when a request names none.")] = False
    card_path: Annotated[
        str, Meta(description="Path of its card below `base_url`. Empty: `remote.card_path`.")
    ] = ""
    transports: Annotated[
        tuple[str, ...],
        Meta(description="Bindings in order of preference. Empty: `remote.transports`."),
    ] = ()
    a2a_version: A2aVersion = ""
    headers: Headers = {}
    credentials: Credentials = None
    trusted_origins: TrustedOrigins = ()
    timeout_s: Annotated[
        float,
        Meta(ge=0, description="Maximum seconds for a request to it. 0: `remote.timeout_s`."),
    ] = 0.0
    idempotency: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Whether a send carries an idempotency key, so that it can be repeated "
            "safely. `auto`: only for agents that announce support."
        ),
    ] = "auto"
    card_keys: Annotated[
        tuple[str, ...],
        Meta(
            description="Public keys that may sign its card, each as PEM, JWK or JWK Set. Needs"
            " the extra `signatures`."
        ),
    ] = ()
    require_signature: Annotated[
        bool, Meta(description="Accept only cards that are signed with one of `card_keys`.")
    ] = False


class RemoteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool `remote_agent`, with which models call the targets."""

    enabled: Annotated[
        bool, Meta(description="Offer the tools through `trunkline tool` and MCP.")
    ] = True
    tools: Annotated[
        tuple[Literal["remote_agent", "a2a_send"], ...],
        Meta(
            min_length=1,
            description="The tools that are offered: `remote_agent` with all actions, and "
            "`a2a_send`, which sends one message and returns the answer.",
        ),
    ] = ("remote_agent", "a2a_send")
    mcp: Annotated[
        bool,
        Meta(
            description="Serve the tools over MCP at `/mcp` to callers of the gateway. Needs "
            "the extra `mcp`."
        ),
    ] = False
    max_mcp_sessions: Annotated[
        int,
        Meta(ge=1, description="MCP sessions at `/mcp`, over all callers; one more gets 503."),
    ] = 1000
    max_mcp_sessions_per_caller: Annotated[
        int, Meta(ge=1, description="MCP sessions of one caller; one more gets 429.")
    ] = 100
    mcp_idle_s: Annotated[
        float, Meta(gt=0, description="Seconds after which an MCP session without a request ends.")
    ] = 900.0
    timeout_s: Annotated[
        float,
        Meta(
            gt=0, description="Maximum seconds for a request, and between two events of a stream."
        ),
    ] = 120.0
    max_stream_s: Annotated[
        float, Meta(gt=0, description="Maximum duration of a stream in seconds.")
    ] = 3600.0
    max_stream_events: Annotated[
        int, Meta(ge=1, description="Maximum number of events of one followed task.")
    ] = 100_000
    card_path: Annotated[
        str, Meta(min_length=1, description="Default path of a target's card.")
    ] = CARD_PATH
    transports: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Default bindings of a target."),
    ] = TRANSPORTS
    headers: Annotated[
        dict[str, Secret],
        Meta(description="Headers for all configured targets. Other agents do not get them."),
    ] = {}
    accepted_output_modes: Annotated[
        tuple[str, ...],
        Meta(description="Media types to request when a request names none. Empty: any."),
    ] = ()
    allow_target_url: Annotated[
        bool,
        Meta(
            description="Allow requests to any URL, not only to the targets. A manipulated "
            "model can then reach everything that this machine can reach."
        ),
    ] = False
    normalize_urls: Annotated[
        bool, Meta(description="Treat URLs that differ only in spelling as the same URL.")
    ] = True
    enforce_transports: Annotated[
        bool,
        Meta(description="Refuse unsupported bindings at the start instead of at the first use."),
    ] = True
    handle_ttl_s: Annotated[
        float, Meta(gt=0, description="Lifetime of a task handle after its last use, in seconds.")
    ] = 86_400.0
    max_handles: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of task handles; the least recently used is dropped first.",
        ),
    ] = 1000
    durable_handles: Annotated[
        bool, Meta(description="Keep task handles in a file, so that they survive a restart.")
    ] = True
    handles_path: Annotated[
        str,
        Meta(
            description="File of the task handles. Relative paths start at the folder of this "
            "file. Empty: `handles.db` beside the SQLite database of `[store]`, or "
            "in the user's data folder."
        ),
    ] = ""


def handles_path(remote: RemoteSettings, store: StoreSettings) -> File:
    """The file of the task handles."""
    if remote.handles_path:
        return File(remote.handles_path)
    folder = database_path(store).parent if store.kind == "sqlite" else data_dir()
    return folder / HANDLES_NAME


def target_problems(
    targets: Mapping[str, TargetSettings], remote: RemoteSettings
) -> Iterator[Problem]:
    yield from _remote(remote)
    defaults = [alias for alias, target in targets.items() if target.default]
    for alias in defaults[1:]:
        yield bad_value(
            ("targets", alias, "default"),
            f'"{defaults[0]}" is the default target already',
            "Keep default = true in one target only.",
        )
    for alias, target in targets.items():
        yield from _target(alias, target, remote)


def _remote(remote: RemoteSettings) -> Iterator[Problem]:
    if remote.mcp and not remote.enabled:
        yield bad_value(
            ("remote", "mcp"),
            "there is no tool to serve: enabled is false",
            "Set enabled = true, or leave mcp out.",
            reads=(("remote", "enabled"),),
        )
    yield from card_path_problems(remote.card_path, ("remote", "card_path"))
    yield from _transports(remote.transports, ("remote", "transports"), remote)
    yield from header_problems(remote.headers, None, ("remote",))


def _target(alias: str, target: TargetSettings, remote: RemoteSettings) -> Iterator[Problem]:
    path = ("targets", alias)
    if not _is_alias(alias):
        yield Problem(
            path,
            "cannot be an alias",
            f"Use up to {MAX_ALIAS_CHARS} visible characters without :// in them, for "
            "example [targets.support].",
        )
    yield from url_problems(target.base_url, (*path, "base_url"))
    yield from card_path_problems(target.card_path, (*path, "card_path"))
    yield from _transports(target.transports, (*path, "transports"), remote)
    yield from header_problems(target.headers, target.credentials, path)
    yield from origin_problems(target.trusted_origins, (*path, "trusted_origins"))
    yield from _card_keys(target, path)


def _transports(names: tuple[str, ...], path: Path, remote: RemoteSettings) -> Iterator[Problem]:
    if remote.enforce_transports:
        yield from transport_problems(names, path, reads=(("remote", "enforce_transports"),))


def _card_keys(target: TargetSettings, path: Path) -> Iterator[Problem]:
    if target.require_signature and not target.card_keys:
        yield bad_value(
            (*path, "require_signature"),
            "needs a key to check the signature with",
            "Put the public key of the signer into card_keys.",
        )
    if not target.card_keys:
        return
    # Imported here, because it is slow and few configurations have keys.
    from trunkline.remote import InvalidTarget
    from trunkline.remote.card_signatures import CardKeys

    for i, text in enumerate(target.card_keys):
        try:
            CardKeys((text,), is_required=True)
        except InvalidTarget as error:
            yield Problem(
                (*path, "card_keys", i),
                error.message,
                'Example: card_keys = [\'{"kty":"EC","crv":"P-256",…}\'].',
            )


def _is_alias(alias: str) -> bool:
    is_short = 0 < len(alias) <= MAX_ALIAS_CHARS
    return is_short and alias == alias.strip() and alias.isprintable() and "://" not in alias
