"""The frames of protocol v1: each is one message of a WebSocket, a JSON object with a `type`.

The older protocol has no version of its own: it is spoken on a WebSocket without a subprotocol.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from trunkline.protocol.relay.close_codes import BAD_FRAME, TOO_LARGE
from trunkline.protocol.relay.frames import Violation

# As large as a message of other WebSockets here. The protocol has no smaller pieces, so requests
# and answers must fit.
MAX_FRAME_BYTES: Final = 1024 * 1024
# What a relay gives an agent that is told no other time.
DEFAULT_TIMEOUT_MS: Final = 30_000
_MAX_ERROR_CHARS: Final = 80

Id: TypeAlias = Annotated[str, Meta(max_length=256)]


class Auth(Struct, frozen=True, kw_only=True, tag="auth", tag_field="type"):
    """The first frame of an agent. Relays take tenant and agent from the token alone."""

    token: str
    tenant: str = ""
    agent_id: str = ""
    agent_card: Raw = Raw(b"{}")


class AuthOk(Struct, frozen=True, kw_only=True, tag="auth_ok", tag_field="type"):
    agent_id: str = ""
    tenant: str = ""


class Failed(Struct, frozen=True, tag="error", tag_field="type"):
    """From the relay, which then closes the connection."""

    message: str = ""


class Ping(Struct, frozen=True, tag="ping", tag_field="type"):
    pass


class Pong(Struct, frozen=True, tag="pong", tag_field="type"):
    pass


class RequestPayload(Struct, frozen=True, kw_only=True):
    # Of the relay, for this request alone; not the id of the client's JSON-RPC request.
    id: Id
    method: str = ""
    params: Raw = Raw(b"{}")
    timeout_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = DEFAULT_TIMEOUT_MS


class Request(Struct, frozen=True, tag="a2a.request", tag_field="type"):
    """From the relay: a request for the agent."""

    payload: RequestPayload


class ErrorPayload(Struct, frozen=True):
    code: int = -32603
    message: str = ""


class ResponsePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: Id
    result: Raw | UnsetType = UNSET
    error: ErrorPayload | None = None


class Response(Struct, frozen=True, tag="a2a.response", tag_field="type"):
    """From the agent: its answer."""

    payload: ResponsePayload


Frame: TypeAlias = Auth | AuthOk | Failed | Ping | Pong | Request | Response


class _Kind(Struct):
    type: str = ""


_encode = msgspec.json.Encoder().encode
_kind = msgspec.json.Decoder(_Kind).decode
_DECODERS: Final[Mapping[str, msgspec.json.Decoder[Frame]]] = {
    "auth": msgspec.json.Decoder(Auth),
    "auth_ok": msgspec.json.Decoder(AuthOk),
    "error": msgspec.json.Decoder(Failed),
    "ping": msgspec.json.Decoder(Ping),
    "pong": msgspec.json.Decoder(Pong),
    "a2a.request": msgspec.json.Decoder(Request),
    "a2a.response": msgspec.json.Decoder(Response),
}
# The name of `error` that some clients wait for, so that some relay may send it.
_AUTH_ERROR: Final = "auth_error"


def encode(frame: Frame) -> str:
    return _encode(frame).decode()


def decode(message: bytes | str, *, max_bytes: int = MAX_FRAME_BYTES) -> Frame | None:
    """None for a frame of a kind that is not known, which is passed over. Raises Violation."""
    data = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
    if len(data) > max_bytes:
        raise Violation(TOO_LARGE, f"a frame has more than {max_bytes} bytes")
    try:
        kind = _kind(data).type
        if kind == _AUTH_ERROR:
            return Failed(msgspec.json.decode(data, type=_Told).message)
        decoder = _DECODERS.get(kind)
        return None if decoder is None else decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = str(error).encode("ascii", "replace")[:_MAX_ERROR_CHARS].decode()
        raise Violation(BAD_FRAME, f"not a frame: {text}") from None


class _Told(Struct):
    message: str = ""
