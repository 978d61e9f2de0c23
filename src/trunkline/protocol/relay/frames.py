"""The frames: each is one message of a WebSocket, a JSON object and maybe a body behind it.

The JSON is one line; a line feed and the body follow it. Frames that belong to a stream or to the
leases are *numbered*: `n` counts them from 1, in each direction of a session. Members that are not
known are passed over.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from trunkline.protocol.relay.close_codes import BAD_FRAME, TOO_LARGE, Close

SUBPROTOCOL: Final = "a2a.relay.v2"
# The JSON of a frame may be as large as this, beside its body: it holds the headers of a request.
MAX_HEAD_BYTES: Final = 64 * 1024
# What a piece of a body costs of the credit beside its bytes, because the receiver holds it until
# it is read. So the smallest pieces cannot fill its memory.
PIECE_OVERHEAD_BYTES: Final = 64
# With less, the head of a request would not fit, or no body make progress.
MIN_FRAME_BYTES: Final = 2 * MAX_HEAD_BYTES
MIN_STREAM_BYTES: Final = 4096
MAX_AGENTS: Final = 256
MAX_TASK_CHARS: Final = 256
# JSON readers of some languages have no other numbers than doubles.
_MAX_NUMBER: Final = 2**53 - 1

Number: TypeAlias = Annotated[int, Meta(ge=1, le=_MAX_NUMBER)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=_MAX_NUMBER)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
# Tenant and name. Each is a part of the path of an address, and of keys in a store.
AgentId: TypeAlias = Annotated[str, Meta(max_length=128, pattern=r"\A[!-.0-~]+/[!-.0-~]+\Z")]
Header: TypeAlias = tuple[str, str]

# Why a stream ended before it was complete.
Reason: TypeAlias = Literal[
    # The client of the relay has left, or the host has no more use for the rest of a request.
    "closed",
    # The host has not begun the request, and it may be sent again.
    "refused",
    # The host, or the relay, could not continue it.
    "failed",
    # It took too long, as its caller or its operator has decided.
    "timeout",
    # Its reader took nothing for too long.
    "slow",
    # Another host has the agent now.
    "replaced",
    # The session has ended, and it is unknown how far the other side came. Never on the wire.
    "lost",
]


class Limits(Struct, frozen=True, kw_only=True):
    """What one side lets the other do."""

    # A frame with its body.
    max_frame_bytes: Annotated[int, Meta(ge=MIN_FRAME_BYTES, le=_MAX_NUMBER)] = 256 * 1024
    max_streams: Number = 256
    # The credit that each stream begins with, in each direction.
    stream_bytes: Annotated[int, Meta(ge=MIN_STREAM_BYTES, le=_MAX_NUMBER)] = 64 * 1024


class Resume(Struct, frozen=True):
    session: str
    # The number of the last frame that the host has got.
    received: Count


class Hello(Struct, frozen=True, tag="hello", tag_field="frame", omit_defaults=True):
    """The first frame of a host on each connection."""

    limits: Limits
    resume: Resume | None = None
    # The same for all sessions of one running host, and for no others. Its newer session takes an
    # agent over without ending the requests of its older one.
    host: Annotated[str, Meta(max_length=64)] = ""


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome", tag_field="frame"):
    """The answer: a new session, or the one that the host has asked for."""

    session: str
    resumed: bool
    limits: Limits
    # The key that signs the callers of this session, in hexadecimal.
    key: str
    # The number of the last frame that the relay has got.
    received: Count = 0
    # Each side sends something at least this often.
    heartbeat_s: Annotated[float, Meta(gt=0, le=1e9)]
    # How long the session outlives its connection.
    resume_s: Seconds
    # When the token of the host ends; absent if it does not end.
    token_ends_in_s: Seconds | None = None


class Ack(Struct, frozen=True, tag="ack", tag_field="frame"):
    """Every numbered frame up to `n` has come."""

    n: Count


class Ping(Struct, frozen=True, tag="ping", tag_field="frame"):
    pass


class Pong(Struct, frozen=True, tag="pong", tag_field="frame"):
    pass


class Reauth(Struct, frozen=True, tag="reauth", tag_field="frame"):
    """From the host: a new token, before the last one ends."""

    token: str


class Reauthed(Struct, frozen=True, tag="reauthed", tag_field="frame"):
    """From the relay: the new token counts."""

    token_ends_in_s: Seconds | None = None


class Drain(Struct, frozen=True, tag="drain", tag_field="frame", omit_defaults=True):
    """The sender is about to stop, and requests under way have `within_s` to end.

    A host takes no new requests, and the relay answers it with leases of no agents. A relay wants
    its hosts to connect elsewhere and to drain then; until they do, they get its requests.
    """

    n: Number
    within_s: Seconds
    # From a relay: how long this address is not worth another attempt.
    retry_after_s: Seconds = 0.0


class Agents(Struct, frozen=True, tag="agents", tag_field="frame"):
    """From the host: the ids of all agents that it has."""

    n: Number
    agents: Annotated[tuple[AgentId, ...], Meta(max_length=MAX_AGENTS)]


class Leases(Struct, frozen=True, tag="leases", tag_field="frame"):
    """From the relay: all agents that this session is reachable for, each with the epoch of its
    lease."""

    n: Number
    epochs: Mapping[AgentId, Number]


class Req(Struct, frozen=True, kw_only=True, tag="req", tag_field="frame", omit_defaults=True):
    """From the relay: a request opens a stream."""

    n: Number
    stream: Number
    agent: AgentId
    epoch: Number
    # The signed identity of the caller (`callers`).
    caller: str
    method: str
    # Path and query, percent-encoded.
    target: str
    headers: tuple[Header, ...] = ()
    # The id of the task, if the request is a delivery from the mailbox (`deliveries`): the host
    # accepts it only after it has committed the task.
    task: Annotated[str, Meta(max_length=MAX_TASK_CHARS)] = ""
    # Whether no more of the body follows.
    fin: bool = False


class Accept(Struct, frozen=True, tag="accept", tag_field="frame"):
    """From the host: it has begun, so the request must not be sent again elsewhere."""

    n: Number
    stream: Number


class Res(Struct, frozen=True, kw_only=True, tag="res", tag_field="frame", omit_defaults=True):
    """From the host: the response."""

    n: Number
    stream: Number
    status: Annotated[int, Meta(ge=200, le=599)]
    headers: tuple[Header, ...] = ()
    fin: bool = False


class Data(Struct, frozen=True, tag="data", tag_field="frame", omit_defaults=True):
    """More of a body, in either direction."""

    n: Number
    stream: Number
    fin: bool = False


class Cancel(Struct, frozen=True, tag="cancel", tag_field="frame", omit_defaults=True):
    """The sender's half of the stream ends here, and it wants no more of the other half."""

    n: Number
    stream: Number
    reason: Reason
    text: str = ""


