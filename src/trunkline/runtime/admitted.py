"""`Admitted`: the outcome of accepting a message."""

from msgspec import Struct

from trunkline.model.errors import Unavailable
from trunkline.ports.store import Snapshot
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.idempotency import Earlier
from trunkline.runtime.live_task import Lease, LiveTask
from trunkline.runtime.run import Run


class Admitted(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of accepting a message. Exactly one of reply, live, run and earlier is set."""

    # An answer that needed neither a task nor a run.
    reply: Reply | None = None
    # The task that the message created or continued.
    live: LiveTask | None = None
    # The run of the message, which may still answer without a task.
    run: Run | None = None
    # Whether an earlier request with the same key began the run.
    is_joined: bool = False
    # The task of an earlier request with the same key, if it is no longer in memory.
    earlier: Snapshot | None = None
    # The entry that accepted the message; 0 where an earlier request did.
    accepted_seq: int = 0
    # The same, if the next entry begins the turn of the message; else 0.
    begun_after: int = 0
    # Whether another node accepted the message, and whether it waits in the queue there.
    is_forwarded: bool = False
    is_queued: bool = False


class Placed(Struct, frozen=True, gc=False):
    """A message at the node that owns its lane, in a store that several nodes share."""

    lease: Lease
    # The id of the task that the message may make.
    task_id: str
    # The key of a message that another node received; empty for none.
    key: str = ""


def admitted_before(earlier: Earlier) -> Admitted:
    """The outcome of an earlier request with the same key."""
    match earlier:
        case LiveTask():
            return Admitted(live=earlier)
        case Snapshot():
            return Admitted(earlier=earlier)
        case Run():
            return Admitted(run=earlier, is_joined=True)
        case Reply():
            return Admitted(reply=earlier)
        case NoReply():
            raise earlier.error


def shutting_down() -> Unavailable:
    return Unavailable("The gateway is shutting down; try again", retry_after_s=5)
