"""A url as what a client needs of it: whom to connect to, and what to ask for."""

from urllib.parse import quote, urlsplit

from msgspec import Struct

from trunkline.remote.errors import BadPeerAnswer

# All that may stand in a url as it is; the rest, line breaks among it, is percent-encoded.
_AS_IS = "%/:?#[]@!$&'()*+,;=-._~"


class Origin(Struct, frozen=True):
    """Connections are shared by requests to the same one."""

    is_tls: bool
    host: str
    port: int

    @property
    def address(self) -> str:
        """As people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        scheme, usual = ("https", 443) if self.is_tls else ("http", 80)
        named = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{named}" if self.port == usual else f"{scheme}://{named}:{self.port}"


class Place(Struct, frozen=True):
    """`host` is the header, `target` what stands in the first line of the request."""

    origin: Origin
    host: str
    target: str


def place_of(url: str) -> Place:
    """Raises BadPeerAnswer: a url that comes here without being one is that of a card."""
    try:
        parts = urlsplit(url)
        host, port, is_tls = parts.hostname or "", parts.port, parts.scheme == "https"
        # Twice, because what it comes to must be a name as well: no label empty or too long.
        host = host.encode("idna").decode().encode("idna").decode()
        if parts.scheme not in ("http", "https") or not host or quote(host, _AS_IS) != host:
            raise ValueError
        target = quote(parts.path or "/", _AS_IS.replace("?", "").replace("#", ""))
        if parts.query:
            target = f"{target}?{quote(parts.query, _AS_IS)}"
    except ValueError:
        raise BadPeerAnswer("the url of the interface is not valid", reason="BAD_CARD") from None
    usual = 443 if is_tls else 80
    named = f"[{host}]" if ":" in host else host
    return Place(
        origin=Origin(is_tls, host, usual if port is None else port),
        host=named if port in (None, usual) else f"{named}:{port}",
        target=target,
    )


def origin_of(url: str) -> Origin:
    """Raises BadPeerAnswer."""
    return place_of(url).origin
