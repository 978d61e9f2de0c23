"""Agent cards, and the addresses at which agents are served, made of the settings."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from trunkline.backends.python import Agent
from trunkline.model.card import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    ApiKeySecurityScheme,
    HttpAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from trunkline.protocol.cards import Shape
from trunkline.protocol.dialects import card_shape_of, dialects_for
from trunkline.protocol.hub import HubCard
from trunkline.protocol.versions import Version
from trunkline.settings import AgentSettings, Settings
from trunkline.settings.agent_card import DEFAULT_MODES, ExtensionSettings, SkillSettings
from trunkline.settings.agents import ROOT_PATHS
from trunkline.version import VERSION

_DEFAULT_VERSION = "1.0.0"


class Addresses(Struct, frozen=True, kw_only=True):
    card_paths: tuple[str, ...]
    jsonrpc: str
    # None: not served over HTTP+JSON.
    rest: str | None


class Place(Struct, frozen=True):
    """Where an agent is served, or reached."""

    base_url: str
    addresses: Addresses


class UpstreamDescription(Struct, frozen=True, kw_only=True):
    """The part of an upstream agent's card that our card repeats."""

    name: str
    description: str
    version: str
    skills: tuple[AgentSkill, ...]
    input_modes: tuple[str, ...]
    output_modes: tuple[str, ...]
    extensions: tuple[AgentExtension, ...]
    documentation_url: str
    provider: AgentProvider | None
    icon_url: str | None


def describe_upstream(card: AgentCard) -> UpstreamDescription:
    """The card without its addresses, security and signatures, which are not those of our card."""
    return UpstreamDescription(
        name=card.name,
        description=card.description,
        version=card.version,
        skills=tuple(replace(skill, security_requirements=()) for skill in card.skills),
        input_modes=card.default_input_modes,
        output_modes=card.default_output_modes,
        extensions=card.capabilities.extensions,
        documentation_url=card.documentation_url or "",
        provider=card.provider,
        icon_url=card.icon_url,
    )


# The agent behind a card, which fills in the keys that the settings leave out.
Described: TypeAlias = Agent | UpstreamDescription


def addresses_of(handle: str, settings: AgentSettings, *, is_default: bool) -> list[Addresses]:
    """The addresses of the agent: below its handle, and at the root or at configured paths."""
    own = f"/api/a2a/v1/agents/{handle}"
    by_handle = Addresses(
        card_paths=(f"{own}/agent-card.json", f"{own}/.well-known/agent-card.json"),
        jsonrpc=own,
        rest=own,
    )
    chosen = (settings.agent_card_path, settings.jsonrpc_path, settings.rest_path)
    if not is_default and not any(chosen) and settings.addresses == "all":
        return [by_handle]
    card, jsonrpc, rest = ROOT_PATHS.values() if is_default else (by_handle.card_paths[0], own, own)
    card, jsonrpc = settings.agent_card_path or card, settings.jsonrpc_path or jsonrpc
    if settings.addresses == "exact":
        return [Addresses(card_paths=(card,), jsonrpc=jsonrpc, rest=None)]
    jsonrpc = jsonrpc.rstrip("/")
    # Clients look for the card below the address that they were given.
    below = (f"{jsonrpc}{ROOT_PATHS['agent_card_path']}",) if settings.jsonrpc_path else ()
    preferred = Addresses(
        card_paths=(card, *below),
        jsonrpc=jsonrpc,
        rest=(settings.rest_path or rest).rstrip("/"),
    )
    return [preferred, by_handle]


def agent_card(
    handle: str,
    settings: AgentSettings,
    *,
    code: Described | None,
    places: Sequence[Place],
    access: Settings,
    needs_token: bool = False,
) -> AgentCard:
    """The card of an agent that is reached at `places`, the preferred one first; `code` is the
    agent behind it. `needs_token`: every caller needs a bearer token, whatever the gateway asks of
    its own."""
    name = settings.name or (code.name if code is not None else handle)
    description = settings.description or (code.description if code is not None else name)
    schemes, requirements = _BY_TOKEN if needs_token else _security(access)
    documentation = settings.documentation_url or (code.documentation_url if code else "")
    upstream = code if isinstance(code, UpstreamDescription) else None
    shape = card_shape(settings)
    inputs = _shown_modes(shape, input_modes(settings, code))
    outputs = _shown_modes(shape, output_modes(settings, code))
    skills = _skills(settings.skills) or _fallback_skills(handle, name, description, code)
    return AgentCard(
        name=name,
        description=description,
        supported_interfaces=_interfaces(places, settings),
        provider=AgentProvider(**asdict(settings.provider))
        if settings.provider is not None
        else (upstream.provider if upstream is not None else None),
        version=_version(settings, shape, code),
        documentation_url=documentation or None,
        capabilities=AgentCapabilities(
            streaming=settings.streaming,
            push_notifications=False,
            extensions=_extensions(settings.extensions)
            or (code.extensions if code is not None else ()),
            extended_agent_card=settings.extended_card is not None,
        ),
        security_schemes=schemes,
        security_requirements=requirements,
        default_input_modes=inputs,
        default_output_modes=outputs,
        skills=_with_modes(skills, inputs, outputs) if shape.repeats_modes else skills,
        icon_url=settings.icon_url or (upstream.icon_url if upstream is not None else None),
    )


