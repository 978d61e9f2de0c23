"""Why OpenClaw does not take a run, and what that means."""

from trunkline.backends.openclaw.failures import Trouble, misconfigured, unreachable
from trunkline.backends.openclaw.frames import Fault
from trunkline.backends.openclaw.prompt import Unfit


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
