"""Which interface of a card to call."""

from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.model.card import AgentCard, AgentInterface
from trunkline.protocol.asking import Binding
from trunkline.protocol.card_reading import version_of
from trunkline.protocol.versions import Version
from trunkline.remote.errors import TransportUnsupported
from trunkline.remote.target import Target

_BINDINGS: dict[str, Binding] = {"JSONRPC": "JSONRPC", "HTTP+JSON": "HTTP+JSON"}


class Way(Struct, frozen=True, kw_only=True):
    """One interface that we can speak to."""

    binding: Binding
    version: Version
    # Without a slash at its end, unless the path is nothing else.
    url: str
    tenant: str = ""


def ways(card: AgentCard, target: Target) -> tuple[Way, ...]:
    """The usable interfaces: in the order of the target's transports, then of the card.

    Raises TransportUnsupported when there is none.
    """
    wanted = [name.upper() for name in target.transports]
    found: list[tuple[int, Way]] = []
    interfaces = target.interfaces or card.supported_interfaces
    for interface in interfaces:
        way = _way(interface, target)
        if way is not None and way.binding in wanted:
            found.append((wanted.index(way.binding), way))
    if not found:
        offered = ", ".join(f"{one.protocol_binding} {one.protocol_version}" for one in interfaces)
        asked = ", ".join(target.transports) + (f" in {target.version}" if target.version else "")
        raise TransportUnsupported(
            f"the agent offers {offered[:300]}; none of it can be used for {asked}"
        )
    return tuple(way for _, way in sorted(found, key=lambda one: one[0]))


def _way(interface: AgentInterface, target: Target) -> Way | None:
    binding = _BINDINGS.get(interface.protocol_binding.upper())
    version = version_of(interface)
    if binding is None or version is None or (target.version and target.version != version):
        return None
    try:
        parts = urlsplit(interface.url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    # What is sent over TLS to the target is not sent in the clear to a place it names.
    if parts.scheme == "http" and urlsplit(target.url).scheme == "https":
        return None
    url = interface.url.rstrip("/") if binding == "HTTP+JSON" else interface.url
    return Way(binding=binding, version=version, url=url, tenant=interface.tenant)
