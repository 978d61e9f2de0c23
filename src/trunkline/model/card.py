"""`AgentCard`: the description of an agent in A2A 1.0."""

from typing import Any

from msgspec import Struct


class AgentInterface(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    url: str
    protocol_binding: str
    tenant: str = ""
    protocol_version: str


class AgentProvider(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    url: str
    organization: str


class AgentExtension(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    uri: str
    description: str = ""
    required: bool = False
    params: dict[str, Any] | None = None


class AgentCapabilities(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    streaming: bool | None = None
    push_notifications: bool | None = None
    extensions: tuple[AgentExtension, ...] = ()
    extended_agent_card: bool | None = None
    # A member of 0.3 that 1.0 has dropped. The gateway reads it on cards of other agents, and
    # writes it on none of its own.
    state_transition_history: bool | None = None


class StringList(Struct, frozen=True, kw_only=True, omit_defaults=True):
    list: tuple[str, ...] = ()


class SecurityRequirement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    schemes: dict[str, StringList] = {}


class AgentSkill(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    security_requirements: tuple[SecurityRequirement, ...] = ()


class ApiKeySecurityScheme(Struct, frozen=True, kw_only=True, omit_defaults=True):
    description: str = ""
    location: str
    name: str


class HttpAuthSecurityScheme(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    description: str = ""
    scheme: str
    bearer_format: str = ""


class SecurityScheme(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Exactly one member is set. The kinds that the gateway cannot check are kept as JSON."""

    api_key_security_scheme: ApiKeySecurityScheme | None = None
    http_auth_security_scheme: HttpAuthSecurityScheme | None = None
    oauth2_security_scheme: dict[str, Any] | None = None
    open_id_connect_security_scheme: dict[str, Any] | None = None
    mtls_security_scheme: dict[str, Any] | None = None


class AgentCardSignature(Struct, frozen=True, kw_only=True, omit_defaults=True):
    protected: str
    signature: str
    header: dict[str, Any] | None = None


class AgentCard(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    name: str
    description: str
    supported_interfaces: tuple[AgentInterface, ...]
    provider: AgentProvider | None = None
    version: str
    documentation_url: str | None = None
    capabilities: AgentCapabilities
    security_schemes: dict[str, SecurityScheme] = {}
    security_requirements: tuple[SecurityRequirement, ...] = ()
    default_input_modes: tuple[str, ...]
    default_output_modes: tuple[str, ...]
    skills: tuple[AgentSkill, ...]
    signatures: tuple[AgentCardSignature, ...] = ()
    icon_url: str | None = None
