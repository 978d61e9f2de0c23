"""Agent cards in the form that a client of each generation reads."""

import hashlib
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.card import (
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentProvider,
    AgentSkill,
    SecurityRequirement,
    SecurityScheme,
)
from trunkline.model.errors import InvalidParams, VersionNotSupported
from trunkline.protocol.protojson_fields import quote
from trunkline.protocol.versions import Version

Form: TypeAlias = Literal["1.0", "0.3", "hybrid"]


class Shape(Struct, frozen=True, kw_only=True):
    """Members of an agent's cards that differ from the standard."""

    # The 0.3 card has a patch number where the 1.0 one has none.
    v03_protocol_version: str = "0.3.0"
    state_transition_history: bool | None = None
    # 0.3, 5.5.5: `additionalInterfaces` may repeat the interface of `url`.
    repeats_interface: bool = False
    # Absent means the same.
    denies_extended_card: bool = True
    # Before 0.3, a card named its schemes there.
    names_authentication: bool = False


STANDARD: Final = Shape()


class Interface03(Struct, frozen=True, kw_only=True):
    url: str
    transport: str


class Capabilities03(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None
    extensions: tuple[AgentExtension, ...] = ()


class Skill03(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    security: tuple[dict[str, tuple[str, ...]], ...] = ()


class Card03(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    protocol_version: str
    name: str
    description: str
    url: str
    preferred_transport: str
    additional_interfaces: tuple[Interface03, ...] = ()
    provider: AgentProvider | None = None
    version: str
    documentation_url: str | None = None
    capabilities: Capabilities03
    security_schemes: dict[str, dict[str, Any]] = {}
    security: tuple[dict[str, tuple[str, ...]], ...] = ()
    authentication: dict[str, tuple[str, ...]] | None = None
    default_input_modes: tuple[str, ...]
    default_output_modes: tuple[str, ...]
    skills: tuple[Skill03, ...]
    supports_authenticated_extended_card: bool | None = None
    signatures: tuple[AgentCardSignature, ...] = ()
    icon_url: str | None = None


_encode = msgspec.json.Encoder().encode


def encode(card: AgentCard, form: Form, shape: Shape = STANDARD) -> bytes:
    """Raises VersionNotSupported for the 0.3 form of a card without a 0.3 interface."""
    if form == "1.0":
        return _encode(card)
    if form == "0.3":
        return _encode(to_v03(card, shape))
    if not _interfaces_03(card):
        return _encode(card)
    return _encode(_merged(msgspec.to_builtins(card), msgspec.to_builtins(to_v03(card, shape))))


def form_for(stated: Version | None, query_format: str | None) -> Form:
    """Which form to serve: the one asked for by name, else by version, else both."""
    match query_format:
        case "1.0" | "0.3" | "hybrid":
            return query_format
        case None | "":
            return "hybrid" if stated is None else _FORM_OF[stated]
        case other:
            known = "1.0, 0.3, hybrid"
            raise InvalidParams.at("format", f"unknown value {quote(other)}; one of {known}")


_FORM_OF: Final[dict[Version, Form]] = {Version.V1_0: "1.0", Version.V0_3: "0.3"}


def etag(body: bytes) -> str:
    """A strong validator: it changes when, and only when, the bytes do."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def to_v03(card: AgentCard, shape: Shape = STANDARD) -> Card03:
    interfaces = _interfaces_03(card)
    if not interfaces:
        raise VersionNotSupported(
            "this agent has no A2A 0.3 interface; ask for its card with A2A-Version: 1.0",
            metadata={"supportedVersions": Version.V1_0},
        )
    first = interfaces[0]
    schemes = tuple(card.security_schemes) if shape.names_authentication else ()
    extends = card.capabilities.extended_agent_card
    return Card03(
        protocol_version=shape.v03_protocol_version,
        name=card.name,
        description=card.description,
        url=first.url,
        preferred_transport=first.transport,
        additional_interfaces=tuple(interfaces[0 if shape.repeats_interface else 1 :]),
        provider=card.provider,
        version=card.version,
        documentation_url=card.documentation_url,
        capabilities=Capabilities03(
            streaming=card.capabilities.streaming,
            push_notifications=card.capabilities.push_notifications,
            state_transition_history=shape.state_transition_history,
            extensions=card.capabilities.extensions,
        ),
        security_schemes={
            name: _scheme_03(scheme) for name, scheme in card.security_schemes.items()
        },
        security=_security_03(card.security_requirements),
        authentication={"schemes": schemes} if schemes else None,
        default_input_modes=card.default_input_modes,
        default_output_modes=card.default_output_modes,
        skills=tuple([_skill_03(skill) for skill in card.skills]),
        supports_authenticated_extended_card=extends
        if extends or shape.denies_extended_card
        else None,
        signatures=card.signatures,
        icon_url=card.icon_url,
    )


def _interfaces_03(card: AgentCard) -> list[Interface03]:
    return [
        Interface03(url=interface.url, transport=interface.protocol_binding)
        for interface in card.supported_interfaces
        if interface.protocol_version == "0.3" or interface.protocol_version.startswith("0.3.")
    ]


def _security_03(
    requirements: tuple[SecurityRequirement, ...],
) -> tuple[dict[str, tuple[str, ...]], ...]:
    return tuple(
        [
            {name: scopes.list for name, scopes in requirement.schemes.items()}
            for requirement in requirements
        ]
    )


def _skill_03(skill: AgentSkill) -> Skill03:
    return Skill03(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        tags=skill.tags,
        examples=skill.examples,
        input_modes=skill.input_modes,
        output_modes=skill.output_modes,
        security=_security_03(skill.security_requirements),
    )


def _scheme_03(scheme: SecurityScheme) -> dict[str, Any]:
    """The scheme as OpenAPI 3 writes it."""
    if scheme.api_key_security_scheme is not None:
        key: dict[str, Any] = msgspec.to_builtins(scheme.api_key_security_scheme)
        return {"type": "apiKey", "in": key.pop("location")} | key
    if scheme.http_auth_security_scheme is not None:
        http: dict[str, Any] = msgspec.to_builtins(scheme.http_auth_security_scheme)
        return {"type": "http"} | http
    if scheme.oauth2_security_scheme is not None:
        return {"type": "oauth2"} | scheme.oauth2_security_scheme
    if scheme.open_id_connect_security_scheme is not None:
        return {"type": "openIdConnect"} | scheme.open_id_connect_security_scheme
    return {"type": "mutualTLS"} | (scheme.mtls_security_scheme or {})


def _merged(new: Any, old: Any) -> Any:
    """`new` with the members that only `old` has; where both have one, that of 1.0 counts."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {
            name: _merged(new[name], old[name])
            if name in new and name in old
            else new.get(name, old.get(name))
            for name in [*new, *(name for name in old if name not in new)]
        }
    if isinstance(new, list | tuple) and isinstance(old, list | tuple) and len(new) == len(old):
        return [_merged(left, right) for left, right in zip(new, old, strict=True)]
    return new
