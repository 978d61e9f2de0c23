"""`check_card` and `card_report`: what is wrong with an agent card, of 1.0, of 0.3 or of both."""

from typing import Any, Final

import msgspec

from trunkline.protocol import card_signing
from trunkline.protocol.checks.findings import Report, below, kind_of, shown
from trunkline.protocol.checks.shapes import (
    Check,
    Member,
    Shape,
    Tree,
    anything,
    boolean,
    every,
    exactly_one,
    free_object,
    has,
    list_of,
    map_of,
    media_type,
    one_of,
    optional,
    required,
    text,
    uri,
    url,
)

_V1: Final = "A2A 1.0 AgentCard"
_V03: Final = "A2A 0.3 §5.5"
_HTTP: Final = ("https", "http")
_BINDINGS: Final = ("JSONRPC", "GRPC", "HTTP+JSON")
_LOOPBACK: Final = ("http://127.", "http://localhost", "http://[::1]")


def _name_of(rule: str) -> Check:
    return text(rule, may_be_empty=False)


def _modes(rule: str) -> Check:
    return list_of(media_type(rule), rule)


def _provider(rule: str) -> Shape:
    return Shape(
        name="the provider",
        rule=rule,
        members={"url": required(url(rule)), "organization": required(_name_of(rule))},
    )


def _extension(rule: str) -> Shape:
    return Shape(
        name="an extension",
        rule=rule,
        members={
            "uri": required(uri(rule)),
            "description": optional(text(rule)),
            "required": optional(boolean(rule)),
            "params": optional(free_object(rule)),
        },
    )


def _is_encrypted(report: Report, value: Any, pointer: str) -> None:
    """A2A demands TLS in production; on this machine there is none."""
    if isinstance(value, str) and value.startswith("http://") and not value.startswith(_LOOPBACK):
        report.warning("A2A 1.0 TLS", pointer, "production needs https")


def _binding(rule: str) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str) or not value:
            report.error(rule, pointer, f"must be one of {', '.join(_BINDINGS)}, or a URI")
        elif value not in _BINDINGS and ":" not in value:
            known = ", ".join(_BINDINGS)
            report.warning(rule, pointer, f"{shown(value)} is none of {known}, and no URI")

    return check


def _version_number(report: Report, value: Any, pointer: str) -> None:
    if not isinstance(value, str) or value.replace(".", "").isdigit() is False:
        report.error(_V1, pointer, f"must be a version such as 1.0, not {shown(value)}")
    elif value.count(".") != 1 and value.startswith("1"):
        report.warning(_V1, pointer, f"{shown(value)} should be MAJOR.MINOR")


def _interface_url(report: Report, value: Any, pointer: str) -> None:
    address, binding = value.get("url"), value.get("protocolBinding", value.get("transport"))
    if not isinstance(address, str) or binding == "GRPC":
        # Over gRPC the address is a host and a port.
        return
    at = below(pointer, "url")
    url(_V1, schemes=_HTTP)(report, address, at)
    _is_encrypted(report, address, at)


_INTERFACE: Final = Shape(
    name="an interface",
    rule=_V1,
    members={
        "url": required(_name_of(_V1)),
        "protocolBinding": required(_binding(_V1)),
        "tenant": optional(text(_V1)),
        "protocolVersion": required(_version_number),
    },
    foreign={"transport": "transport belongs to A2A 0.3; 1.0 has protocolBinding"},
    also=_interface_url,
)
_INTERFACE_03: Final = Shape(
    name="an interface",
    rule=_V03,
    members={"url": required(_name_of(_V03)), "transport": required(_binding(_V03))},
    foreign={"protocolBinding": "protocolBinding belongs to A2A 1.0; 0.3 has transport"},
    also=_interface_url,
    takes_snake=False,
)

# Security schemes of 1.0: one name around each kind.
_SCHEMES: Final = "A2A 1.0 SecurityScheme"
_URL: Final = required(url(_SCHEMES))
_SCOPES: Final = required(map_of(text(_SCHEMES), _SCHEMES))
_REFRESH: Final = optional(url(_SCHEMES, is_required=False))


def _flow(rule: str, *required_urls: str, **more: Member) -> Shape:
    return Shape(
        name="a flow",
        rule=rule,
        members={name: required(url(rule)) for name in required_urls}
        | {
            "refreshUrl": optional(url(rule, is_required=False)),
            "scopes": required(map_of(text(rule), rule)),
            **more,
        },
    )


