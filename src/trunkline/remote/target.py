"""`Target`: where an agent is, which headers it gets; `Limits`: the limits of a call."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.model.addresses import without_password
from trunkline.model.card import AgentInterface
from trunkline.remote.credentials import MASK, Credentials
from trunkline.remote.errors import InvalidTarget

Idempotency: TypeAlias = Literal["auto", "always", "never"]

CARD_PATH: Final = "/.well-known/agent-card.json"
TRANSPORTS: Final = ("JSONRPC", "HTTP+JSON")
# The client sets these itself, whatever the headers of a target say.
_OWN_HEADERS: Final = frozenset(
    {"content-type", "content-length", "transfer-encoding", "connection", "host", "accept"}
)
# RFC 9110, 5.6.2: a token.
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Python decodes invalid UTF-8 on the command line to these.
_BROKEN: Final = re.compile(r"[\ud800-\udfff]")


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds and bytes. A stream may be silent for `idle_s` and last for `stream_s`."""

    connect_s: float = 10.0
    call_s: float = 120.0
    idle_s: float = 120.0
    stream_s: float = 3600.0
    card_s: float = 15.0
    max_card_bytes: int = 1024 * 1024
    max_body_bytes: int = 16 * 1024 * 1024
    max_event_bytes: int = 16 * 1024 * 1024
    # Attempts in all for a read, or a send that can be repeated.
    attempts: int = 3
    # How often in a row a stream is resumed without anything new: a peer that restarts has
    # some 20 seconds for it.
    reconnects: int = 8
    # Failures in a row that open the circuit.
    circuit_failures: int = 5


class Target(Struct, frozen=True, kw_only=True):
    """`url` is the base that the card's path belongs to, or the url of the card itself.

    `version` insists on one version of the protocol. `idempotency` is about the key that
    lets a send be repeated: `auto` sends one to peers that say they honour it.
    """

    url: str
    card_path: str = CARD_PATH
    transports: tuple[str, ...] = TRANSPORTS
    version: str = ""
    alias: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    default: bool = False
    headers: Mapping[str, str] = {}
    credentials: Credentials | None = None
    idempotency: Idempotency = "auto"
    # Public keys (PEM, JWK, JWK Set) that may sign its card, and whether one must.
    card_keys: tuple[str, ...] = ()
    require_signature: bool = False
    # Origins beside that of `url` to which credentials and headers go if the card names them,
    # and which need not be public: "https://rpc.example.com".
    trusted_origins: tuple[str, ...] = ()
    # For development: let the card name any private address.
    allow_private: bool = False
    # Whether `url` and the token endpoint must be public, too.
    public_only: bool = False
    # For a call without a timeout of its own; None: that of the limits.
    timeout_s: float | None = None
    # Called instead of the interfaces in the card.
    interfaces: tuple[AgentInterface, ...] = ()

    def __repr__(self) -> str:
        headers = ", ".join(self.headers)
        return f"Target({self.url}, headers=[{headers}], credentials={self.credentials!r})"

    @property
    def card_url(self) -> str:
        if urlsplit(self.url).path.endswith(".json"):
            return self.url
        # The path of the url is kept: several agents may live below one host.
        base, mark, query = self.url.partition("?")
        return f"{base.rstrip('/')}/{self.card_path.lstrip('/')}{mark}{query}"

    def check(self) -> None:
        """Raises InvalidTarget."""
        check_url(self.url)
        for origin in self.trusted_origins:
            check_origin(origin)
        secret = self.credentials.headers() if self.credentials else {}
        for name, value in (*self.headers.items(), *secret.items()):
            check_header(name, value)

    @property
    def has_secrets(self) -> bool:
        """Whether a call carries headers or credentials that may be secret."""
        return bool(self.headers) or self.credentials is not None

    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be shown, longest first; any header may hold a key."""
        found = {*self.headers.values(), *(self.credentials.secrets() if self.credentials else ())}
        return tuple(sorted((one for one in found if len(one) >= 6), key=len, reverse=True))


def check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port, url.encode()
    except ValueError as error:
        if str(error).startswith("Port"):
            shown = without_password(url)[:200]
            raise InvalidTarget(f'"{shown}" has a port that is not from 0 to 65535') from None
        is_sound = False
        parts = urlsplit("")
    if not is_sound:
        raise InvalidTarget(
            f'"{without_password(url)[:200]}" is not an http or https url of an agent'
        )
    if parts.username or parts.password:
        raise InvalidTarget("the url of an agent holds a password; use credentials instead")


def check_origin(origin: str) -> None:
    check_url(origin)
    parts = urlsplit(origin)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidTarget(
            f'"{origin[:200]}" is not an origin: expected scheme, host and port alone, such as '
            "https://agent.example"
        )


def check_header(name: str, value: str) -> None:
    if not HEADER_NAME.fullmatch(name):
        raise InvalidTarget(f'"{name[:64]}" is not the name of a header')
    if _CONTROL.search(value):
        raise InvalidTarget(f'the value of the header "{name}" holds a line break')
    if _BROKEN.search(value):
        raise InvalidTarget(f'the value of the header "{name}" is no UTF-8 text')


def own_headers(
    headers: Mapping[str, str], credentials: Credentials | None, *known: str
) -> dict[str, str]:
    """Without the headers that the client sets itself; spelled as `known` and credentials are."""
    secret = (credentials.header,) if credentials else ()
    given = spelled_as((*known, *secret, "A2A-Version"), headers)
    return {name: value for name, value in given.items() if name.lower() not in _OWN_HEADERS}


def masked(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def merged(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    return {**first, **spelled_as(first, then)}


def spelled_as(known: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """The given headers, spelled as the known ones: names have no case, and none is sent twice."""
    names = {name.lower(): name for name in known}
    return {names.get(name.lower(), name): value for name, value in given.items()}
