"""What a store knows of a task without its contents, and what it refuses by that."""

from trunkline.model.errors import LeaseLost, StaleSeq, StoreError
from trunkline.model.values import TaskState
from trunkline.ports.store import Append

# States in which a node has something to do for the task.
RUNNABLE = frozenset({TaskState.SUBMITTED, TaskState.WORKING})


def refusal(append: Append, last_seq: int, epoch: int) -> StoreError | None:
    """Why this append may not follow; None when it may. `last_seq` 0: no such task."""
    # The epoch first: a zombie is nearly always stale too, and must learn that it is
    # not to try again.
    if epoch != append.epoch and last_seq:
        return LeaseLost(
            f"Task {append.task_id} has epoch {epoch}; the append was made for {append.epoch}"
        )
    if append.expected_seq != last_seq:
        return StaleSeq(
            f"Task {append.task_id} is at sequence {last_seq}; "
            f"the append continues after {append.expected_seq}"
        )
    if not last_seq and append.creation is None:
        return StaleSeq(f"Task {append.task_id} does not exist")
    entries = append.entries
    if entries and entries[-1].seq != last_seq + len(entries):
        return StaleSeq(f"The entries for task {append.task_id} do not continue after {last_seq}")
    return None
