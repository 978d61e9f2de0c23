"""Agent cards of other agents: of 1.0, of 0.3, or of both in one."""

from typing import Any, Final, TypeAlias

from trunkline.model.card import AgentCard, AgentInterface
from trunkline.model.errors import InvalidAgentResponse, TrunklineError
from trunkline.protocol import protojson
from trunkline.protocol.versions import Version

Tree: TypeAlias = dict[str, Any]

# A2A requires these members, but some agents leave them out.
CARD_DEFAULTS: Final[Tree] = {
    "description": "",
    "version": "",
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}


def decode(body: bytes) -> AgentCard:
    """The card in the form of 1.0, also for a card of 0.3; every interface says its version.

    Raises InvalidAgentResponse, which names the field at fault.
    """
    try:
        tree = protojson.parse(body, "card")
        if not isinstance(tree, dict):
            raise InvalidAgentResponse("the agent card is not a JSON object")
        return protojson.convert(_canonical(tree), AgentCard)
    except InvalidAgentResponse:
        raise
    except TrunklineError as error:
        raise InvalidAgentResponse(f"the agent card is not valid: {error.message}") from None


def version_of(interface: AgentInterface) -> Version | None:
    """The version of the interface that the gateway speaks too, if any. 0.2 reads all that the
    gateway sends to 0.3."""
    major, _, minor = interface.protocol_version.strip().removeprefix("v").partition(".")
    number = (major, minor.partition(".")[0])
    if number == ("1", "0"):
        return Version.V1_0
    return Version.V0_3 if number in (("0", "3"), ("0", "2")) else None


def _canonical(tree: Tree) -> Tree:
    interfaces = [*_objects(tree, "supportedInterfaces", "supported_interfaces")]
    known = {(_text(one, "url"), _text(one, "protocolBinding")) for one in interfaces}
    interfaces += [
        one
        for one in _interfaces_03(tree)
        if not interfaces or (one["url"], one["protocolBinding"]) not in known
    ]
    if not interfaces:
        raise InvalidAgentResponse("the agent card names no interface")
    card = CARD_DEFAULTS | {name: value for name, value in tree.items() if value is not None}
    card.pop("supported_interfaces", None)
    card["supportedInterfaces"] = interfaces
    card["skills"] = _skills(card)
    if "security" in card and "securityRequirements" not in card:
        card["securityRequirements"] = _requirements(card["security"])
    if isinstance(schemes := card.get("securitySchemes"), dict):
        card["securitySchemes"] = {name: _scheme(one) for name, one in schemes.items()}
    if card.get("supportsAuthenticatedExtendedCard") is True:
        capabilities = card["capabilities"]
        if isinstance(capabilities, dict) and "extendedAgentCard" not in capabilities:
            card["capabilities"] = capabilities | {"extendedAgentCard": True}
    return card


def _interfaces_03(tree: Tree) -> list[Tree]:
    """The interfaces of a 0.3 card: `url` first, then `additionalInterfaces`, without repeats."""
    stated = tree.get("protocolVersion")
    version = stated if isinstance(stated, str) and stated.startswith("0.") else "0.3"
    found: dict[tuple[str, str], None] = {}
    if isinstance(url := tree.get("url"), str) and url:
        found[url, _text(tree, "preferredTransport") or "JSONRPC"] = None
    for one in _objects(tree, "additionalInterfaces"):
        if url := _text(one, "url"):
            found[url, _text(one, "transport") or "JSONRPC"] = None
    return [
        {"url": url, "protocolBinding": transport, "protocolVersion": version}
        for url, transport in found
    ]


def _skills(tree: Tree) -> list[Tree]:
    return [_skill(one) for one in _objects(tree, "skills")]


def _skill(tree: Tree) -> Tree:
    skill = {"tags": [], **{name: value for name, value in tree.items() if value is not None}}
    skill.setdefault("description", skill.get("name", ""))
    if "security" in skill and "securityRequirements" not in skill:
        skill["securityRequirements"] = _requirements(skill["security"])
    return skill


def _requirements(security: object) -> list[Tree]:
    given = security if isinstance(security, list) else []
    return [
        {"schemes": {name: {"list": scopes} for name, scopes in one.items()}}
        for one in given
        if isinstance(one, dict)
    ]


# The types of OpenAPI 3, by which 0.3 names the schemes, and their members in 1.0.
SCHEME_MEMBERS: Final = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}


def _scheme(tree: object) -> object:
    """0.3 writes schemes as OpenAPI does; 1.0 puts a name around each."""
    if not isinstance(tree, dict) or any(name in tree for name in SCHEME_MEMBERS.values()):
        return tree
    member = SCHEME_MEMBERS.get(str(tree.get("type")))
    if member is None:
        return {}
    rest = {name: value for name, value in tree.items() if name != "type"}
    if "in" in rest:
        rest["location"] = rest.pop("in")
    return {member: rest}


def _objects(tree: Tree, *names: str) -> list[Tree]:
    for name in names:
        if isinstance(value := tree.get(name), list):
            return [one for one in value if isinstance(one, dict)]
    return []


def _text(tree: Tree, name: str) -> str:
    value = tree.get(name)
    return value if isinstance(value, str) else ""
