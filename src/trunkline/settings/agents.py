"""Settings of one published agent."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from trunkline.model.profile import Profile
from trunkline.settings.backends import BackendSettings
from trunkline.settings.server import StoreSettings

DEFAULT_MODES = ("text/plain", "application/json")


class SkillSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A skill as the agent card shows it."""

    id: Annotated[str, Meta(min_length=1, description="Unique within the agent.")]
    name: Annotated[str, Meta(description="Name for people. Empty: the id.")] = ""
    description: Annotated[str, Meta(description="What it does. Empty: the name.")] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Words to find it by.")] = ()
    examples: Annotated[tuple[str, ...], Meta(description="Prompts that it handles well.")] = ()
    input_modes: Annotated[
        tuple[str, ...], Meta(description="Media types it takes. Empty: those of the agent.")
    ] = ()
    output_modes: Annotated[
        tuple[str, ...], Meta(description="Media types it gives. Empty: those of the agent.")
    ] = ()


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who offers the agent."""

    organization: Annotated[str, Meta(min_length=1, description="Name of the organization.")]
    url: Annotated[str, Meta(description="Its web site, http or https.")]


class ExtensionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A protocol extension that the agent declares."""

    uri: Annotated[str, Meta(description="Identifies the extension; an absolute URI.")]
    description: Annotated[str, Meta(description="How the agent uses it.")] = ""
    required: Annotated[
        bool, Meta(description="Refuse requests that do not declare the extension.")
    ] = False
    params: Annotated[
        dict[str, Any] | None, Meta(description="Parameters of the extension, free in form.")
    ] = None


class ExtendedCardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What only authenticated callers see in the card; empty keys keep the public value."""

    name: Annotated[str, Meta(description="Name instead of the public one.")] = ""
    description: Annotated[str, Meta(description="Description instead of the public one.")] = ""
    skills: Annotated[
        tuple[SkillSettings, ...],
        Meta(
            description="Skills in addition to the public ones. One with the id of a public skill "
            "takes its place."
        ),
    ] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...],
        Meta(description="Extensions in addition to the public ones."),
    ] = ()
    documentation_url: Annotated[str, Meta(description="Instead of the public one.")] = ""


class AgentSettings(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published agent. Its table is named after the handle, `[agents."owner/slug"]`.

    The keys of its profile stand beside these, in the same table.
    """

    name: Annotated[
        str,
        Meta(
            description="Name for people. May be empty with a `python` or `a2a` backend: then the "
            "agent's own name, description and skills are taken where this table has none."
        ),
    ] = ""
    description: Annotated[str, Meta(description="What the agent is for.")] = ""
    version: Annotated[str, Meta(min_length=1, description="The agent's own version.")] = "1.0.0"
    default: Annotated[
        bool,
        Meta(
            description="Serve it at `/.well-known/agent-card.json`, `/a2a/jsonrpc` and "
            "`/a2a/rest` as well. A sole agent is the default."
        ),
    ] = False
    profile: Annotated[
        Literal["standard", "openclaw-inbound", "openclaw-design", "hub"],
        Meta(
            description="Preset of the agent's profile; every key of the profile may be set here "
            "as well, and wins over it."
        ),
    ] = "standard"
    backend: Annotated[
        BackendSettings,
        Meta(description='What runs the agent, for example `{ kind = "echo" }`; see its kinds.'),
    ]
    skills: Annotated[tuple[SkillSettings, ...], Meta(description="Skills on the card.")] = ()
    input_modes: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Media types the agent takes.")
    ] = DEFAULT_MODES
    output_modes: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Media types the agent gives.")
    ] = DEFAULT_MODES
    provider: Annotated[
        ProviderSettings | None, Meta(description="Who offers the agent, on the card.")
    ] = None
    documentation_url: Annotated[
        str, Meta(description="Documentation for people, on the card.")
    ] = ""
    icon_url: Annotated[str, Meta(description="Picture of the agent, on the card.")] = ""
    tenants: Annotated[
        tuple[str, ...], Meta(description="Tenants that are accepted. Empty: any tenant.")
    ] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...], Meta(description="Protocol extensions on the card.")
    ] = ()
    extended_card: Annotated[
        ExtendedCardSettings | None,
        Meta(description="Adds to the card for authenticated callers. Absent: no extended card."),
    ] = None
    agent_card_path: Annotated[
        str, Meta(description="Path of the card. Empty: the standard address.")
    ] = ""
    jsonrpc_path: Annotated[
        str, Meta(description="Path of the JSON-RPC binding. Empty: the standard address.")
    ] = ""
    rest_path: Annotated[
        str, Meta(description="Root of the HTTP+JSON binding. Empty: the standard address.")
    ] = ""
    public_url: Annotated[
        str,
        Meta(
            description="Base URL on this agent's card in place of `server.public_url`. A path in "
            "it is kept."
        ),
    ] = ""
    max_body_bytes: Annotated[
        int,
        Meta(ge=0, description="Largest request body for this agent; 0: `server.max_body_bytes`."),
    ] = 0
    v03_protocol_version: Annotated[
        str, Meta(min_length=1, description="`protocolVersion` on the 0.3 card.")
    ] = "0.3.0"
    unavailable: Annotated[
        str,
        Meta(
            description="Why the agent does not run now. Its addresses answer 503 and nothing is "
            "started for it. Empty: it runs."
        ),
    ] = ""
    agent_id: Annotated[
        str, Meta(description="Name of the agent in its session keys. Empty: the slug.")
    ] = ""
    account_id: Annotated[
        str, Meta(description="Account in what the backend is told. Empty: the handle.")
    ] = ""
    store: Annotated[
        StoreSettings | None,
        Meta(description="A store of its own, with the keys of `[store]`. Absent: that one."),
    ] = None

    def own_profile(self) -> Profile:
        """The keys of the profile alone."""
        return Profile(**{name: getattr(self, name) for name in Profile.__struct_fields__})
