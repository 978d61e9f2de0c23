"""Requests as bytes, and the URLs they go to."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

from trunkline.remote.errors import BadPeerAnswer, InvalidTarget
from trunkline.version import VERSION

# Characters that stay as they are in a URL; all others, such as line breaks, are encoded.
_AS_IS = "%/:?#[]@!$&'()*+,;=-._~"
# Sent unless the caller sets them. A small compressed response can unpack to any size, so we
# ask for none.
_OWN: Final = {
    "user-agent": f"User-Agent: trunkline/{VERSION}\n",
    "accept-encoding": "Accept-Encoding: identity\n",
}
_ALL_OWN: Final = "".join(_OWN.values())
# RFC 9110, 9.2.1: asking twice is the same as asking once.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Origin(Struct, frozen=True):
    """Scheme, host and port. Requests to the same origin share connections."""

    is_tls: bool
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def netloc(self) -> str:
        """As in the header Host: without the port that the scheme implies."""
        usual = 443 if self.is_tls else 80
        return self.address.removesuffix(f":{usual}") if self.port == usual else self.address

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.netloc}"


def parse_url(url: str) -> tuple[Origin, str]:
    """The origin, and the target of a request (RFC 9112, 3.2). Raises BadPeerAnswer.

    The peer is at fault: configured URLs were checked before, so an invalid one is of a card.
    """
    try:
        parts = urlsplit(url)
        host, port, is_tls = parts.hostname or "", parts.port, parts.scheme == "https"
        # Twice, because the encoded name must be valid too: no label empty or too long.
        host = host.encode("idna").decode().encode("idna").decode()
        if parts.scheme not in ("http", "https") or not host or quote(host, _AS_IS) != host:
            raise ValueError
        target = quote(parts.path or "/", _AS_IS.replace("?", "").replace("#", ""))
        if parts.query:
            target = f"{target}?{quote(parts.query, _AS_IS)}"
    except ValueError:
        raise BadPeerAnswer("the url of the interface is not valid", reason="BAD_CARD") from None
    return Origin(is_tls, host, (443 if is_tls else 80) if port is None else port), target


def origin_of(url: str) -> Origin:
    """Raises BadPeerAnswer."""
    return parse_url(url)[0]


class Request(Struct, frozen=True):
    """`is_safe`: may be sent twice. `has_answer`: the answer may have a body."""

    origin: Origin
    head: bytes
    body: bytes
    is_safe: bool
    has_answer: bool


def build_request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> Request:
    """Raises InvalidTarget for an invalid header, and BadPeerAnswer for an invalid URL."""
    given = "".join([f"{name}: {value}\n" for name, value in headers.items()])
    # A line break would end a header early, and let its author write the rest of the request.
    if given.count("\n") != len(headers) or "\r" in given or "\0" in given:
        raise InvalidTarget("the value of a header holds a line break")
    own = _ALL_OWN
    if not _OWN.keys().isdisjoint(map(str.lower, headers)):
        named = {name.lower() for name in headers}
        own = "".join([line for name, line in _OWN.items() if name not in named])
    origin, start = _start(method, url)
    length = "" if body is None and method != "POST" else f"Content-Length: {len(body or b'')}\n"
    try:
        head = f"{start}{own}{given}{length}\n".replace("\n", "\r\n").encode()
    except UnicodeEncodeError:
        raise InvalidTarget("the value of a header is no valid Unicode") from None
    return Request(
        origin,
        head,
        body or b"",
        method in _SAFE,
        method != "HEAD",
    )


@lru_cache(maxsize=512)
def _start(method: str, url: str) -> tuple[Origin, str]:
    """The first lines, which all requests for the same URL share."""
    origin, target = parse_url(url)
    return origin, f"{method} {target} HTTP/1.1\nHost: {origin.netloc}\n"