_FLOWS: Final = Shape(
    name="the flows",
    rule=_SCHEMES,
    members={
        "authorizationCode": optional(
            _flow(
                _SCHEMES,
                "authorizationUrl",
                "tokenUrl",
                pkceRequired=optional(boolean(_SCHEMES)),
            )
        ),
        "clientCredentials": optional(_flow(_SCHEMES, "tokenUrl")),
        "deviceCode": optional(_flow(_SCHEMES, "deviceAuthorizationUrl", "tokenUrl")),
        "implicit": optional(anything),
        "password": optional(anything),
    },
    also=exactly_one(
        _SCHEMES,
        "flows",
        ("authorizationCode", "clientCredentials", "deviceCode", "implicit", "password"),
    ),
)
_DESCRIPTION: Final = optional(text(_SCHEMES))
_SCHEME_KINDS: Final[dict[str, Check]] = {
    "apiKeySecurityScheme": Shape(
        name="an API key",
        rule=_SCHEMES,
        members={
            "description": _DESCRIPTION,
            "location": required(one_of(_SCHEMES, ("query", "header", "cookie"))),
            "name": required(_name_of(_SCHEMES)),
        },
        foreign={"in": "in belongs to A2A 0.3; 1.0 has location"},
    ),
    "httpAuthSecurityScheme": Shape(
        name="a scheme of HTTP",
        rule=_SCHEMES,
        members={
            "description": _DESCRIPTION,
            "scheme": required(_name_of(_SCHEMES)),
            "bearerFormat": optional(text(_SCHEMES)),
        },
    ),
    "oauth2SecurityScheme": Shape(
        name="OAuth 2.0",
        rule=_SCHEMES,
        members={
            "description": _DESCRIPTION,
            "flows": required(_FLOWS),
            "oauth2MetadataUrl": optional(url(_SCHEMES, is_required=False)),
        },
    ),
    "openIdConnectSecurityScheme": Shape(
        name="OpenID Connect",
        rule=_SCHEMES,
        members={"description": _DESCRIPTION, "openIdConnectUrl": _URL},
    ),
    "mtlsSecurityScheme": Shape(
        name="mutual TLS", rule=_SCHEMES, members={"description": _DESCRIPTION}
    ),
}
# The members that OpenAPI, and so 0.3, has for each type.
_OPENAPI: Final = {
    "apiKey": {"in": "text", "name": "text"},
    "http": {"scheme": "text"},
    "oauth2": {"flows": "object"},
    "openIdConnect": {"openIdConnectUrl": "text"},
    "mutualTLS": {},
}
_OPENAPI_NAMES: Final = (
    "type",
    "in",
    "name",
    "scheme",
    "bearerFormat",
    "flows",
    "openIdConnectUrl",
    "oauth2MetadataUrl",
    "description",
)


def _scheme_10(*, is_hybrid: bool) -> Check:
    return Shape(
        name="a security scheme",
        rule=_SCHEMES,
        members={name: optional(check) for name, check in _SCHEME_KINDS.items()},
        foreign={}
        if is_hybrid
        else {"type": "type belongs to A2A 0.3; 1.0 puts the name of the kind around the scheme"},
        ignored=_OPENAPI_NAMES if is_hybrid else (),
        also=exactly_one(_SCHEMES, "a security scheme", [*_SCHEME_KINDS]),
    )


def _scheme_03(report: Report, value: Any, pointer: str) -> None:
    rule = "A2A 0.3 SecurityScheme"
    if not isinstance(value, dict):
        report.error(rule, pointer, f"must be an object, not {shown(value)}")
        return
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _OPENAPI:
        hint = ""
        if any(name in value for name in _SCHEME_KINDS):
            hint = "; the name around the scheme belongs to A2A 1.0"
        said = "has no type" if kind is None else f"has the unknown type {shown(kind)}"
        report.error(rule, pointer, f"a security scheme {said}{hint}")
        return
    for name, form in _OPENAPI[kind].items():
        given = value.get(name)
        wanted: type = dict if form == "object" else str
        if not isinstance(given, wanted) or not given:
            report.error(rule, pointer, f"a scheme of type {kind} has {name}")


