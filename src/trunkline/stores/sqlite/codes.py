"""States as the database holds them. The numbers are in files that outlive the code."""

from trunkline.model.values import TERMINAL, TaskState

CODES: dict[TaskState, int] = {
    TaskState.UNSPECIFIED: 0,
    TaskState.SUBMITTED: 1,
    TaskState.WORKING: 2,
    TaskState.COMPLETED: 3,
    TaskState.FAILED: 4,
    TaskState.CANCELED: 5,
    TaskState.REJECTED: 6,
    TaskState.INPUT_REQUIRED: 7,
    TaskState.AUTH_REQUIRED: 8,
}
STATES: tuple[TaskState, ...] = tuple(CODES)
TERMINAL_CODES = frozenset(CODES[state] for state in TERMINAL)
