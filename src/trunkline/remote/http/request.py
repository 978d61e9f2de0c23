"""A request as bytes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from trunkline.remote.errors import InvalidTarget
from trunkline.remote.http.place import Origin, place_of
from trunkline.version import VERSION

# Unless the caller says otherwise. What is small on the wire could be anything once unpacked,
# so that is not asked for.
_OWN: Final = {
    "user-agent": f"User-Agent: trunkline/{VERSION}\n",
    "accept-encoding": "Accept-Encoding: identity\n",
}
_ALL_OWN: Final = "".join(_OWN.values())
# RFC 9110, 9.2.1: asking twice is the same as asking once.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Request(Struct, frozen=True):
    """`is_safe`: may be sent twice. `has_answer`: the answer may have a body."""

    origin: Origin
    head: bytes
    body: bytes
    is_safe: bool
    has_answer: bool


def request_of(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Request:
    """Raises InvalidTarget for a header that is none, and BadPeerAnswer for such a url."""
    given = "".join([f"{name}: {value}\n" for name, value in headers.items()])
    # What would end a header early, and let its author write the rest of the request.
    if given.count("\n") != len(headers) or "\r" in given or "\0" in given:
        raise InvalidTarget("the value of a header holds a line break")
    own = _ALL_OWN
    if not _OWN.keys().isdisjoint(map(str.lower, headers)):
        named = {name.lower() for name in headers}
        own = "".join([line for name, line in _OWN.items() if name not in named])
    origin, start = _start(method, url)
    length = "" if body is None and method != "POST" else f"Content-Length: {len(body or b'')}\n"
    try:
        head = f"{start}{own}{given}{length}\n".replace("\n", "\r\n").encode()
    except UnicodeEncodeError:
        raise InvalidTarget("the value of a header is no valid Unicode") from None
    return Request(
        origin,
        head,
        body or b"",
        method in _SAFE,
        method != "HEAD",
    )


@lru_cache(maxsize=512)
def _start(method: str, url: str) -> tuple[Origin, str]:
    """What all requests for the same begin with."""
    place = place_of(url)
    return place.origin, f"{method} {place.target} HTTP/1.1\nHost: {place.host}\n"