_HUBS: Final = {"trunkline": ("Trunkline", "tl"), "clawborrator": ("clawborrator hub_v1", "cw")}


def hub_card(settings: Settings, base_url: str) -> HubCard:
    style = "trunkline" if settings.hub is None else settings.hub.style
    organization, prefix = _HUBS[style]
    return HubCard(
        organization=organization,
        organization_url=base_url,
        bearer_format=f"{prefix}_sess_<32hex>",
        bearer_description=f"{style} session token from /api/v1/auth/oauth/token",
        needs_credential=not settings.allows_anonymous(),
    )


def card_shape(settings: AgentSettings) -> Shape:
    return replace(
        card_shape_of(settings.card_style),
        v03_protocol_version=settings.v03_protocol_version,
    )


def extended_card(card: AgentCard, settings: AgentSettings) -> AgentCard | None:
    extended = settings.extended_card
    if extended is None:
        return None
    extensions = (*card.capabilities.extensions, *_extensions(extended.extensions))
    skills = {skill.id: skill for skill in (*card.skills, *_skills(extended.skills))}
    return replace(
        card,
        name=extended.name or card.name,
        description=extended.description or card.description,
        skills=tuple(skills.values()),
        capabilities=replace(card.capabilities, extensions=extensions),
        documentation_url=extended.documentation_url or card.documentation_url,
    )


def input_modes(settings: AgentSettings, code: Described | None) -> tuple[str, ...]:
    return settings.input_modes or (code.input_modes if code else ()) or DEFAULT_MODES


def output_modes(settings: AgentSettings, code: Described | None) -> tuple[str, ...]:
    return settings.output_modes or (code.output_modes if code else ()) or DEFAULT_MODES


def _shown_modes(shape: Shape, modes: tuple[str, ...]) -> tuple[str, ...]:
    """The media types on the card. The agent accepts all of them, also where the card says `text`
    for short."""
    return ("text",) if shape.shortens_modes and modes == DEFAULT_MODES else modes


def _version(settings: AgentSettings, shape: Shape, code: Described | None) -> str:
    if settings.version != _DEFAULT_VERSION:
        return settings.version
    if code is not None:
        return code.version
    return VERSION if shape.has_gateway_version else _DEFAULT_VERSION


def _interfaces(places: Sequence[Place], settings: AgentSettings) -> tuple[AgentInterface, ...]:
    served: list[tuple[str, str]] = []
    for place in places:
        served.append(("JSONRPC", place.base_url + place.addresses.jsonrpc))
        if place.addresses.rest is not None:
            served.append(("HTTP+JSON", place.base_url + place.addresses.rest))
    versions = dialects_for(settings.own_profile()).versions
    current = [
        AgentInterface(
            url=url, protocol_binding=binding, protocol_version=Version.V1_0, tenant=tenant
        )
        for tenant in settings.tenants or ("",)
        for binding, url in served
        if Version.V1_0 in versions
    ]
    # A2A 0.3 has no tenants, so an agent that requires one has no 0.3 interface.
    older = [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=Version.V0_3)
        for binding, url in served
        if Version.V0_3 in versions and not settings.tenants
    ]
    return (*current, *older)


_BEARER: Final = SecurityScheme(http_auth_security_scheme=HttpAuthSecurityScheme(scheme="bearer"))
_BY_TOKEN: Final = (
    {"bearer": _BEARER},
    (SecurityRequirement(schemes={"bearer": StringList()}),),
)


def _security(
    settings: Settings,
) -> tuple[dict[str, SecurityScheme], tuple[SecurityRequirement, ...]]:
    if not settings.auth.keys and settings.hub is None:
        return {}, ()
    schemes = {
        "bearer": _BEARER,
        "apiKey": SecurityScheme(
            api_key_security_scheme=ApiKeySecurityScheme(location="header", name="X-API-Key")
        ),
    }
    schemes = {name: each for name, each in schemes.items() if name in settings.auth.schemes}
    if settings.allows_anonymous():
        return schemes, ()
    return schemes, tuple(SecurityRequirement(schemes={name: StringList()}) for name in schemes)


def _extensions(extensions: tuple[ExtensionSettings, ...]) -> tuple[AgentExtension, ...]:
    return tuple(AgentExtension(**asdict(item)) for item in extensions)


def _skills(skills: tuple[SkillSettings, ...]) -> tuple[AgentSkill, ...]:
    return tuple(
        AgentSkill(
            id=skill.id,
            name=skill.name or skill.id,
            description=skill.description or skill.name or skill.id,
            tags=skill.tags or (skill.id,),
            examples=skill.examples,
            input_modes=skill.input_modes,
            output_modes=skill.output_modes,
        )
        for skill in skills
    )


def _with_modes(
    skills: tuple[AgentSkill, ...], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[AgentSkill, ...]:
    """Skills that repeat the media types of the agent where they have none of their own."""
    return tuple(
        replace(
            skill,
            input_modes=skill.input_modes or inputs,
            output_modes=skill.output_modes or outputs,
        )
        for skill in skills
    )


def _fallback_skills(
    handle: str, name: str, description: str, code: Described | None
) -> tuple[AgentSkill, ...]:
    """The skills of the agent itself, or else one skill for the whole agent, because a card must
    have one."""
    if code is not None:
        return code.skills
    slug = handle.partition("/")[2]
    return (AgentSkill(id=slug, name=name, description=description, tags=(slug,)),)
