"""Agent cards in the forms of A2A 1.0, of 0.3, and of both in one."""

import hashlib
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.card import (
    AgentCard,
    AgentSkill,
    SecurityRequirement,
    SecurityScheme,
)
from trunkline.model.errors import InvalidParams, VersionNotSupported
from trunkline.protocol.card_reading import SCHEME_MEMBERS
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
    # Whether a card says that there is no extended card; leaving it out means the same.
    denies_extended_card: bool = True
    # Before 0.3, a card named its schemes in `authentication`.
    names_authentication: bool = False
    # Skills repeat the media types of the agent.
    repeats_modes: bool = False
    # The usual media types stand as `text`, their name before 0.3.
    shortens_modes: bool = False
    # An agent without a version has that of the gateway.
    has_gateway_version: bool = False
    # The card for clients that name no form, in place of the one that merges the versions.
    unstated: Callable[[AgentCard], dict[str, Any]] | None = None


STANDARD: Final = Shape()


_encode = msgspec.json.Encoder().encode


def encode(card: AgentCard, form: Form, shape: Shape = STANDARD) -> bytes:
    """Raises VersionNotSupported for the 0.3 form of a card without a 0.3 interface."""
    if form == "1.0":
        return _encode(card)
    if form == "0.3":
        return _encode(to_v03(card, shape))
    if shape.unstated is not None:
        return _encode(shape.unstated(card))
    if not _interfaces_03(card):
        return _encode(card)
    return _encode(_merged(msgspec.to_builtins(card), to_v03(card, shape)))


def form_for(stated: Version | None, query_format: str | None) -> Form:
    """The form to serve: the one that the query names, else that of the stated version, else
    both."""
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


def with_member(body: bytes, name: str, value: bytes) -> bytes:
    """The JSON of a card with one member more at its end."""
    return b'%s,"%s":%s}' % (body.rstrip()[:-1], name.encode(), value)


def to_v03(card: AgentCard, shape: Shape = STANDARD) -> dict[str, Any]:
    """The card of 0.3 (5.5), with the members in the order of its specification."""
    interfaces = _interfaces_03(card)
    if not interfaces:
        raise VersionNotSupported(
            "this agent has no A2A 0.3 interface; ask for its card with A2A-Version: 1.0",
            metadata={"supportedVersions": Version.V1_0},
        )
    tree: dict[str, Any] = msgspec.to_builtins(card)
    capabilities = tree["capabilities"]
    extends = card.capabilities.extended_agent_card
    schemes = [*card.security_schemes] if shape.names_authentication else []
    old = {
        "protocolVersion": shape.v03_protocol_version,
        "name": card.name,
        "description": card.description,
        "url": interfaces[0]["url"],
        "preferredTransport": interfaces[0]["transport"],
        "additionalInterfaces": interfaces[0 if shape.repeats_interface else 1 :] or None,
        "provider": tree.get("provider"),
        "version": card.version,
        "documentationUrl": card.documentation_url,
        "capabilities": _present(
            streaming=card.capabilities.streaming,
            pushNotifications=card.capabilities.push_notifications,
            stateTransitionHistory=shape.state_transition_history,
            extensions=capabilities.get("extensions"),
        ),
        "securitySchemes": {
            name: _scheme_03(scheme) for name, scheme in card.security_schemes.items()
        }
        or None,
        "security": _security_03(card.security_requirements),
        "authentication": {"schemes": schemes} if schemes else None,
        "defaultInputModes": card.default_input_modes,
        "defaultOutputModes": card.default_output_modes,
        "skills": [_skill_03(skill) for skill in card.skills],
        "supportsAuthenticatedExtendedCard": extends
        if extends or shape.denies_extended_card
        else None,
        "signatures": tree.get("signatures"),
        "iconUrl": card.icon_url,
    }
    return _present(**old)


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _interfaces_03(card: AgentCard) -> list[dict[str, str]]:
    return [
        {"url": interface.url, "transport": interface.protocol_binding}
        for interface in card.supported_interfaces
        if interface.protocol_version == "0.3" or interface.protocol_version.startswith("0.3.")
    ]


def _security_03(requirements: tuple[SecurityRequirement, ...]) -> list[dict[str, Any]] | None:
    return [
        {name: scopes.list for name, scopes in requirement.schemes.items()}
        for requirement in requirements
    ] or None


def _skill_03(skill: AgentSkill) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(skill)
    tree.pop("securityRequirements", None)
    return tree | _present(security=_security_03(skill.security_requirements))


def _scheme_03(scheme: SecurityScheme) -> dict[str, Any]:
    """The scheme as OpenAPI 3 writes it."""
    tree: dict[str, dict[str, Any]] = msgspec.to_builtins(scheme)
    for kind, member in SCHEME_MEMBERS.items():
        if member in tree:
            body = tree[member]
            place = {"in": body.pop("location")} if kind == "apiKey" else {}
            return {"type": kind} | place | body
    return {"type": "mutualTLS"}


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
