"""Sentences for the caller when a call to the upstream fails; the log has the rest."""

from trunkline.model.outputs import Failed, Output, Refused
from trunkline.remote.errors import (
    AddressRefused,
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
)
from trunkline.remote.retries import is_lost

UNREACHABLE = "The agent behind the gateway cannot be reached now. Try again later."
TRYING = "The agent behind the gateway cannot be reached now; the gateway tries again."
MAY_HAVE_ARRIVED = (
    "The connection to the agent behind the gateway broke before it answered. "
    "The message may have arrived; look before you send it again."
)
UNKNOWN_AFTER_RESTART = (
    "The gateway restarted while the message was on its way to the agent behind it, and cannot "
    "tell whether it arrived. Look before you send it again."
)
LOST = "The agent behind the gateway does not know the task any more; it may have restarted."
NOT_LET_IN = "The agent behind the gateway does not let the gateway in."
NONSENSE = "The agent behind the gateway gave an answer that makes no sense."
ADDRESS_REFUSED = (
    "The agent behind the gateway names an address that the gateway does not call; its log says "
    "how to allow it."
)
TOO_LATE = "The agent behind the gateway did not answer in time. The message may have arrived."

# The reasons by which agents refuse to stream.
_NO_STREAM = frozenset({"UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND"})
_NOT_UNDERSTOOD = frozenset({"CONTENT_TYPE_NOT_SUPPORTED", "INVALID_PARAMS", "INVALID_REQUEST"})


def is_unsent(error: RemoteError) -> bool:
    """Whether the message surely did not arrive."""
    if isinstance(error, PeerUnreachable):
        # Also where the circuit is open, unless an earlier attempt may have arrived.
        return error.is_unsent
    if isinstance(error, PeerTimeout):
        return error.is_unsent
    if isinstance(error, AddressRefused):
        return True
    # A proxy before the agent answers 502 or 504, and may have passed the message on.
    return isinstance(error, PeerRefused) and error.status in (429, 503)


def is_passing(error: RemoteError) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, PeerRefused):
        return error.status == 429 or error.status >= 500 or is_lost(error)
    return isinstance(error, PeerUnreachable | PeerTimeout | StreamEnded)


def is_refusal_to_stream(error: RemoteError) -> bool:
    return isinstance(error, PeerRefused) and error.reason in _NO_STREAM


def is_unknown_task(error: RemoteError) -> bool:
    return isinstance(error, PeerRefused) and error.reason == "TASK_NOT_FOUND"


def outcome_of(error: RemoteError) -> Output:
    """The end of the turn after the last attempt."""
    match error:
        case PeerRefused(status=401 | 403):
            return Failed(NOT_LET_IN)
        case PeerRefused() if is_lost(error):
            return Failed(MAY_HAVE_ARRIVED)
        case PeerRefused() if is_unknown_task(error):
            return Failed(LOST)
        case PeerRefused() if error.reason in _NOT_UNDERSTOOD:
            return Refused(f"The agent does not take the message: {error.message}")
        case PeerRefused():
            return Failed(f"The agent refused: {error.message}")
        case BadPeerAnswer():
            return Failed(NONSENSE)
        case AddressRefused():
            return Failed(ADDRESS_REFUSED)
        case RemoteError() if is_unsent(error):
            return Failed(UNREACHABLE, is_unreachable=True)
        case PeerTimeout():
            return Failed(TOO_LATE)
        case PeerUnreachable() | StreamEnded():
            return Failed(MAY_HAVE_ARRIVED)
        case _:
            return Failed(UNREACHABLE)
