"""`Access`: the principal of a request, determined by its credential alone."""

import asyncio
import ipaddress
import logging
import traceback
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import Final

from trunkline.engine.access import is_unrestricted
from trunkline.model.errors import (
    CallerError,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
)
from trunkline.model.principal import ANONYMOUS, Principal
from trunkline.ports.authenticator import Authenticator, Headers
from trunkline.server.api_keys import WAYS, ApiKeys, bearer_token
from trunkline.server.asgi import is_local_address
from trunkline.server.http import Header, Request, hostname_of

_log = logging.getLogger("trunkline.server")

_CHALLENGE: Final = b'Bearer realm="trunkline"'


def challenge(error: Unauthenticated | PermissionDenied) -> Header:
    """RFC 6750, 3.1: a request without a credential gets no error code."""
    code = b""
    if isinstance(error, PermissionDenied):
        code = b', error="insufficient_scope"'
    elif error.has_credential:
        code = b', error="invalid_token"'
    return (b"www-authenticate", _CHALLENGE + code)


# The longest time to check a credential that is not in memory, and the number of requests that
# may wait for one authenticator: a slow one must not hold every connection.
IDENTIFY_S: Final = 10.0
MAX_WAITING: Final = 256
RETRY_AFTER_S: Final = 5

# The page sends it with every request, and the cookie of its session counts only with it.
PAGE_HEADER: Final = b"trunkline-page"

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


