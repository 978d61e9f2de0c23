"""`endpoints_of`: the interfaces of a card that we can call, best first."""

from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.model.card import AgentCard
from trunkline.protocol.card_reading import version_of
from trunkline.protocol.client_requests import Binding
from trunkline.protocol.versions import Version
from trunkline.remote.errors import BadPeerAnswer, InvalidTarget, RemoteError, TransportUnsupported
from trunkline.remote.http.guard import Guard
from trunkline.remote.http.request import Origin, origin_of
from trunkline.remote.target import Target

_BINDINGS: dict[str, Binding] = {"JSONRPC": "JSONRPC", "HTTP+JSON": "HTTP+JSON"}


class Endpoint(Struct, frozen=True, kw_only=True):
    """One interface of a card that we can call."""

    binding: Binding
    version: Version
    # HTTP+JSON: without a slash at its end.
    url: str
    tenant: str = ""
    # Its origin is configured, so headers and credentials of the target go there.
    is_trusted: bool = True

    @property
    def origin(self) -> Origin:
        return origin_of(self.url)


def guard_of(target: Target) -> Guard:
    """Its own and its trusted origins may be anywhere; others that its card names must be public.

    Raises InvalidTarget.
    """
    try:
        return Guard.of(
            target.url,
            *target.trusted_origins,
            allow_private=target.allow_private,
            public_only=target.public_only,
        )
    except BadPeerAnswer:
        raise InvalidTarget(f'"{target.url[:200]}" is not the url of an agent') from None


def endpoints_of(card: AgentCard, target: Target) -> tuple[Endpoint, ...]:
    """The usable interfaces: in the order of the target's transports, then of the card.

    For a target with credentials, endpoints that may get them come first. Raises
    TransportUnsupported when there is none, or BadPeerAnswer for invalid URLs.
    """
    guard = guard_of(target)
    wanted = [name.upper() for name in target.transports]
    found: list[tuple[bool, int, Endpoint]] = []
    faults: list[RemoteError] = []
    interfaces = target.interfaces or card.supported_interfaces
    for interface in interfaces:
        binding = _BINDINGS.get(interface.protocol_binding.upper())
        version = version_of(interface)
        if binding is None or binding not in wanted or version is None:
            continue
        if (target.version and target.version != version) or not _is_web(interface.url):
            continue
        try:
            is_trusted = _is_trusted(interface.url, target, guard)
        except RemoteError as error:
            faults.append(error)
            continue
        url = interface.url.rstrip("/") if binding == "HTTP+JSON" else interface.url
        endpoint = Endpoint(
            binding=binding,
            version=version,
            url=url,
            tenant=interface.tenant,
            is_trusted=is_trusted,
        )
        found.append((target.has_secrets and not is_trusted, wanted.index(binding), endpoint))
    if found:
        return tuple(endpoint for _, _, endpoint in sorted(found, key=lambda one: one[:2]))
    if faults:
        raise faults[0]
    offered = ", ".join(f"{one.protocol_binding} {one.protocol_version}" for one in interfaces)
    asked = ", ".join(target.transports) + (f" in {target.version}" if target.version else "")
    raise TransportUnsupported(
        f"the agent offers {offered[:300]}; none of it can be used for {asked}"
    )


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_trusted(url: str, target: Target, guard: Guard) -> bool:
    """Whether credentials may go there. Raises RemoteError for a URL that must not be called."""
    origin = origin_of(url)
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        # The part of such a URL that looks like its host is not the host.
        raise BadPeerAnswer("the url of the interface holds a user or password", reason="BAD_CARD")
    is_trusted = guard.knows(origin)
    # A request that goes to the target over TLS must not go elsewhere in the clear.
    if not origin.is_tls and not is_trusted and urlsplit(target.url).scheme == "https":
        raise TransportUnsupported(
            f"the agent is called over https, and its card names {origin}, which is not encrypted"
        )
    return is_trusted
