"""`why_refused`: the limits of the queue that a message joins."""

from collections.abc import Hashable
from typing import TypeVar

from trunkline.engine.lanes import Lane, Lanes
from trunkline.model.calls import Refusal
from trunkline.model.profile import Profile

Ticket = TypeVar("Ticket", bound=Hashable)


QUEUE_FULL = Refusal(
    "queue_full",
    "The queue of this context is full. Send the message again when some of it is done.",
)
BUSY = Refusal("busy", "agent is processing a turn of this context")
BUSY_ELSEWHERE = Refusal("busy", "agent is processing a turn for another caller")
INTERRUPTED = Refusal(
    "interrupted",
    "A request with this key was begun before, and its answer was lost when the gateway stopped. "
    "It was not run again; send it with a new key to run it.",
)


def why_refused(profile: Profile, lanes: Lanes[Lane, Ticket], lane: Lane) -> Refusal | None:
    """The reason why a message may not join the lane; None when it may."""
    if profile.busy != "fail":
        return QUEUE_FULL if lanes.is_full(lane) else None
    if lanes.is_taken(lane):
        return BUSY
    return None if lanes.starts_at_once(lane) else BUSY_ELSEWHERE
