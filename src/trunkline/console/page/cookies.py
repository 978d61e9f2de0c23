"""The cookie of the page's sessions, and the header without which it does not count."""

import re
from typing import Final

from trunkline.ports.authenticator import Headers

# Only a script of the page can send it: a page of another origin needs a preflight for a header of
# its own, which the gateway does not answer; a link, a form or an image has no headers at all.
HEADER: Final = b"trunkline-page"
_SECRET: Final = re.compile(rb"[A-Za-z0-9_-]{43}")


def cookie_name(port: int) -> str:
    """Browsers keep one set of cookies for all ports of a host, so the port is in the name: two
    gateways on a machine do not replace each other's cookie."""
    return f"tl_console_{port}"


def session_secret(headers: Headers, name: str) -> str:
    """The secret in the cookie; empty where the request has none that counts."""
    if headers.get(HEADER) != b"1" or b"cookie" not in headers:
        return ""
    wanted = name.encode()
    pairs = (
        pair.strip().partition(b"=") for pair in headers[b"cookie"].replace(b",", b";").split(b";")
    )
    values = [value for each, _, value in pairs if each == wanted]
    # A page of a sibling domain can add a cookie of the same name, but not take one away.
    if len(values) != 1 or not _SECRET.fullmatch(values[0]):
        return ""
    return values[0].decode()


def set_cookie(name: str, secret: str, *, max_age_s: int, is_secure: bool) -> str:
    """The value of `Set-Cookie`. An age of 0 removes the cookie."""
    secure = "; Secure" if is_secure else ""
    return f"{name}={secret}; Max-Age={max_age_s}; Path=/; HttpOnly; SameSite=Strict{secure}"
