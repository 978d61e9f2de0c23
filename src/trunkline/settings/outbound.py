"""Settings of the agents that are called, and of the tool that calls them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from trunkline.settings.credentials import CredentialSettings
from trunkline.settings.secret import Secret

CARD_PATH = "/.well-known/agent-card.json"
TRANSPORTS = ("JSONRPC", "HTTP+JSON")


class TargetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A remote agent that may be called. Its table is named after the alias."""

    base_url: Annotated[
        str,
        Meta(description="Where the agent is: what stands before `card_path`, or its card's URL."),
    ]
    description: Annotated[str, Meta(description="What it is for. Empty: what its card says.")] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Words to choose it by.")] = ()
    examples: Annotated[tuple[str, ...], Meta(description="Prompts that it handles well.")] = ()
    default: Annotated[bool, Meta(description="Take it when a request names no target.")] = False
    card_path: Annotated[
        str, Meta(description="Path of its card below `base_url`. Empty: `remote.card_path`.")
    ] = ""
    transports: Annotated[
        tuple[str, ...],
        Meta(description="Bindings in the order we prefer them. Empty: `remote.transports`."),
    ] = ()
    a2a_version: Annotated[
        Literal["", "1.0", "0.3"],
        Meta(description="Insist on this version of A2A. Empty: the newest that both speak."),
    ] = ""
    headers: Annotated[
        dict[str, Secret],
        Meta(description="Headers that go with every request to it, shown nowhere."),
    ] = {}
    credentials: Annotated[
        CredentialSettings | None,
        Meta(
            description="As whom we call it, for example "
            '`{ kind = "bearer", token = "${TOKEN}" }`; see its kinds.'
        ),
    ] = None
    timeout_s: Annotated[
        float,
        Meta(ge=0, description="Seconds for a request to it. 0: `remote.timeout_s`."),
    ] = 0.0
    idempotency: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Whether a send carries a key by which it can be repeated safely. `auto`: "
            "to agents that say they honour it."
        ),
    ] = "auto"
    card_keys: Annotated[
        tuple[str, ...],
        Meta(
            description="Public keys of whoever may sign its card, each in PEM, as a JWK or as a "
            "JWK Set. Needs the extra `signatures`."
        ),
    ] = ()
    require_signature: Annotated[
        bool, Meta(description="Take no card that is not signed by one of `card_keys`.")
    ] = False


class RemoteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool `remote_agent`, by which models call the targets."""

    enabled: Annotated[bool, Meta(description="Offer the tool, by `trunkline tool` and MCP.")] = (
        True
    )
    mcp: Annotated[
        bool,
        Meta(
            description="Serve the tools over MCP at `/mcp`, to those who may call the gateway. "
            "Needs the extra `mcp`."
        ),
    ] = False
    timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds for a request; of a stream, for its silence.")
    ] = 120.0
    max_stream_s: Annotated[
        float, Meta(gt=0, description="Seconds that a stream may last, however lively it is.")
    ] = 3600.0
    max_stream_events: Annotated[
        int, Meta(ge=1, description="Events that one followed task may have.")
    ] = 100_000
    card_path: Annotated[
        str, Meta(min_length=1, description="Path of the card of a target that has no other.")
    ] = CARD_PATH
    transports: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Bindings of a target that has no others."),
    ] = TRANSPORTS
    headers: Annotated[
        dict[str, Secret],
        Meta(description="Headers for all configured targets, and for nobody else."),
    ] = {}
    accepted_output_modes: Annotated[
        tuple[str, ...],
        Meta(description="Media types to ask for when a request says none. Empty: any."),
    ] = ()
    allow_target_url: Annotated[
        bool,
        Meta(
            description="Let a request name any URL, not only the targets. A model that is talked "
            "into it can then reach whatever this machine can."
        ),
    ] = False
    normalize_urls: Annotated[
        bool, Meta(description="Take URLs that differ in spelling only for the same.")
    ] = True
    enforce_transports: Annotated[
        bool, Meta(description="Refuse bindings that we cannot speak when starting, not when used.")
    ] = True
    handle_ttl_s: Annotated[
        float, Meta(gt=0, description="Seconds that a task handle is good for after its last use.")
    ] = 86_400.0
    max_handles: Annotated[
        int, Meta(ge=1, description="Task handles that are kept; the longest unused goes first.")
    ] = 1000
    durable_handles: Annotated[
        bool, Meta(description="Keep task handles in a file, so that they outlive the process.")
    ] = True
    handles_path: Annotated[
        str,
        Meta(
            description="File of the task handles. Relative paths start at the folder of this "
            "file. Empty: `handles.db` beside the SQLite database of `[store]`, else in the "
            "user's data folder."
        ),
    ] = ""
