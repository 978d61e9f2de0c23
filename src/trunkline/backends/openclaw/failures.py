"""`Trouble`: a failure of OpenClaw, in one sentence for the caller and in full for the log."""

from trunkline.backends.openclaw.frames import Fault


class Unfit(Exception):
    """A part that OpenClaw cannot be given; `reason` is for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Trouble(Exception):
    """`told` is for the caller; `found` and `remedy` are for the operator. None holds a secret.

    A lasting failure stays until an operator changes something; others may pass by themselves.
    """

    def __init__(
        self,
        told: str,
        *,
        found: str,
        remedy: str = "",
        is_lasting: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(found)
        self.told = told
        self.found = found
        self.remedy = remedy
        self.is_lasting = is_lasting
        self.retry_after_s = retry_after_s


def unreachable(why: str) -> Trouble:
    return Trouble(
        "The agent cannot be reached now; send the message again later.",
        found=f"OpenClaw is not reachable: {why}",
        remedy="Start OpenClaw (`openclaw gateway run`), or correct the backend's `url`.",
    )


def misconfigured(found: str, remedy: str) -> Trouble:
    return Trouble(
        "The agent is not set up correctly; its operator has to correct that.",
        found=found,
        remedy=remedy,
        is_lasting=True,
    )


def is_draining(fault: Fault) -> bool:
    """It stops, and the run has not begun."""
    return fault.code == "UNAVAILABLE" and "draining" in fault.message.lower()


def is_spent(fault: Fault) -> bool:
    """The run waited when OpenClaw stopped; its id is not taken again."""
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
