"""Rules of the agents that are called, and of the tool that calls them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from trunkline.settings.credentials import (
    ApiKeyCredentials,
    BearerCredentials,
    CredentialSettings,
    OAuth2Credentials,
)
from trunkline.settings.outbound import TRANSPORTS, RemoteSettings, TargetSettings
from trunkline.settings.problems import Path, Problem, did_you_mean, one_of, shown
from trunkline.settings.root import Settings
from trunkline.settings.rules.urls import web_url_fault
from trunkline.settings.secret import MASK, Secret

MAX_ALIAS_CHARS = 100
# RFC 3986 has no others, and a `%` only before two hexadecimal digits.
URL_TEXT = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
# RFC 9110.
HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# What a call says itself.
OWN_HEADERS = frozenset(
    ("accept", "connection", "content-length", "content-type", "host", "transfer-encoding")
)


def target_problems(settings: Settings) -> Iterator[Problem]:
    yield from _remote(settings.remote)
    defaults = [alias for alias, target in settings.targets.items() if target.default]
    for alias in defaults[1:]:
        yield Problem(
            path=("targets", alias, "default"),
            value="true",
            what=f'"{defaults[0]}" is the default target already',
            remedy="Keep default = true in one target only.",
        )
    for alias, target in settings.targets.items():
        yield from _target(alias, target, settings.remote)


def _remote(remote: RemoteSettings) -> Iterator[Problem]:
    if remote.mcp and not remote.enabled:
        yield Problem(
            path=("remote", "mcp"),
            value="true",
            what="there is no tool to serve: enabled is false",
            remedy="Set enabled = true, or leave mcp out.",
            reads=(("remote", "enabled"),),
        )
    yield from card_path_problems(remote.card_path, ("remote", "card_path"))
    yield from transport_problems(remote.transports, ("remote", "transports"), remote)
    yield from header_problems(remote.headers, None, ("remote",))


def _target(alias: str, target: TargetSettings, remote: RemoteSettings) -> Iterator[Problem]:
    path = ("targets", alias)
    if not _is_alias(alias):
        yield Problem(
            path=path,
            what="cannot be an alias",
            remedy=f"Use up to {MAX_ALIAS_CHARS} visible characters without :// in them, for "
            "example [targets.support].",
        )
    fault = url_fault(target.base_url)
    if fault:
        yield Problem(
            path=(*path, "base_url"),
            value=shown(target.base_url),
            what=fault,
            remedy='Example: base_url = "https://support.example.com".',
        )
    yield from card_path_problems(target.card_path, (*path, "card_path"))
    yield from transport_problems(target.transports, (*path, "transports"), remote)
    yield from header_problems(target.headers, target.credentials, path)
    if target.credentials is not None:
        yield from credential_problems(target.credentials, (*path, "credentials"))
    yield from origin_problems(target.trusted_origins, (*path, "trusted_origins"))
    yield from _card_keys(target, path)


def _card_keys(target: TargetSettings, path: Path) -> Iterator[Problem]:
    if target.require_signature and not target.card_keys:
        yield Problem(
            path=(*path, "require_signature"),
            value="true",
            what="needs a key to check the signature with",
            remedy="Put the public key of the signer into card_keys.",
        )
    if not target.card_keys:
        return
    # Here, because few need it and it takes a while.
    from trunkline.remote import InvalidTarget
    from trunkline.remote.card_signatures import CardKeys

    for i, text in enumerate(target.card_keys):
        try:
            CardKeys((text,), is_required=True)
        except InvalidTarget as error:
            yield Problem(
                path=(*path, "card_keys", i),
                what=error.message,
                remedy='Example: card_keys = [\'{"kty":"EC","crv":"P-256",…}\'].',
            )


def origin_problems(origins: Iterable[str], path: Path) -> Iterator[Problem]:
    for i, origin in enumerate(origins):
        fault = url_fault(origin)
        parts = None if fault else urlsplit(origin)
        if parts and (parts.path not in ("", "/") or parts.query or parts.fragment):
            fault = "expected scheme, host and port alone"
        if fault:
            yield Problem(
                path=(*path, i),
                value=shown(origin),
                what=fault,
                remedy='Example: trusted_origins = ["https://rpc.example.com"].',
            )


def _is_alias(alias: str) -> bool:
    is_short = 0 < len(alias) <= MAX_ALIAS_CHARS
    return is_short and alias == alias.strip() and alias.isprintable() and "://" not in alias


def url_fault(url: str) -> str:
    fault = web_url_fault(url)
    if not fault and not URL_TEXT.fullmatch(url):
        fault = "expected a URL in ASCII, with anything else percent-encoded"
    return fault


def card_path_problems(card_path: str, path: Path) -> Iterator[Problem]:
    if card_path and ("://" in card_path or not URL_TEXT.fullmatch(card_path)):
        yield Problem(
            path=path,
            value=shown(card_path),
            what="expected a path",
            remedy='Example: card_path = "/.well-known/agent-card.json".',
        )


def transport_problems(
    names: Iterable[str], path: Path, remote: RemoteSettings | None = None
) -> Iterator[Problem]:
    """`remote` may allow bindings that we do not know."""
    if remote is not None and not remote.enforce_transports:
        return
    for i, name in enumerate(names):
        if name not in TRANSPORTS:
            yield Problem(
                path=(*path, i),
                value=shown(name),
                what="is a binding that we cannot speak",
                remedy=f"{did_you_mean(name.upper(), TRANSPORTS)}Known: {one_of(TRANSPORTS)}.",
                reads=(("remote", "enforce_transports"),) if remote is not None else (),
            )


def header_problems(
    headers: Mapping[str, Secret], credentials: CredentialSettings | None, path: Path
) -> Iterator[Problem]:
    """`path` is that of the table which holds both."""
    for name, value in headers.items():
        yield from _header(name, value, (*path, "headers", name))
    if credentials is not None:
        yield from _twice(headers, credentials, path)


def _header(name: str, value: Secret, path: Path) -> Iterator[Problem]:
    if not HEADER_NAME.fullmatch(name):
        yield Problem(
            path=path,
            what="cannot be the name of a header",
            remedy="Use letters, digits and hyphens, for example X-Team.",
        )
    elif name.lower() in OWN_HEADERS:
        yield Problem(
            path=path, what="is a header that the call itself decides", remedy="Remove it."
        )
    if not HEADER_VALUE.fullmatch(value.reveal()):
        yield Problem(
            path=path,
            value=MASK,
            what="holds characters that cannot be sent in a header",
            remedy="Use visible ASCII characters, without line breaks.",
        )


def credential_problems(credentials: CredentialSettings, path: Path) -> Iterator[Problem]:
    match credentials:
        case BearerCredentials():
            yield from _secret(credentials.token, (*path, "token"))
        case ApiKeyCredentials():
            yield from _secret(credentials.key, (*path, "key"))
            yield from _header(credentials.header, Secret(""), (*path, "header"))
        case OAuth2Credentials():
            yield from _secret(credentials.client_secret, (*path, "client_secret"))
            fault = url_fault(credentials.token_url)
            if fault:
                yield Problem(
                    path=(*path, "token_url"),
                    value=shown(credentials.token_url),
                    what=fault,
                    remedy='Example: token_url = "https://login.example.com/oauth2/token".',
                )


def _secret(secret: Secret | None, path: Path) -> Iterator[Problem]:
    text = secret.reveal() if secret is not None else "-"
    if not text.strip():
        yield Problem(
            path=path,
            value=MASK,
            what="is empty",
            remedy="Set the environment variable that it refers to, or leave credentials out.",
        )
    elif not HEADER_VALUE.fullmatch(text) or text != text.strip():
        yield Problem(
            path=path,
            value=MASK,
            what="holds characters that cannot be sent in a header",
            remedy="Look for a line break or spaces at its end.",
        )


def _twice(
    headers: Mapping[str, Secret], credentials: CredentialSettings, path: Path
) -> Iterator[Problem]:
    taken = "Authorization"
    if isinstance(credentials, ApiKeyCredentials):
        taken = credentials.header
    for name in headers:
        if name.lower() == taken.lower():
            yield Problem(
                path=(*path, "headers", name),
                what="is set by the credentials already",
                remedy="Keep one of the two.",
            )
