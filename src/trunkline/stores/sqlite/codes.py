"""States and places as the database holds them: numbers in files that outlive the code."""

from trunkline.model.values import TaskState

CODES: dict[TaskState, int] = {
    TaskState.UNSPECIFIED: 0,
    TaskState.SUBMITTED: 1,
    TaskState.WORKING: 2,
    TaskState.INPUT_REQUIRED: 3,
    TaskState.AUTH_REQUIRED: 4,
    TaskState.COMPLETED: 5,
    TaskState.FAILED: 6,
    TaskState.CANCELED: 7,
    TaskState.REJECTED: 8,
}
STATES: tuple[TaskState, ...] = tuple(CODES)
# An interval, so that the counters of all of them lie side by side.
FIRST_TERMINAL = CODES[TaskState.COMPLETED]

# A place in the journal is `task << SEQ_BITS | seq`.
SEQ_BITS = 24
MAX_SEQ = (1 << SEQ_BITS) - 1
