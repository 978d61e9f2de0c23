"""Errors of a call to another agent.

    RemoteError
    ├── InvalidTarget         the target is at fault; nothing was sent
    ├── TransportUnsupported  the peer offers no interface that we speak
    ├── AddressRefused        the peer names an address that must not be called; nothing was sent
    ├── PeerUnreachable       no connection, or it broke, or the circuit is open
    ├── PeerTimeout           a limit in time was reached
    ├── PeerRefused           the peer answered, and said no
    ├── BadPeerAnswer         the peer answered, and it makes no sense
    └── StreamEnded           a stream broke off and could not be resumed

`message` is for people, `reason` for programs. Neither ever holds a credential.
"""

from copy import copy
from typing import Any


class RemoteError(Exception):
    reason = "REMOTE_ERROR"

    def __init__(self, message: str, *, reason: str = "", is_unsent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.reason
        # Whether the request surely did not reach the peer.
        self.is_unsent = is_unsent
        # Seconds after which to try again, where the peer or the circuit says so.
        self.retry_after_s: float | None = None
        # The task that the call was about, where it is known.
        self.task_id = ""
        # Host and port of a connection that could not be made.
        self.address = ""
        # Another caller met it first, so the circuit breaker has counted it already.
        self.is_noted = False


def noted(error: RemoteError) -> RemoteError:
    """The same error for a further caller that waited for the same answer."""
    again = copy(error).with_traceback(None)
    again.is_noted = True
    return again


class InvalidTarget(RemoteError):
    reason = "INVALID_TARGET"


class TransportUnsupported(RemoteError):
    reason = "TRANSPORT_UNSUPPORTED"


class AddressRefused(RemoteError):
    reason = "ADDRESS_REFUSED"


class PeerUnreachable(RemoteError):
    reason = "CONNECTION_FAILED"


class PeerTimeout(RemoteError):
    reason = "TIMEOUT"


class PeerRefused(RemoteError):
    """`code` is that of JSON-RPC (0 for none), `status` that of HTTP, `data` the error data."""

    reason = "REFUSED"

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", data: Any = None, status: int = 200
    ) -> None:
        super().__init__(message, reason=reason)
        self.code = code
        self.data = data
        self.status = status


class BadPeerAnswer(RemoteError):
    reason = "BAD_ANSWER"


class StreamEnded(RemoteError):
    """`last_event_id` is the last id of the stream, if the peer gives any."""

    reason = "STREAM_CUT"

    def __init__(self, message: str, *, task_id: str = "", last_event_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id
        self.last_event_id = last_event_id
