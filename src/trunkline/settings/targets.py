"""Settings of the agents that are called, and of the tool that calls them."""

from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Annotated, Literal

from msgspec import Struct

from trunkline.config import doc
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
from trunkline.settings.stores import StoreSettings, data_dir, own_folder

HANDLES_NAME = "handles.db"
MAX_ALIAS_CHARS = 100


class NetworkSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which addresses the gateway calls."""

    allow_private_addresses: Annotated[
        bool,
        doc(
            "For development: call loopback, private and other special addresses also "
            "where only another agent names them, in its card. Whoever writes such a card can "
            "then reach whatever this machine can. Prefer `trusted_origins`."
        ),
    ] = False


class TargetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A remote agent to call. The name of its table is the alias."""

    base_url: Annotated[
        str, doc("Base URL of the agent, to which `card_path` is added, or the URL of its card.")
    ]
    description: Annotated[
        str, doc("Purpose of the target. Empty: the description on its card.")
    ] = ""
    tags: Annotated[tuple[str, ...], doc("Keywords to select it by.")] = ()
    examples: Annotated[tuple[str, ...], doc("Example prompts.")] = ()
    default: Annotated[bool, doc("Use this target when a request names none.")] = False
    card_path: Annotated[
        str, doc("Path of its card below `base_url`. Empty: `remote.card_path`.")
    ] = ""
    transports: Annotated[
        tuple[str, ...], doc("Bindings in order of preference. Empty: `remote.transports`.")
    ] = ()
    a2a_version: A2aVersion = ""
    headers: Headers = {}
    credentials: Credentials = None
    trusted_origins: TrustedOrigins = ()
    timeout_s: Annotated[
        float, doc("Maximum seconds for a request to it. 0: `remote.timeout_s`.", ge=0)
    ] = 0.0
    idempotency: Annotated[
        Literal["auto", "always", "never"],
        doc(
            "Whether a send carries an idempotency key, so that it can be repeated "
            "safely. `auto`: only for agents that announce support."
        ),
    ] = "auto"
    card_keys: Annotated[
        tuple[str, ...],
        doc(
            "Public keys that may sign its card, each as PEM, JWK or JWK Set. Needs"
            " the extra `signatures`."
        ),
    ] = ()
    require_signature: Annotated[
        bool, doc("Accept only cards that are signed with one of `card_keys`.")
    ] = False


class RemoteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool `remote_agent`, with which models call the targets."""

    enabled: Annotated[bool, doc("Offer the tools through `trunkline tool` and MCP.")] = True
    tools: Annotated[
        tuple[Literal["remote_agent", "a2a_send"], ...],
        doc(
            "The tools that are offered: `remote_agent` with all actions, and "
            "`a2a_send`, which sends one message and returns the answer.",
            min_length=1,
        ),
    ] = ("remote_agent", "a2a_send")
    mcp: Annotated[
        bool,
        doc("Serve the tools over MCP at `/mcp` to callers of the gateway. Needs the extra `mcp`."),
    ] = False
    max_mcp_sessions: Annotated[
        int, doc("MCP sessions at `/mcp`, over all callers; one more gets 503.", ge=1)
    ] = 1000
    max_mcp_sessions_per_caller: Annotated[
        int, doc("MCP sessions of one caller; one more gets 429.", ge=1)
    ] = 100
    mcp_idle_s: Annotated[
        float, doc("Seconds after which an MCP session without a request ends.", gt=0)
    ] = 900.0
    timeout_s: Annotated[
        float, doc("Maximum seconds for a request, and between two events of a stream.", gt=0)
    ] = 120.0
    max_stream_s: Annotated[float, doc("Maximum duration of a stream in seconds.", gt=0)] = 3600.0
    max_stream_events: Annotated[
        int, doc("Maximum number of events of one followed task.", ge=1)
    ] = 100_000
    card_path: Annotated[str, doc("Default path of a target's card.", min_length=1)] = CARD_PATH
    transports: Annotated[tuple[str, ...], doc("Default bindings of a target.", min_length=1)] = (
        TRANSPORTS
    )
    headers: Annotated[
        dict[str, Secret], doc("Headers for all configured targets. Other agents do not get them.")
    ] = {}
    accepted_output_modes: Annotated[
        tuple[str, ...], doc("Media types to request when a request names none. Empty: any.")
    ] = ()
    allow_target_url: Annotated[
        bool,
        doc(
            "Allow requests to any URL, not only to the targets. A manipulated "
            "model can then reach everything that this machine can reach."
        ),
    ] = False
    normalize_urls: Annotated[
        bool, doc("Treat URLs that differ only in spelling as the same URL.")
    ] = True
    enforce_transports: Annotated[
        bool, doc("Refuse unsupported bindings at the start instead of at the first use.")
    ] = True
    handle_ttl_s: Annotated[
        float, doc("Lifetime of a task handle after its last use, in seconds.", gt=0)
    ] = 86_400.0
    max_handles: Annotated[
        int, doc("Maximum number of task handles; the least recently used is dropped first.", ge=1)
    ] = 1000
    durable_handles: Annotated[
        bool, doc("Keep task handles in a file, so that they survive a restart.")
    ] = True
    handles_path: Annotated[
        str,
        doc(
            "File of the task handles. Relative paths start at the folder of this "
            "file. Empty: `handles.db` beside the SQLite database of `[store]`, in the "
            "`path` of a PostgreSQL store, or in the user's data folder."
        ),
    ] = ""


def handles_path(remote: RemoteSettings, store: StoreSettings) -> File:
    """The file of the task handles."""
    if remote.handles_path:
        return File(remote.handles_path)
    has_own = store.kind in ("sqlite", "postgres")
    folder = own_folder(store) if has_own else data_dir()
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