class Credit(Struct, frozen=True, tag="credit", tag_field="frame"):
    """The receiver may send this many more bytes on this stream."""

    n: Number
    stream: Number
    more: Number


Numbered: TypeAlias = Agents | Leases | Drain | Req | Accept | Res | Data | Cancel | Credit
Frame: TypeAlias = Hello | Welcome | Ack | Ping | Pong | Reauth | Reauthed | Numbered

_WITH_BODY: Final = (Req, Res, Data)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Frame).decode


class Violation(Exception):
    """The peer broke the protocol. The connection is closed with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.close = Close(code, reason)


def encode(frame: Frame, body: bytes = b"") -> bytes:
    head = _encode(frame)
    return b"%b\n%b" % (head, body) if body else head


def decode(message: bytes | str, *, max_bytes: int) -> tuple[Frame, bytes]:
    """Raises Violation."""
    if isinstance(message, str):
        raise Violation(BAD_FRAME, "frames are binary messages")
    if len(message) > max_bytes:
        raise Violation(TOO_LARGE, f"a frame has more than {max_bytes} bytes")
    head, line_feed, body = message.partition(b"\n")
    if len(head) > MAX_HEAD_BYTES:
        raise Violation(TOO_LARGE, f"the JSON of a frame has more than {MAX_HEAD_BYTES} bytes")
    try:
        frame = _decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Violation(BAD_FRAME, _shortened(f"not a frame: {error}")) from None
    if line_feed and not isinstance(frame, _WITH_BODY):
        raise Violation(BAD_FRAME, "a frame of this kind has no body")
    return frame, body


def _shortened(text: str) -> str:
    # The reason of a close frame has up to 123 bytes (RFC 6455, 5.5); texts of msgspec are ASCII
    # except for what they quote.
    return text.encode("ascii", "replace")[:120].decode()
