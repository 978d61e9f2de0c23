"""`SignInFlow`: one sign-in of a browser, from its start to the answer of the provider.

The browser keeps the flow in a cookie, so that a start costs the gateway nothing, and any node can
serve the callback. The cookie holds one secret. State, nonce, PKCE verifier and the token of the
form are derived from it, so a state that comes with another browser's cookie fits nothing. The rest
of the cookie is the request of this browser, and is checked again when it comes back.
"""

import base64
import hashlib
import hmac
import re
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from trunkline.model.errors import InvalidParams

# The time to sign in at the provider.
FLOW_S: Final = 600
MAX_COOKIE_CHARS: Final = 3500
_MAX_NEXT_CHARS: Final = 1000
_MAX_STATE_CHARS: Final = 500
# RFC 8252, 7.3: programs on the user's own machine listen on loopback, at any port.
_LOOPBACK: Final = re.compile(
    r"http://(?:localhost|127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})(?:/[A-Za-z0-9._~/-]{0,200})?"
)
# RFC 7636, 4.1 and 4.2: 256 bits in base64url, and the characters of a verifier.
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
# A path of this gateway: no scheme, no host, and nothing that a browser takes for either. Browsers
# drop tabs and line breaks, and read a backslash as a slash.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")


class Program(Struct, frozen=True):
    """A program on the user's machine that wants a session (RFC 8252)."""

    redirect_uri: str
    state: str
    challenge: str

    def location(self, **values: str) -> str:
        return f"{self.redirect_uri}?{urlencode({**values, 'state': self.state})}"

    @property
    def origin(self) -> str:
        return "/".join(self.redirect_uri.split("/")[:3])


class SignInFlow(Struct, frozen=True, array_like=True):
    secret: str
    provider: str
    started_ms: int
    # Where the browser goes afterwards; empty for a program.
    next: str = ""
    program: Program | None = None

    def __repr__(self) -> str:
        return f"SignInFlow({self.provider!r})"

    def _derived(self, name: str) -> str:
        return base64url(hmac.digest(self.secret.encode(), name.encode(), "sha256"))

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    @property
    def form_token(self) -> str:
        return self._derived("form")

    @property
    def challenge(self) -> str:
        return challenge_of(self.verifier)

    def has_state(self, state: str) -> bool:
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))

    def has_form_token(self, token: str) -> bool:
        return hmac.compare_digest(self.form_token.encode(), token.encode("utf-8", "replace"))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def challenge_of(verifier: str) -> str:
    """RFC 7636, 4.2, the method S256."""
    return base64url(hashlib.sha256(verifier.encode("ascii", "replace")).digest())


def checked_next(path: str) -> str:
    """The path to go to after the sign-in. Raises InvalidParams for anything that may lead to
    another site."""
    if not path:
        return ""
    fits = len(path) <= _MAX_NEXT_CHARS and _OWN_PATH.fullmatch(path) is not None
    if not fits or _leads_away(path):
        raise InvalidParams.at("next", "must be a path of this gateway, such as /api/v1/auth/me")
    return path


def _leads_away(path: str) -> bool:
    try:
        parts = urlsplit(path)
    except ValueError:
        return True
    return bool(parts.scheme or parts.netloc)


def checked_program(
    *, redirect_uri: str, state: str, challenge: str, method: str
) -> Program | None:
    """The program that asks for a session; None if none of its parameters is there. Raises
    InvalidParams."""
    if not (redirect_uri or state or challenge or method):
        return None
    found = _LOOPBACK.fullmatch(redirect_uri)
    if found is None or int(found[1]) > 65535:
        raise InvalidParams.at(
            "redirect_uri", "must be a loopback address, such as http://localhost:PORT/callback"
        )
    if not 1 <= len(state) <= _MAX_STATE_CHARS or not _VISIBLE.fullmatch(state):
        raise InvalidParams.at(
            "state", f"must have up to {_MAX_STATE_CHARS} visible ASCII characters"
        )
    if method != "S256":
        raise InvalidParams.at("code_challenge_method", "must be S256")
    if not _CHALLENGE.fullmatch(challenge):
        raise InvalidParams.at("code_challenge", "must be a SHA-256 in base64url, 43 characters")
    return Program(redirect_uri, state, challenge)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SignInFlow).decode


def as_cookie(flow: SignInFlow) -> str:
    return base64url(_encode(flow))


def from_cookie(value: str, *, now_ms: int) -> SignInFlow | None:
    """The flow of a browser; None if it has none that still counts."""
    if not 0 < len(value) <= MAX_COOKIE_CHARS:
        return None
    try:
        data = base64.urlsafe_b64decode(value.encode("ascii") + b"=" * (-len(value) % 4))
        flow = _decode(data)
        program = flow.program
        _ = checked_next(flow.next)
        if program is not None:
            _ = checked_program(
                redirect_uri=program.redirect_uri,
                state=program.state,
                challenge=program.challenge,
                method="S256",
            )
    except (ValueError, msgspec.DecodeError, InvalidParams):
        return None
    is_current = now_ms - FLOW_S * 1000 <= flow.started_ms <= now_ms + FLOW_S * 1000
    return flow if is_current and len(flow.secret) >= 32 else None