_REQUIREMENT: Final = Shape(
    name="a requirement",
    rule="A2A 1.0 SecurityRequirement",
    members={
        "schemes": required(
            map_of(
                Shape(
                    name="the scopes",
                    rule="A2A 1.0 SecurityRequirement",
                    members={
                        "list": optional(
                            list_of(
                                text("A2A 1.0 SecurityRequirement"), "A2A 1.0 SecurityRequirement"
                            )
                        )
                    },
                ),
                "A2A 1.0 SecurityRequirement",
            )
        )
    },
)
_REQUIREMENTS: Final = optional(list_of(_REQUIREMENT, "A2A 1.0 SecurityRequirement"))
_SECURITY: Final = optional(list_of(map_of(list_of(text(_V03), _V03), _V03), "A2A 0.3 security"))


def _skill(rule: str, **security: Member) -> Shape:
    return Shape(
        name="a skill",
        rule=rule,
        members={
            "id": required(_name_of(rule)),
            "name": required(_name_of(rule)),
            "description": required(text(rule)),
            "tags": required(list_of(text(rule), rule)),
            "examples": optional(list_of(text(rule), rule)),
            "inputModes": optional(_modes(rule)),
            "outputModes": optional(_modes(rule)),
            **security,
        },
        ignored=("security",) if "securityRequirements" in security else (),
    )


