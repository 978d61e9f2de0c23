"""Who calls: only ever from a credential."""

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache

from trunkline.model.calls import ANONYMOUS
from trunkline.model.errors import PermissionDenied, Unauthenticated
from trunkline.server.http import Header, Request, hostname_of

CHALLENGE: Header = (b"www-authenticate", b'Bearer realm="trunkline"')

# What nearly every caller uses; anything else is looked at closely.
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# Beside X-Forwarded-*: RFC 7239, RFC 9110 (7.6.3), and what nginx, CDNs and Envoy add.
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


class Access:
    def __init__(
        self,
        *,
        principals: Mapping[str, str],
        allows_anonymous: bool,
        allows_proxied: bool = False,
        hosts: Iterable[str] = (),
    ) -> None:
        """`principals` maps the SHA-256 of a key, in hex, to whom it stands for.

        `allows_proxied` lets anonymous callers come through a proxy. `hosts` are names beside
        loopback by which anonymous callers may call the gateway.
        """
        self._principals = dict(principals)
        self._allows_anonymous = allows_anonymous
        self._allows_proxied = allows_proxied
        self._hosts = frozenset(hosts)

    def identify(self, request: Request) -> str:
        """The principal. Raises Unauthenticated or PermissionDenied."""
        headers = request.headers
        token = _bearer(headers[b"authorization"]) if b"authorization" in headers else None
        token = token or headers.get(b"x-api-key")
        if token is not None:
            # Looking up the digest tells a clock nothing about the key.
            principal = self._principals.get(hashlib.sha256(token).hexdigest())
            if principal is None:
                raise Unauthenticated(
                    "The API key is not known here; check it or ask for a new one"
                )
            return principal
        if not self._allows_anonymous:
            raise Unauthenticated(
                "This gateway needs an API key: send it as 'Authorization: Bearer KEY' "
                "or as 'X-API-Key: KEY'"
            )
        # Behind a proxy on this machine every caller seems to be on loopback. Joined, because
        # a loop over the names would cost every anonymous request more than all of the above.
        if not self._allows_proxied and (
            b"x-forwarded-" in b"\n".join(headers) or not _PROXY_HEADERS.isdisjoint(headers)
        ):
            raise Unauthenticated(
                "This request came through a proxy, and only programs on the gateway's own "
                "machine need no API key: send one as 'Authorization: Bearer KEY' or as "
                "'X-API-Key: KEY'"
            )
        # A page on the web can point its own host name at the loopback address; what
        # it cannot do is make the browser send another Host.
        host = headers.get(b"host")
        if host is not None and not _is_loopback(host) and hostname_of(host) not in self._hosts:
            raise PermissionDenied(
                "Anonymous callers must use a loopback address as host; "
                "use http://127.0.0.1, or an API key"
            )
        return ANONYMOUS


def _bearer(value: bytes) -> bytes:
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer" or not token.strip():
        raise Unauthenticated("The Authorization header must have the form 'Bearer KEY'")
    return token.strip()


# The same few hosts come again and again.
@lru_cache(maxsize=256)
def _is_loopback(host: bytes) -> bool:
    hostname = hostname_of(host)
    if hostname in _LOOPBACK_NAMES:
        return True
    # An address as a whole: whoever owns example.com owns 127.example.com as well.
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False
