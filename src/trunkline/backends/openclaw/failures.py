"""`Trouble`: a failure of OpenClaw, in one sentence for the caller and in full for the log."""

from typing import Final

from trunkline.backends.openclaw.frames import Fault
from trunkline.remote.errors import AddressRefused, RemoteError

# Failures to connect that another attempt does not mend.
_LASTING: Final = (
    *("TLS_FAILED", "NOT_WEBSOCKET", "REDIRECT", "BAD_URL", "NOT_HTTP"),
    AddressRefused.reason,
)


class Unfit(Exception):
    """OpenClaw cannot take a part of the message; the text tells the caller why."""


class Trouble(Exception):
    """`told` is for the caller; `found` and `remedy` are for the operator. None holds a secret.

    A lasting failure stays until an operator changes something; others may pass by themselves.
    """

    def __init__(
        self,
        found: str,
        remedy: str = "",
        *,
        told: str = "The agent cannot be reached now; send the message again later.",
        is_lasting: bool = False,
        is_unreachable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(found)
        self.found = found
        self.remedy = remedy
        self.told = told
        self.is_lasting = is_lasting
        self.is_unreachable = is_unreachable
        self.retry_after_s = retry_after_s


def unreachable(why: str, *, retry_after_s: float | None = None) -> Trouble:
    return Trouble(
        f"OpenClaw is not reachable: {why}",
        "Start OpenClaw (`openclaw gateway run`), or correct the backend's `url`.",
        is_unreachable=True,
        retry_after_s=retry_after_s,
    )


def misconfigured(found: str, remedy: str) -> Trouble:
    told = "The agent is not set up correctly; its operator has to correct that."
    return Trouble(found, remedy, told=told, is_lasting=True)


def not_connected(error: RemoteError) -> Trouble:
    if error.reason in _LASTING:
        return misconfigured(error.message, "Correct the backend's `url`.")
    return unreachable(error.message)


def token_refused(status: str = "") -> Trouble:
    return misconfigured(
        f"OpenClaw does not accept the token{status}",
        "Set the backend's `token` to `gateway.auth.token` of OpenClaw's configuration.",
    )


def is_draining(fault: Fault) -> bool:
    """OpenClaw is stopping, and the run has not begun."""
    return fault.code == "UNAVAILABLE" and "draining" in fault.message.lower()


def is_spent(fault: Fault) -> bool:
    """The run waited when OpenClaw stopped, and OpenClaw refuses its id from then on."""
    return fault.code == "UNAVAILABLE" and "pending input ownership" in fault.message.lower()


def not_accepted(fault: Fault) -> Trouble:
    """Raises Unfit where the message is at fault."""
    if fault.code == "UNAVAILABLE":
        return unreachable(f"it takes no runs at the moment ({fault.message[:200]})")
    if "UnsupportedAttachment" in fault.message:
        raise Unfit("The message holds a file that this agent cannot take.")
    return misconfigured(
        f"OpenClaw refuses the run: {fault.code} {fault.message[:200]}",
        "Check `agent_id` and `session_key` of the backend, and OpenClaw's log.",
    )