def _one_id_each(report: Report, value: Any, pointer: str) -> None:
    seen: set[str] = set()
    for index, each in enumerate(value if isinstance(value, list) else ()):
        name = each.get("id") if isinstance(each, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            at = below(below(pointer, index), "id")
            report.warning(_V1, at, f"another skill has the id {shown(name)}, too")
        seen.add(name)


def _signature(report: Report, value: Any, pointer: str) -> None:
    _SIGNATURE(report, value, pointer)
    if not isinstance(value, dict):
        return
    protected = value.get("protected")
    if isinstance(protected, str):
        _protected(report, protected, below(pointer, "protected"))
    signature = value.get("signature")
    if isinstance(signature, str) and not _is_base64url(signature):
        report.error("A2A 1.0 §8.4", below(pointer, "signature"), "is not base64url")


def _protected(report: Report, protected: str, at: str) -> None:
    rule = "A2A 1.0 §8.4"
    try:
        header = msgspec.json.decode(card_signing.unpadded(protected[:65_536]))
    except (ValueError, msgspec.DecodeError, RecursionError):
        report.error(rule, at, "is no JSON object in base64url")
        return
    if not isinstance(header, dict):
        report.error(rule, at, f"is {kind_of(header)}, not an object")
        return
    for name in ("alg", "kid"):
        if not isinstance(header.get(name), str) or not header[name]:
            report.error(rule, at, f"the protected header has no {name}")
    if header.get("alg") == "none":
        report.error(rule, at, 'alg is "none", which signs nothing')
    if header.get("typ") != "JOSE":
        report.note(rule, at, "typ should be JOSE")


def _is_base64url(value: str) -> bool:
    try:
        card_signing.unpadded(value)
    except ValueError:
        return False
    return bool(value)


_SIGNATURE: Final = Shape(
    name="a signature",
    rule="A2A 1.0 §8.4",
    members={
        "protected": required(_name_of("A2A 1.0 §8.4")),
        "signature": required(_name_of("A2A 1.0 §8.4")),
        "header": optional(free_object("A2A 1.0 §8.4")),
    },
)
_SIGNATURES: Final = optional(list_of(_signature, "A2A 1.0 §8.4"))

# Members that only 0.3 has.
_ONLY_03: Final = (
    "protocolVersion",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "security",
    "supportsAuthenticatedExtendedCard",
)
_ONLY_10: Final = ("supportedInterfaces", "securityRequirements")


def _capabilities(rule: str, *, is_03: bool, is_hybrid: bool) -> Shape:
    flag = optional(boolean(rule))
    members = {
        "streaming": flag,
        "pushNotifications": flag,
        "extensions": optional(list_of(_extension(rule), rule)),
    }
    old = "stateTransitionHistory belongs to A2A 0.3"
    if is_03:
        members["stateTransitionHistory"] = flag
    else:
        members["extendedAgentCard"] = flag
    return Shape(
        name="the capabilities",
        rule=rule,
        members=members,
        foreign={} if is_03 or is_hybrid else {"stateTransitionHistory": old},
        ignored=("extendedAgentCard", "stateTransitionHistory") if is_03 or is_hybrid else (),
        takes_snake=not is_03,
    )


def _common(rule: str, capabilities: Shape, skill: Shape) -> dict[str, Member]:
    return {
        "name": required(_name_of(rule)),
        "description": required(text(rule)),
        "provider": optional(_provider(rule)),
        "version": required(text(rule)),
        "documentationUrl": optional(url(rule)),
        "capabilities": required(capabilities),
        "defaultInputModes": required(_modes(rule)),
        "defaultOutputModes": required(_modes(rule)),
        "skills": required(every(list_of(skill, rule), _one_id_each)),
        "signatures": _SIGNATURES,
        "iconUrl": optional(url(rule)),
    }


def _card_10(*, is_hybrid: bool) -> Shape:
    return Shape(
        name="the card",
        rule=_V1,
        members={
            "supportedInterfaces": required(list_of(_INTERFACE, _V1, at_least_one=True)),
            **_common(
                _V1,
                _capabilities(_V1, is_03=False, is_hybrid=is_hybrid),
                _skill(_V1, securityRequirements=_REQUIREMENTS),
            ),
            "securitySchemes": optional(map_of(_scheme_10(is_hybrid=is_hybrid), _SCHEMES)),
            "securityRequirements": _REQUIREMENTS,
        },
        foreign={} if is_hybrid else {name: f"{name} belongs to A2A 0.3" for name in _ONLY_03},
        ignored=_ONLY_03 if is_hybrid else (),
        also=_known_schemes,
    )


def _card_03() -> Shape:
    flag = optional(boolean(_V03))
    return Shape(
        name="the card",
        rule=_V03,
        members={
            "protocolVersion": required(_name_of(_V03)),
            "url": required(url(_V03, schemes=_HTTP)),
            "preferredTransport": optional(_binding(_V03)),
            "additionalInterfaces": optional(list_of(_INTERFACE_03, _V03)),
            **_common(
                _V03,
                _capabilities(_V03, is_03=True, is_hybrid=False),
                _skill(_V03, security=_SECURITY),
            ),
            "securitySchemes": optional(map_of(_scheme_03, "A2A 0.3 SecurityScheme")),
            "security": _SECURITY,
            "supportsAuthenticatedExtendedCard": flag,
        },
        foreign={name: f"{name} belongs to A2A 1.0" for name in _ONLY_10},
        also=_card_03_also,
        takes_snake=False,
    )


def _known_schemes(report: Report, value: Any, pointer: str) -> None:
    schemes = value.get("securitySchemes")
    known = schemes if isinstance(schemes, dict) else {}
    given = value.get("securityRequirements")
    for index, each in enumerate(given if isinstance(given, list) else ()):
        wanted = each.get("schemes") if isinstance(each, dict) else None
        at = below(below(below(pointer, "securityRequirements"), index), "schemes")
        _check_named(report, wanted, known, at)


def _card_03_also(report: Report, value: Any, pointer: str) -> None:
    schemes = value.get("securitySchemes")
    known = schemes if isinstance(schemes, dict) else {}
    given = value.get("security")
    for index, each in enumerate(given if isinstance(given, list) else ()):
        _check_named(report, each, known, below(below(pointer, "security"), index))
    version = value.get("protocolVersion")
    if isinstance(version, str) and version and not version.startswith("0."):
        at = below(pointer, "protocolVersion")
        report.warning(_V03, at, f"{shown(version)} is no version of 0.3")
    if isinstance(value.get("url"), str):
        _is_encrypted(report, value["url"], below(pointer, "url"))


def _check_named(report: Report, wanted: Any, known: Tree, at: str) -> None:
    for name in wanted if isinstance(wanted, dict) else ():
        if not report.may_look():
            return
        if name not in known:
            text = f"securitySchemes has no {shown(name)}"
            report.error("A2A SecurityRequirement", below(at, name), text)


_PLAIN: Final = _card_10(is_hybrid=False)
_HYBRID: Final = _card_10(is_hybrid=True)
_OLD: Final = _card_03()


def _check_10(report: Report, card: Any, at: str) -> None:
    is_hybrid = has(card, "url") and has(card, "supportedInterfaces")
    (_HYBRID if is_hybrid else _PLAIN)(report, card, at)


def _check_03(report: Report, card: Any, at: str) -> None:
    if has(card, "supportedInterfaces") and has(card, "url"):
        # A card of both versions: the members that both have are those of 1.0.
        _HYBRID(report, card, at)
        for name in ("protocolVersion", "url"):
            if not has(card, name):
                report.error(_V03, at, f"the card has no {name}, which is required")
        return
    _OLD(report, card, at)


CARD_CHECKS: Final[dict[str, Check]] = {"1.0": _check_10, "0.3": _check_03}
