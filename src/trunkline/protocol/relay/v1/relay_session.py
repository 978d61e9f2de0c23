"""`V1RelaySession`: the side of the relay towards an agent of protocol v1, over one connection.

Like `session`, it does no I/O and has no clock.
"""

from typing import Final

from msgspec import Raw, Struct

from trunkline.model.errors import PayloadTooLarge, TooManyRequests
from trunkline.protocol.relay.close_codes import BAD_FRAME, Close
from trunkline.protocol.relay.frames import Violation
from trunkline.protocol.relay.v1 import frames as v1

# The requests that an agent may have under way. The others are refused at once.
MAX_PENDING: Final = 128
_RETRY_AFTER_S: Final = 5
# Answers to no request, such as late ones. A peer that sends more of them is broken.
_MAX_STRAY: Final = 1000


class Pinged(Struct, frozen=True):
    """The owner sends a pong."""


class Answered(Struct, frozen=True):
    response: v1.ResponsePayload


def read_auth(message: bytes | str) -> v1.Auth:
    """The first message of an agent. Raises Violation."""
    frame = v1.decode(message)
    if not isinstance(frame, v1.Auth):
        raise Violation(BAD_FRAME, "expected auth message")
    return frame


class V1RelaySession:
    def __init__(self, *, prefix: str) -> None:
        """Request ids begin with the prefix, so that those of another connection are not valid
        here."""
        self.closing: Close | None = None
        self._prefix = prefix
        self._last = 0
        self._pending: set[str] = set()
        self._stray = 0

    def ask(self, method: str, params: bytes, *, timeout_s: float) -> tuple[str, str]:
        """The id of a new request, and its message. Raises TooManyRequests or PayloadTooLarge."""
        if len(self._pending) >= MAX_PENDING:
            raise TooManyRequests(
                f"The agent has {MAX_PENDING} requests under way; try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        id = f"{self._prefix}-{self._last + 1}"
        payload = v1.RequestPayload(
            id=id, method=method, params=Raw(params), timeout_ms=round(timeout_s * 1000)
        )
        message = v1.encode(v1.Request(payload))
        if len(message.encode()) > v1.MAX_FRAME_BYTES:
            raise PayloadTooLarge(
                f"The agent takes requests of up to {v1.MAX_FRAME_BYTES} bytes, because it speaks "
                "an older protocol"
            )
        self._last += 1
        self._pending.add(id)
        return id, message

    def forget(self, id: str) -> None:
        """Whoever asked does not wait for the answer any more."""
        self._pending.discard(id)

    def receive(self, message: bytes | str) -> Answered | Pinged | None:
        """Take a message of the agent; `closing` is set when the connection is to be closed."""
        if self.closing is not None:
            return None
        try:
            frame = v1.decode(message)
        except Violation as violation:
            self.closing = violation.close
            return None
        if isinstance(frame, v1.Ping):
            return Pinged()
        if not isinstance(frame, v1.Response):
            return None
        if frame.payload.id in self._pending:
            self._pending.discard(frame.payload.id)
            return Answered(frame.payload)
        self._stray += 1
        if self._stray > _MAX_STRAY:
            self.closing = Close(BAD_FRAME, "too many answers to no request")
        return None
