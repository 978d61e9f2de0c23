"""`card_at_relay`: the card of an agent that speaks protocol v1, with the addresses of the relay.

All members that are not about addresses and credentials stay as the agent has sent them, unknown
ones too.
"""

from typing import Final

import msgspec
from msgspec import Raw

from trunkline.model.card import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    HttpAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from trunkline.protocol import cards
from trunkline.protocol.versions import Version

# The members that say where and with which credential the agent is called.
_OF_RELAY: Final = (
    "protocolVersion",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "supportedInterfaces",
    "securitySchemes",
    "security",
    "securityRequirements",
    "supportsAuthenticatedExtendedCard",
)
# Their signature would not be valid any more, and the relay cannot sign for the agent.
_DROPPED: Final = ("signatures", "supported_interfaces", "additional_interfaces")
# The relay makes streams of answers. It cannot make push notifications of them.
_CAPABILITIES: Final = {
    "streaming": Raw(b"true"),
    "pushNotifications": Raw(b"false"),
    "extendedAgentCard": Raw(b"true"),
}
_BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode


def card_at_relay(given: bytes, *, name: str, url: str) -> bytes:
    """`name` is that of an agent whose card has none. Raises ValueError for a card that is no JSON
    object."""
    try:
        card = _members(given)
        capabilities = _members(card.get("capabilities", b"{}"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("the card is not a JSON object with an object of capabilities") from None
    defaults = _members(_own(name, url))
    own = {member: defaults[member] for member in _OF_RELAY if member in defaults}
    for member in (*_OF_RELAY, *_DROPPED):
        card.pop(member, None)
    return _encode(
        defaults | card | own | {"capabilities": Raw(_encode(capabilities | _CAPABILITIES))}
    )


def _own(name: str, url: str) -> bytes:
    interfaces = [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
        for version in Version
        for binding in _BINDINGS
    ]
    bearer = SecurityScheme(http_auth_security_scheme=HttpAuthSecurityScheme(scheme="Bearer"))
    card = AgentCard(
        name=name,
        description="",
        version="",
        supported_interfaces=tuple(interfaces),
        capabilities=AgentCapabilities(extended_agent_card=True),
        security_schemes={"bearer": bearer},
        security_requirements=(SecurityRequirement(schemes={"bearer": StringList()}),),
        default_input_modes=("text/plain",),
        default_output_modes=("text/plain",),
        skills=(),
    )
    return cards.encode(card, "hybrid")