class Access:
    """Asks the authenticators in their order: first all of them in memory, then each one that may
    have to wait."""

    def __init__(
        self,
        *,
        keys: ApiKeys,
        more: Sequence[Authenticator] = (),
        allows_anonymous: bool = False,
        allows_proxied: bool = False,
        hosts: Collection[str] = (),
        page_hosts: Collection[str] = (),
        certificate_proxies: Sequence[IPv4Network | IPv6Network] | None = None,
        page_sessions: Authenticator | None = None,
        identify_s: float = IDENTIFY_S,
        needed: str = "This gateway needs an API key",
    ) -> None:
        """`allows_proxied`: anonymous callers may come through a proxy. `hosts` are names beside
        loopback by which anonymous callers may call the gateway. `page_hosts` are names of the
        gateway whose pages may use a cookie, also where a proxy states another Host.
        `certificate_proxies` may state the client certificates that they verified; None where such
        certificates do not count. `page_sessions` finds the sessions of the page, which only
        requests with the header `Trunkline-Page` have. `needed` says what callers without a
        credential lack."""
        self._needed = needed
        self._identify_s = identify_s
        self._certificate_proxies = certificate_proxies
        self._keys = keys
        self._more = tuple(more)
        self._allows_anonymous = allows_anonymous
        self._allows_proxied = allows_proxied
        self._hosts = hosts
        self._page_hosts = page_hosts
        self._page_sessions = page_sessions
        # How many requests wait for each authenticator.
        self._waiting = [0] * len(self._more)
        # The principal of a request, if memory holds it. Keys alone are asked without a call in
        # between. None when there is no authenticator to ask.
        self.known: Callable[[Headers], Principal | None] | None = None
        if more:
            self.known = self._known_by_header
        elif keys.principals:
            self.known = keys.known

    def _known_by_header(self, headers: Headers) -> Principal | None:
        # For a cookie, `identify` checks the page that the request came from, and for a certificate
        # the proxy.
        has_key = b"authorization" in headers or b"x-api-key" in headers
        if self._certificate_proxies is not None and not _CERTIFICATES.isdisjoint(headers):
            return None
        return self._known(headers) if has_key else None

    def _known(self, headers: Headers) -> Principal | None:
        for authenticator in (self._keys, *self._more):
            try:
                principal = authenticator.known(headers)
            except Exception as error:  # noqa: BLE001 - logged; `identify` may still succeed
                _log_failure(authenticator, error)
                continue
            if principal is not None:
                return principal
        return None

    async def identify(self, request: Request) -> Principal:
        """The principal of a request. Raises Unauthenticated, PermissionDenied or Unavailable."""
        principal = await self.identify_if_stated(request)
        if principal is not None:
            return principal
        headers = request.headers
        if not self._allows_anonymous:
            raise Unauthenticated(f"{self._needed}: send it as {self._how}")
        # Another ASGI server may listen on an address that other machines reach.
        if not request.is_local and not self._allows_proxied:
            raise self._from_elsewhere("from another machine")
        # Behind a proxy on this machine every caller seems to be on loopback. The names are joined,
        # because a loop over them would cost every anonymous request more than everything above.
        if not self._allows_proxied and (
            b"\n".join(headers).find(b"x-forwarded-") >= 0 or not _PROXY_HEADERS.isdisjoint(headers)
        ):
            raise self._from_elsewhere("through a proxy")
        # DNS rebinding: a web page can point its own host name at the loopback address, but it
        # cannot make the browser send another Host.
        host = headers.get(b"host")
        if host is not None and not _is_loopback(host) and hostname_of(host) not in self._hosts:
            raise PermissionDenied(
                "Anonymous callers must use a loopback address as host; "
                "use http://127.0.0.1, or an API key"
            )
        # A browser lets a page of any site post to this address, without a key.
        if b"origin" in headers or b"sec-fetch-site" in headers:
            check_origin(request, self._hosts)
        return ANONYMOUS

    async def identify_if_stated(self, request: Request) -> Principal | None:
        """The principal of the credential in a request; None if it has none. Raises Unauthenticated
        for one that is not known, PermissionDenied or Unavailable."""
        headers = request.headers
        if self._certificate_proxies is not None and not _CERTIFICATES.isdisjoint(headers):
            self._check_proxy(request)
        principal = await self.identify_key(headers)
        if principal is not None:
            return principal
        ended: Unauthenticated | None = None
        if self._page_sessions is not None and PAGE_HEADER in headers and b"cookie" in headers:
            try:
                principal = await self._identify_page(self._page_sessions, request)
            except Unauthenticated as error:
                # A session of a person may count.
                ended = error
        if principal is None and self._more:
            principal = self._known(headers) or await self._ask(headers)
            if principal is None:
                if ended is not None:
                    raise ended
                return None
            # A browser sends cookies by itself, whichever page makes it send a request.
            check_origin(request, self._page_hosts)
            if b"cookie" in headers:
                _check_states_page(request)
        if principal is None and ended is not None:
            raise ended
        return principal

    async def _identify_page(self, sessions: Authenticator, request: Request) -> Principal | None:
        try:
            async with asyncio.timeout(self._identify_s):
                principal = await sessions.identify(request.headers)
        except CallerError:
            raise
        except Exception as error:  # noqa: BLE001 - logged; the client learns nothing of it
            _log_failure(sessions, error)
            raise _cannot_check() from None
        if principal is not None:
            check_origin(request, self._page_hosts)
            _check_states_page(request)
        return principal

    async def identify_key(self, headers: Headers) -> Principal | None:
        """The same for an API key or a token alone, which count wherever they come from."""
        if b"authorization" not in headers and b"x-api-key" not in headers:
            return None
        principal = self._known(headers) or await self._ask(headers)
        if principal is None:
            raise self._unknown(headers)
        return principal

    def _check_proxy(self, request: Request) -> None:
        """Raises PermissionDenied for a caller that states a client certificate by itself."""
        try:
            peer = ipaddress.ip_address(request.peer)
        except ValueError:
            peer = None
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        proxies = self._certificate_proxies or ()
        if peer is None or not any(peer in network for network in proxies):
            raise PermissionDenied(
                "Only the proxies that the gateway trusts may send the header Client-Cert"
            )

    async def identify_unrestricted(self, request: Request) -> Principal:
        """The same for what is not an agent, such as metrics: only a principal that may call every
        agent has access."""
        principal = await self.identify(request)
        if not is_unrestricted(principal):
            raise PermissionDenied(
                "This credential is limited to certain agents or operations; this address needs "
                "one that is not"
            )
        return principal

    async def _ask(self, headers: Headers) -> Principal | None:
        """The first principal that an authenticator finds. One that fails stops no other."""
        failed: Unavailable | None = None
        for index, authenticator in enumerate(self._more):
            if self._waiting[index] >= MAX_WAITING:
                failed = _cannot_check()
                continue
            self._waiting[index] += 1
            try:
                async with asyncio.timeout(self._identify_s):
                    principal = await authenticator.identify(headers)
            except Unauthenticated:
                raise
            except Exception as error:  # noqa: BLE001 - logged; the client learns nothing of it
                _log_failure(authenticator, error)
                failed = _cannot_check()
                continue
            finally:
                self._waiting[index] -= 1
            if principal is not None:
                return principal
        # The credential may be good, so the client must not take it for a wrong one.
        if failed is not None:
            raise failed
        return None

    @property
    def _how(self) -> str:
        return " or as ".join([way for scheme, way in WAYS.items() if scheme in self._keys.schemes])

    def _from_elsewhere(self, where: str) -> Unauthenticated:
        return Unauthenticated(
            f"This request came {where}, and only programs on the gateway's own machine need no "
            f"API key: send one as {self._how}"
        )

    def _unknown(self, headers: Headers) -> Unauthenticated:
        """The refusal of a credential that no authenticator knows."""
        if "bearer" in self._keys.schemes and b"authorization" in headers:
            if not bearer_token(headers[b"authorization"]):
                return _invalid("The Authorization header must have the form 'Bearer KEY'")
        elif "apiKey" not in self._keys.schemes or b"x-api-key" not in headers:
            return _invalid(f"This gateway takes an API key only as {self._how}")
        return _invalid("The API key is not known here; check it or ask for a new one")


