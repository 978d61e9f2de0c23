"""Agents to call: credentials, and the rules of addresses and headers that tables share."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, did_you_mean, one_of
from trunkline.config.secret import Secret
from trunkline.config.urls import URL_TEXT, url_fault

CARD_PATH = "/.well-known/agent-card.json"
TRANSPORTS = ("JSONRPC", "HTTP+JSON")
# Field names and values as RFC 9110 §5.1 and §5.5 have them.
HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# The client writes these itself.
OWN_HEADERS = frozenset(
    ("accept", "connection", "content-length", "content-type", "host", "transfer-encoding")
)


class _Credentials(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class BearerCredentials(_Credentials, frozen=True, kw_only=True, tag="bearer"):
    """A token, sent as `Authorization: Bearer …`."""

    token: Annotated[Secret, doc('The token. Prefer `"${NAME_OF_VARIABLE}"`.')]


class ApiKeyCredentials(_Credentials, frozen=True, kw_only=True, tag="api-key"):
    """A key, sent in its own header."""

    key: Annotated[Secret, doc('The key. Prefer `"${NAME_OF_VARIABLE}"`.')]
    header: Annotated[str, doc("Name of the header.")] = "X-API-Key"


class OAuth2Credentials(_Credentials, frozen=True, kw_only=True, tag="oauth2"):
    """OAuth 2 client credentials: a token is fetched when needed and cached while it is valid."""

    token_url: Annotated[str, doc("Token endpoint, http or https.")]
    client_id: Annotated[str, doc("Client id at the token endpoint.", min_length=1)]
    client_secret: Annotated[Secret, doc('Client secret. Prefer `"${NAME_OF_VARIABLE}"`.')]
    scopes: Annotated[tuple[str, ...], doc("Scopes to request.")] = ()
    audience: Annotated[str, doc("Audience to request, if the endpoint needs one.")] = ""


CredentialSettings: TypeAlias = BearerCredentials | ApiKeyCredentials | OAuth2Credentials

# The settings that every table of an agent to call has.
A2aVersion: TypeAlias = Annotated[
    Literal["", "1.0", "0.3"], doc("Use only this A2A version. Empty: the newest common version.")
]
Headers: TypeAlias = Annotated[
    dict[str, Secret], doc("Headers of every request to it. Their values are treated as secrets.")
]
Credentials: TypeAlias = Annotated[
    CredentialSettings | None,
    doc(
        'Credentials for the calls, for example `{ kind = "bearer", token = '
        '"${TOKEN}" }`; see its kinds.'
    ),
]
TrustedOrigins: TypeAlias = Annotated[
    tuple[str, ...],
    doc(
        'Origins, such as `"https://rpc.example.com"`, that may have its headers and '
        "credentials and need not be public if its card names them. Its own origin is always one "
        "of them. Any other origin that the card names is called without headers and "
        "credentials, and at public addresses only."
    ),
]


def url_problems(url: str, path: Path) -> Iterator[Problem]:
    if fault := url_fault(url):
        yield bad_value(path, fault, f'Example: {path[-1]} = "https://support.example.com".')


def origin_problems(origins: Iterable[str], path: Path) -> Iterator[Problem]:
    for i, origin in enumerate(origins):
        fault = url_fault(origin)
        parts = None if fault else urlsplit(origin)
        if parts and (parts.path not in ("", "/") or parts.query or parts.fragment):
            fault = "expected scheme, host and port alone"
        if fault:
            yield bad_value(
                (*path, i), fault, 'Example: trusted_origins = ["https://rpc.example.com"].'
            )


def card_path_problems(card_path: str, path: Path) -> Iterator[Problem]:
    if card_path and ("://" in card_path or not URL_TEXT.fullmatch(card_path)):
        yield bad_value(
            path, "expected a path", 'Example: card_path = "/.well-known/agent-card.json".'
        )


def transport_problems(
    names: Iterable[str], path: Path, *, reads: tuple[Path, ...] = ()
) -> Iterator[Problem]:
    for i, name in enumerate(names):
        if name not in TRANSPORTS:
            yield bad_value(
                (*path, i),
                "is a binding that we cannot speak",
                f"{did_you_mean(name.upper(), TRANSPORTS)}Known: {one_of(TRANSPORTS)}.",
                reads=reads,
            )


def header_problems(
    headers: Mapping[str, Secret], credentials: CredentialSettings | None, path: Path
) -> Iterator[Problem]:
    """`path` is that of the table which holds both."""
    for name, value in headers.items():
        yield from _header(name, value, (*path, "headers", name))
    if credentials is None:
        return
    taken = "Authorization"
    if isinstance(credentials, ApiKeyCredentials):
        taken = credentials.header
    for name in headers:
        if name.lower() == taken.lower():
            yield Problem(
                (*path, "headers", name),
                "is set by the credentials already",
                "Keep one of the two.",
            )
    yield from _credentials(credentials, (*path, "credentials"))


def _header(name: str, value: Secret, path: Path) -> Iterator[Problem]:
    if not HEADER_NAME.fullmatch(name):
        yield Problem(
            path,
            "cannot be the name of a header",
            "Use letters, digits and hyphens, for example X-Team.",
        )
    elif name.lower() in OWN_HEADERS:
        yield Problem(path, "is a header that the call itself decides", "Remove it.")
    if not HEADER_VALUE.fullmatch(value.reveal()):
        yield bad_value(
            path,
            "holds characters that cannot be sent in a header",
            "Use visible ASCII characters, without line breaks.",
        )


def _credentials(credentials: CredentialSettings, path: Path) -> Iterator[Problem]:
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
                yield bad_value(
                    (*path, "token_url"),
                    fault,
                    'Example: token_url = "https://login.example.com/oauth2/token".',
                )


def _secret(secret: Secret | None, path: Path) -> Iterator[Problem]:
    text = secret.reveal() if secret is not None else "-"
    if not text.strip():
        yield bad_value(
            path,
            "is empty",
            "Set the environment variable that it refers to, or leave credentials out.",
        )
    elif not HEADER_VALUE.fullmatch(text) or text != text.strip():
        yield bad_value(
            path,
            "holds characters that cannot be sent in a header",
            "Look for a line break or spaces at its end.",
        )
