"""`named`: the operation of A2A that a request of a backend asks for."""

from typing import Final

import msgspec
from msgspec import Struct

from trunkline.model.errors import TrunklineError
from trunkline.ports.wire_log import Binding
from trunkline.protocol.operations import V03_METHODS, V1_METHODS
from trunkline.protocol.rest_routes import match
from trunkline.protocol.versions import Version

# The request of an agent's card, which is no operation.
CARD: Final = "GetAgentCard"
_CARD_NAMES: Final = ("agent-card.json", "agent.json")
# The longest path of an operation below that of its interface: of one push configuration.
_MAX_SEGMENTS: Final = 5


class Named(Struct, frozen=True):
    operation: str
    version: str
    binding: Binding


class _Call(Struct):
    jsonrpc: str
    method: str


_decoder = msgspec.json.Decoder(_Call)


def named(http_method: str, url: str, version: str, body: bytes) -> Named:
    """`version` is the one that the request states. A request that is none of A2A has no operation,
    such as one to the server of a model."""
    path = url.partition("?")[0]
    if http_method == "GET" and path.endswith(_CARD_NAMES):
        return Named(CARD, version, "http")
    call = _call(body) if http_method == "POST" else None
    if call is not None:
        if (operation := V03_METHODS.get(call.method)) is not None:
            return Named(operation.value, version or Version.V0_3, "jsonrpc")
        known = V1_METHODS.get(call.method)
        return Named(known.value if known else call.method[:64], version, "jsonrpc")
    segments = path.partition("://")[2].split("/")[1:]
    for count in range(1, min(_MAX_SEGMENTS, len(segments)) + 1):
        try:
            route = match(http_method, "/" + "/".join(segments[-count:]), stated=None)
        except TrunklineError:
            continue
        is_of_0_3 = not version and "v1" in segments[:-count]
        return Named(route.operation.value, version or (Version.V0_3 if is_of_0_3 else ""), "rest")
    return Named("", version, "http")


def _call(body: bytes) -> _Call | None:
    if body.lstrip()[:1] != b"{":
        return None
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
