"""`catalog`: the AI Catalog of a gateway, which names its agents and the addresses of their cards.

The format is that of the AI Catalog specification, 1.0 (conformance level 2: a discoverable
catalog). Names and descriptions are left to the cards, as the specification asks.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from trunkline.model.card import AgentCard

PATH: Final = "/.well-known/ai-catalog.json"
MEDIA_TYPE: Final = "application/ai-catalog+json"
CARD_TYPE: Final = "application/a2a-agent-card+json"
_MAX_TAGS: Final = 20
# A name of DNS with a dot. The last label of an IPv4 address has digits only.
_DOMAIN: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*")
_encode = msgspec.json.Encoder().encode


class _Entry(Struct, frozen=True, omit_defaults=True):
    identifier: str
    type: str
    url: str
    tags: tuple[str, ...] = ()


class _Host(Struct, frozen=True, omit_defaults=True, rename="camel"):
    display_name: str
    identifier: str = ""


class _Head(Struct, frozen=True, rename="camel"):
    spec_version: str
    host: _Host


def entry(handle: str, card_url: str, card: AgentCard) -> bytes:
    """The JSON of one agent."""
    tags = dict.fromkeys(tag for skill in card.skills for tag in skill.tags)
    made = _Entry(
        identifier=_identifier(handle, card_url),
        type=CARD_TYPE,
        url=card_url,
        tags=tuple(tags)[:_MAX_TAGS],
    )
    return _encode(made)


def catalog(base_url: str, entries: Iterable[bytes]) -> bytes:
    """The whole document."""
    name = urlsplit(base_url).hostname or ""
    host = _Host(display_name=name, identifier=name if _DOMAIN.fullmatch(name) else "")
    return b'%b,"entries":[%b]}' % (_encode(_Head("1.0", host))[:-1], b",".join(entries))


def _identifier(handle: str, card_url: str) -> str:
    """The name of the agent in the namespace of the domain that publishes it. A gateway without a
    domain has none, so an address is the identifier there."""
    parts = urlsplit(card_url)
    host = parts.hostname or ""
    if _DOMAIN.fullmatch(host):
        return f"urn:air:{host}:agent:{handle.replace('/', ':')}"
    return f"{parts.scheme}://{parts.netloc}/api/a2a/v1/agents/{handle}"
