"""`KnownSecrets` and `clean`: take credentials out of texts that people read.

The log and the wire log share the rules. A text may quote a secret that the gateway knows, which
`KnownSecrets` finds in every form in which it is written; and one that it does not know, which
`clean` finds by the shape of the secret or by the name beside it.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

from trunkline.config.secret import MASK

__all__ = [
    "MASK",
    "SENSITIVE",
    "SHORTEST_SECRET",
    "KnownSecrets",
    "clean",
    "is_secret_header",
    "is_secret_member",
    "is_secret_parameter",
    "may_name_a_secret",
    "without_tokens",
]

# The shortest secret to mask: a shorter one would be masked inside ordinary words.
SHORTEST_SECRET: Final = 6

_NAMES = (
    r"x-api-key|api[-_ ]?key|(?:access|refresh|id|session|notification)[-_]?token|token"
    r"|client[-_]?secret|secret|password|passwd|set-cookie|cookie|credentials"
)
# The text between a name and its value, in a header, a query, JSON, a dict or a list of byte pairs.
_SEPARATOR = r"""\\?["']?\s*(?:[:=]|,(?=\s*b?["']))\s*(?:b?\\?["'])?"""
_VALUE = r"""[^\s"'\\,;&)}\]]+"""
_AUTHORIZATION = re.compile(
    rf"((?:proxy-)?authorization{_SEPARATOR})([A-Za-z]+\s+)?{_VALUE}", re.IGNORECASE
)
_BEARER = re.compile(r"\b(bearer\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_BASIC = re.compile(r"\b(basic\s+)([A-Za-z0-9+/]{4,}={0,2})", re.IGNORECASE)
_NAMED = re.compile(rf"(?<![A-Za-z0-9])({_NAMES})({_SEPARATOR}){_VALUE}", re.IGNORECASE)
# A whole name under which a log record has a secret.
SENSITIVE: Final = re.compile(
    rf"(?:.*[-_.])?(?:(?:proxy-)?authorization|bearer|{_NAMES})", re.IGNORECASE
)

# Tokens of the gateway, such as `tl_key_` and 40 hexadecimal digits; and JSON Web Tokens.
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:tl|cw)_[A-Za-z0-9_-]{12,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{16,})"
)

_IN_HEADER = re.compile(
    r"token|secret|key|passw|passphrase|pwd|jwt|credential|cookie|authorization|(?:^|[-_])auth$"
)
# The key of a repeated request, and a random number of the handshake of a WebSocket.
_OPEN_HEADERS: Final = frozenset(
    {"idempotency-key", "sec-websocket-key", "access-control-allow-credentials"}
)
_IN_MEMBER = re.compile(
    r"secret|passw|passphrase|pwd|jwt|apikey|privatekey|accesskey|credential|authorization|cookie"
)
# RFC 6749 (4.1.2), RFC 7523, and what signs a URL, as those of object stores are.
_PARAMETERS: Final = frozenset({"code", "sig", "pass", "auth", "otp", "assertion"})
# `nextPageToken` is a place in a list, and cards name the URLs and kinds of their sign-in.
_OPEN_MEMBER = re.compile(r".*(?:pagetoken|url|securityscheme)")
_PUNCTUATION = re.compile(r"[^a-z0-9]")


class KnownSecrets:
    """The secrets of the settings. Each may belong to several parts of the gateway."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = Counter(secrets)
        # Made of the secrets when a text comes, because many agents may come at once.
        self._pattern: re.Pattern[str] | None = None
        self._is_stale = True
        self._longest = 0

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these too."""
        self._secrets.update(secrets)
        self._is_stale = True

    def forget(self, secrets: Iterable[str]) -> None:
        """Mask these no more, unless another part has them as well."""
        self._secrets.subtract(secrets)
        self._secrets = +self._secrets
        self._is_stale = True

    @property
    def longest(self) -> int:
        """The length of the longest form of a secret."""
        self._made()
        return self._longest

    def without(self, text: str) -> str:
        """The text with masks in place of the secrets."""
        pattern = self._made()
        return text if pattern is None else pattern.sub(MASK, text)

    def _made(self) -> re.Pattern[str] | None:
        if self._is_stale:
            forms = {form for secret in self._secrets for form in _forms(secret)}
            known = sorted((f for f in forms if len(f) >= SHORTEST_SECRET), key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, known))) if known else None
            self._longest = max(map(len, known), default=0)
            self._is_stale = False
        return self._pattern


