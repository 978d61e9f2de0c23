"""The headers that pass the relay.

A request loses its credential, which is for the relay alone, and what is about one connection or
written by proxies. A response keeps only what clients of A2A need: an agent answers at the address
of the relay, where a cookie or a page of one agent would reach the others.
"""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from trunkline.protocol.relay.frames import Header

RawHeader: TypeAlias = tuple[bytes, bytes]

_CREDENTIALS: Final = (
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "cookie",
    "client-cert",
    "client-cert-chain",
)
# RFC 9110, 7.6.1, and those that servers and proxies set.
_OF_CONNECTIONS: Final = (
    "connection",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "origin",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-real-ip",
)
_LEFT_OUT: Final = frozenset((*_CREDENTIALS, *_OF_CONNECTIONS))
_LEFT_OUT_PREFIXES: Final = ("x-forwarded-", "sec-", "cf-")
_OF_RESPONSES: Final = frozenset(
    {
        "a2a-extensions",
        "a2a-version",
        "allow",
        "cache-control",
        "content-length",
        "content-type",
        "etag",
        "last-modified",
        "retry-after",
        "vary",
        "x-a2a-extensions",
        "x-accel-buffering",
    }
)
# A response has each of these once (RFC 9110, 5.3); of two types a browser and a client may take
# different ones.
_ONCE: Final = frozenset({"content-type", "etag", "last-modified", "retry-after"})
# Whatever an agent answers, a browser shows no page of it.
_GUARDS: Final = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
# RFC 9110, 5.5 and 5.6.2.
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
# As large as a number of the protocol.
_LENGTH: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def of_request(lines: Iterable[RawHeader]) -> tuple[Header, ...]:
    """The headers that the host gets, of those of a client."""
    decoded = ((name.decode("latin-1").lower(), value) for name, value in lines)
    return tuple(
        (name, value.decode("latin-1"))
        for name, value in decoded
        if name not in _LEFT_OUT and not name.startswith(_LEFT_OUT_PREFIXES)
    )


def received(headers: Iterable[Header]) -> list[RawHeader]:
    """The headers of a request as the host takes them: a relay that forwards a credential, or what
    is no header, is not listened to."""
    return [
        (name.encode(), value.encode("latin-1"))
        for name, value in headers
        if name not in _LEFT_OUT and is_header(name, value)
    ]


def of_response(headers: Iterable[Header], *, status: int = 200) -> list[RawHeader]:
    """The headers that the client gets, of those of an agent."""
    kept: list[RawHeader] = []
    seen: set[str] = set()
    lengths: set[str] = set()
    for name, value in headers:
        if name == "content-length":
            lengths.add(value)
        elif name in _OF_RESPONSES and _VALUE.fullmatch(value) and name not in seen:
            kept.append((name.encode(), value.encode("latin-1")))
            if name in _ONCE:
                seen.add(name)
    # RFC 9112, 6.3: two lengths, or one that is not a number, do not tell where the body ends.
    # RFC 9110, 8.6: a response without a body has none.
    if len(lengths) == 1 and status != 204 and _LENGTH.fullmatch(length := lengths.pop()):
        kept.append((b"content-length", length.encode()))
    return [*kept, *_GUARDS]


def is_header(name: str, value: str) -> bool:
    return _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None
