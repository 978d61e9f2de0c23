"""`check_origin`: whether a page of another site sends a request through somebody's browser."""

from collections.abc import Collection

from trunkline.model.errors import PermissionDenied
from trunkline.server.http import Request, hostname_of

# They change nothing, and a browser does not show the answer to a page of another origin.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


def check_origin(request: Request, own_hosts: Collection[str] = (), *, reads: bool = False) -> None:
    """Raises PermissionDenied for a page that is not of this gateway.

    A browser says on its own which page a request comes from; other clients say nothing and
    pass. A form or a script of any site can make a browser POST, without a preflight where
    the body is empty or plain text. `own_hosts` are further names of the gateway. `reads`:
    look at requests that change nothing as well.
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
    # speak TLS where we do not, so the port that goes without saying is that of the page.
    own = host.strip().lower()
    return authority.removesuffix(default) == own.removesuffix(default) or name in own_hosts


def _refusal(sign: str) -> PermissionDenied:
    return PermissionDenied(
        f"A page of another site sent this request ({sign} says so); without an API key only "
        "pages of this gateway and programs that are no browser may do that. Use an API key"
    )
