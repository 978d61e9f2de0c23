"""Settings of one published agent."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from trunkline.model.profile import Profile
from trunkline.settings.backends import BackendSettings
from trunkline.settings.server import StoreSettings

DEFAULT_MODES = ("text/plain", "application/json")


class SkillSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A skill on the agent card."""

    id: Annotated[str, Meta(min_length=1, description="Unique within the agent.")]
    name: Annotated[str, Meta(description="Display name. Empty: the id.")] = ""
    description: Annotated[str, Meta(description="What the skill does. Empty: the name.")] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Keywords.")] = ()
    examples: Annotated[tuple[str, ...], Meta(description="Example prompts.")] = ()
    input_modes: Annotated[
        tuple[str, ...], Meta(description="Media types that it accepts. Empty: those of the agent.")
    ] = ()
    output_modes: Annotated[
        tuple[str, ...],
        Meta(description="Media types that it produces. Empty: those of the agent."),
    ] = ()


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Provider of the agent."""

    organization: Annotated[str, Meta(min_length=1, description="Name of the organization.")]
    url: Annotated[str, Meta(description="Web site, http or https.")]


class ExtensionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A protocol extension that the agent declares."""

    uri: Annotated[str, Meta(description="Absolute URI that identifies the extension.")]
    description: Annotated[str, Meta(description="How the agent uses it.")] = ""
    required: Annotated[
        bool, Meta(description="Refuse requests that do not declare the extension.")
    ] = False
    params: Annotated[
        dict[str, Any] | None, Meta(description="Parameters of the extension, in any form.")
    ] = None


class ExtendedCardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Card for authenticated callers; empty keys keep the public value."""

    name: Annotated[str, Meta(description="Replaces the public name.")] = ""
    description: Annotated[str, Meta(description="Replaces the public description.")] = ""
    skills: Annotated[
        tuple[SkillSettings, ...],
        Meta(description="Additional skills. A skill with the id of a public skill replaces it."),
    ] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...],
        Meta(description="Additional extensions."),
    ] = ()
    documentation_url: Annotated[str, Meta(description="Replaces the public URL.")] = ""


class AgentSettings(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published agent. Its table is named after the handle, `[agents."owner/slug"]`.

    The keys of its profile stand beside these, in the same table.
    """

    name: Annotated[
        str,
        Meta(
            description="Display name. Optional with a `python` or `a2a` backend: the name, "
            "description and skills of the agent itself fill the keys that are "
            "missing here."
        ),
    ] = ""
    description: Annotated[str, Meta(description="Purpose of the agent.")] = ""
    version: Annotated[str, Meta(min_length=1, description="Version of the agent.")] = "1.0.0"
    default: Annotated[
        bool,
        Meta(
            description="Also serve it at `/.well-known/agent-card.json`, `/a2a/jsonrpc` and "
            "`/a2a/rest`. The only agent of a file is the default."
        ),
    ] = False
    profile: Annotated[
        Literal["standard", "openclaw-inbound", "openclaw-design", "hub"],
        Meta(
            description="Preset of the profile. Any key of the profile may be set beside it and"
            " overrides it."
        ),
    ] = "standard"
    backend: Annotated[
        BackendSettings,
        Meta(
            description='Backend that runs the agent, for example `{ kind = "echo" }`; see its '
            "kinds."
        ),
    ]
    skills: Annotated[tuple[SkillSettings, ...], Meta(description="Skills on the card.")] = ()
    input_modes: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(
            description="Media types that the agent accepts. Absent: the types that a Python "
            "agent or the card of the upstream agent names, else text and JSON."
        ),
    ] = None
    output_modes: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(description="Media types that the agent produces. Absent: as for `input_modes`."),
    ] = None
    provider: Annotated[
        ProviderSettings | None, Meta(description="Provider of the agent, on the card.")
    ] = None
    documentation_url: Annotated[
        str, Meta(description="URL of the documentation, on the card.")
    ] = ""
    icon_url: Annotated[str, Meta(description="URL of an icon, on the card.")] = ""
    tenants: Annotated[
        tuple[str, ...], Meta(description="Accepted tenants. Empty: any tenant.")
    ] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...], Meta(description="Protocol extensions on the card.")
    ] = ()
    extended_card: Annotated[
        ExtendedCardSettings | None,
        Meta(
            description="Additions to the card for authenticated callers. Absent: no extended card."
        ),
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
            description="Base URL on the card of this agent; overrides `server.public_url`. It "
            "may have a path."
        ),
    ] = ""
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum size of a request body for this agent. 0: "
            "`server.max_body_bytes`.",
        ),
    ] = 0
    v03_protocol_version: Annotated[
        str, Meta(min_length=1, description="`protocolVersion` on the 0.3 card.")
    ] = "0.3.0"
    unavailable: Annotated[
        str,
        Meta(
            description="Reason why the agent is out of service: its addresses answer 503, and "
            "its backend is not started. Empty: in service."
        ),
    ] = ""
    agent_id: Annotated[
        str, Meta(description="Name of the agent in its session keys. Empty: the slug.")
    ] = ""
    account_id: Annotated[
        str, Meta(description="Account that the backend is told. Empty: the handle.")
    ] = ""
    store: Annotated[
        StoreSettings | None,
        Meta(description="Store of this agent, with the keys of `[store]`. Absent: `[store]`."),
    ] = None

    def own_profile(self) -> Profile:
        """The keys of the profile alone."""
        return Profile(**{name: getattr(self, name) for name in Profile.__struct_fields__})