_ESCAPE: Final = re.compile(r"%[0-9A-F]{2}")


def _forms(secret: str) -> Iterable[str]:
    """How a secret is written in texts, URLs, forms and JSON."""
    if len(secret) < SHORTEST_SECRET:
        return
    # A header quotes a token without its scheme.
    scheme, _, token = secret.partition(" ")
    is_schemed = scheme.lower() in ("bearer", "basic")
    for each in (secret, token.strip()) if is_schemed else (secret,):
        yield each
        readable = each.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        quoted = quote(readable, safe="")
        # RFC 3986, 2.1: the digits of an escape may be in either case.
        yield quoted
        yield _ESCAPE.sub(lambda found: found[0].lower(), quoted)
        yield quote_plus(readable)
        for ascii_only in (True, False):
            escaped = json.dumps(each, ensure_ascii=ascii_only)[1:-1]
            yield escaped
            yield escaped.replace("/", "\\/")


def may_name_a_secret(text: str) -> bool:
    """Whether a name in the text may be that of a secret. Most texts have none, and this is found
    out much faster than by the patterns."""
    lowered = text.lower()
    return any([word in lowered for word in _WORDS])


# Of these one is in every name of a secret.
_WORDS: Final = (
    "token",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "jwt",
    "key",
    "credential",
    "authorization",
    "cookie",
    "bearer",
)


def clean(text: str) -> str:
    """The text without what looks like a credential, or is named as one."""
    if not may_name_a_secret(text):
        return text
    text = _AUTHORIZATION.sub(lambda m: f"{m[1]}{m[2] or ''}{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    return _NAMED.sub(rf"\1\2{MASK}", text)


def without_tokens(text: str) -> str:
    """The text without what looks like a credential by itself, whatever its name. Ordinary
    sentences stay as they are."""
    lowered = text.lower()
    if "bearer" in lowered:
        text = _BEARER.sub(rf"\1{MASK}", text)
    if "basic" in lowered:
        text = _BASIC.sub(_without_password, text)
    if "tl_" in text or "cw_" in text or "eyJ" in text:
        text = _TOKEN.sub(MASK, text)
    return text


def _without_password(found: re.Match[str]) -> str:
    """RFC 7617: user and password, with a colon between them. Sentences have the word, too."""
    try:
        decoded = base64.b64decode(found[2], validate=True)
    except ValueError:
        return found[0]
    return f"{found[1]}{MASK}" if b":" in decoded else found[0]


def is_secret_header(name: str) -> bool:
    name = name.lower()
    return name not in _OPEN_HEADERS and _IN_HEADER.search(name) is not None


def is_secret_parameter(name: str) -> bool:
    """Whether a parameter of a query or a form holds a secret, by its name."""
    name = name.lower()
    if _OPEN_MEMBER.fullmatch(_PUNCTUATION.sub("", name)):
        return False
    if name in _PARAMETERS or name.endswith(("signature", "assertion")):
        return True
    return _IN_HEADER.search(name) is not None


def is_secret_member(name: str) -> bool:
    """Whether a member of a JSON object holds a secret, by its name."""
    name = _PUNCTUATION.sub("", name.lower())
    if _OPEN_MEMBER.fullmatch(name):
        return False
    return name.endswith(("token", "bearer")) or _IN_MEMBER.search(name) is not None