def is_loopback(host: bytes) -> bool:
    """Whether a `Host` header names a loopback address."""
    return _is_loopback(host)


def is_direct(request: Request) -> bool:
    """Whether a request came from this machine, through no proxy, to a loopback address. One
    without the address of a peer came over a Unix socket or a relay, so from a proxy."""
    headers = request.headers
    return (
        request.peer != ""
        and is_local_address(request.peer)
        and b"\n".join(headers).find(b"x-forwarded-") < 0
        and _PROXY_HEADERS.isdisjoint(headers)
        and _is_loopback(headers.get(b"host", b""))
    )


class KnownCaller(Access):
    """The access of one request whose caller was found before."""

    def __init__(self, principal: Principal) -> None:
        super().__init__(keys=ApiKeys({}, ()))
        self.known = lambda _: principal


def _invalid(message: str) -> Unauthenticated:
    return Unauthenticated(message, has_credential=True)


def _cannot_check() -> Unavailable:
    return Unavailable(
        "The gateway cannot check this credential at the moment; try again later",
        retry_after_s=RETRY_AFTER_S,
    )


def _log_failure(authenticator: Authenticator, error: Exception) -> None:
    # Without the text of the error, which may hold the credential.
    last = traceback.extract_tb(error.__traceback__)[-1]
    _log.error(
        "an authenticator failed",
        extra={
            "authenticator": type(authenticator).__name__,
            "error": type(error).__name__,
            "at": f"{last.filename}:{last.lineno}",
        },
    )


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


# RFC 9440, 2.
_CERTIFICATES: Final = frozenset({b"client-cert", b"client-cert-chain"})

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


def _check_states_page(request: Request) -> None:
    """Raises PermissionDenied for a request that changes something and does not say which page it
    comes from: every browser says it of a POST, and other clients send no cookie."""
    headers = request.headers
    if request.method in _READING or b"origin" in headers:
        return
    # Another service of the same site is not this gateway.
    if headers.get(b"sec-fetch-site", b"").strip().lower() == b"same-origin":
        return
    raise PermissionDenied(
        "A request with a cookie needs the header Origin; programs that are no browser send the "
        "token as 'Authorization: Bearer TOKEN'"
    )


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
