"""`Access`: the principal of a request, determined by its credential alone."""

import hashlib
import ipaddress
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from trunkline.model.calls import ANONYMOUS
from trunkline.model.errors import PermissionDenied, Unauthenticated
from trunkline.server.http import Header, Request, hostname_of

CHALLENGE: Header = (b"www-authenticate", b'Bearer realm="trunkline"')

# The headers that carry a key, by their names in agent cards.
_WAYS: Final = {"bearer": "'Authorization: Bearer KEY'", "apiKey": "'X-API-Key: KEY'"}
SCHEMES: Final = tuple(_WAYS)

# Nearly every caller uses one of these; other hosts are parsed.
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# The headers of proxies beside X-Forwarded-*: of RFC 7239, of RFC 9110 (7.6.3), and of nginx, CDNs
# and Envoy.
_PROXY_HEADERS = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"x-original-forwarded-for",
        b"x-envoy-external-address",
        b"true-client-ip",
        b"cf-connecting-ip",
    }
)


class Access(Struct, frozen=True, kw_only=True, eq=False):
    # The principal of each key, by the SHA-256 of the key in hex.
    principals: Mapping[str, str]
    allows_anonymous: bool
    # Whether anonymous callers may come through a proxy.
    allows_proxied: bool = False
    # Names beside loopback by which anonymous callers may call the gateway.
    hosts: Collection[str] = ()
    # The headers that may carry a key.
    schemes: Collection[str] = SCHEMES

    @property
    def _how(self) -> str:
        return " or as ".join([way for scheme, way in _WAYS.items() if scheme in self.schemes])

    def identify(self, request: Request) -> str:
        """The principal of the request. Raises Unauthenticated or PermissionDenied."""
        headers = request.headers
        token = None
        if "bearer" in self.schemes and b"authorization" in headers:
            value = headers[b"authorization"]
            token = value[7:].strip() if value.startswith(b"Bearer ") else b""
            token = token or _bearer(value)
        if token is None and "apiKey" in self.schemes:
            token = headers.get(b"x-api-key")
        if token is not None:
            # The time of a look-up by the digest reveals nothing about the key.
            principal = self.principals.get(hashlib.sha256(token).hexdigest())
            if principal is None:
                raise Unauthenticated(
                    "The API key is not known here; check it or ask for a new one"
                )
            return principal
        if b"authorization" in headers or b"x-api-key" in headers:
            raise Unauthenticated(f"This gateway takes an API key only as {self._how}")
        if not self.allows_anonymous:
            raise Unauthenticated(f"This gateway needs an API key: send it as {self._how}")
        # Behind a proxy on this machine every caller seems to be on loopback. The names are joined,
        # because a loop over them would cost every anonymous request more than everything above.
        if not self.allows_proxied and (
            b"\n".join(headers).find(b"x-forwarded-") >= 0 or not _PROXY_HEADERS.isdisjoint(headers)
        ):
            raise Unauthenticated(
                "This request came through a proxy, and only programs on the gateway's own "
                f"machine need no API key: send one as {self._how}"
            )
        # DNS rebinding: a web page can point its own host name at the loopback address, but it
        # cannot make the browser send another Host.
        host = headers.get(b"host")
        if host is not None and not _is_loopback(host) and hostname_of(host) not in self.hosts:
            raise PermissionDenied(
                "Anonymous callers must use a loopback address as host; "
                "use http://127.0.0.1, or an API key"
            )
        # A browser lets a page of any site post to this address, without a key.
        if b"origin" in headers or b"sec-fetch-site" in headers:
            check_origin(request, self.hosts)
        return ANONYMOUS


def _bearer(value: bytes) -> bytes:
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer" or not token.strip():
        raise Unauthenticated("The Authorization header must have the form 'Bearer KEY'")
    return token.strip()


# Cached, because the same few hosts come again and again.
@lru_cache(maxsize=256)
def _is_loopback(host: bytes) -> bool:
    hostname = hostname_of(host)
    if hostname in _LOOPBACK_NAMES:
        return True
    # The whole host must be an address: the owner of example.com owns 127.example.com as well.
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False


# Methods that change nothing. A browser hides their answers from pages of other origins.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


def check_origin(request: Request, own_hosts: Collection[str] = (), *, reads: bool = False) -> None:
    """Raises PermissionDenied for a page that is not of this gateway.

    A browser states by itself which page a request comes from; other clients state nothing and
    pass. A form or a script of any site can make a browser POST, without a preflight where the body
    is empty or plain text. `own_hosts` are further names of the gateway. With `reads`, requests
    that change nothing are checked as well.
    """
    if request.method in _READING and not reads:
        return
    headers = request.headers
    if headers.get(b"sec-fetch-site", b"").strip().lower() == b"cross-site":
        raise _refusal("Sec-Fetch-Site: cross-site")
    origin = headers.get(b"origin")
    if origin is not None and not _is_own(origin, headers.get(b"host", b""), own_hosts):
        raise _refusal("the Origin header")


def _is_own(origin: bytes, host: bytes, own_hosts: Collection[str]) -> bool:
    scheme, _, authority = origin.strip().lower().partition(b"://")
    default = _DEFAULT_PORTS.get(scheme)
    name = hostname_of(authority)
    # Opaque origins are "null", and extensions of browsers have schemes of their own.
    if default is None or not name:
        return False
    # A proxy in front may hand on the public name, or its own name for the gateway. It may
    # speak TLS where the gateway does not, so the default port is that of the page's scheme.
    own = host.strip().lower()
    return authority.removesuffix(default) == own.removesuffix(default) or name in own_hosts


def _refusal(sign: str) -> PermissionDenied:
    return PermissionDenied(
        f"A page of another site sent this request ({sign} says so); without an API key only "
        "pages of this gateway and programs that are no browser may do that. Use an API key"
    )
