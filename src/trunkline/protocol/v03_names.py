"""How A2A 0.3 spells roles and states."""

from typing import Final

from trunkline.model.values import Role, TaskState

ROLES: Final = {"user": Role.USER, "agent": Role.AGENT}
STATES: Final = {
    "submitted": TaskState.SUBMITTED,
    "working": TaskState.WORKING,
    "input-required": TaskState.INPUT_REQUIRED,
    "completed": TaskState.COMPLETED,
    "canceled": TaskState.CANCELED,
    "failed": TaskState.FAILED,
    "rejected": TaskState.REJECTED,
    "auth-required": TaskState.AUTH_REQUIRED,
    "unknown": TaskState.UNSPECIFIED,
}
STATE_NAMES: Final = {state: name for name, state in STATES.items()}
# The proto of 0.3 spells one state with two Ls.
CANCELLED: Final = "TASK_STATE_CANCELLED"

ROLE_OF: Final = ROLES | {str(role): role for role in Role}
STATE_OF: Final = (
    STATES | {str(state): state for state in TaskState} | {CANCELLED: TaskState.CANCELED}
)

# Marks a value that 1.0 allows as data and 0.3 does not; a2a-sdk uses the same mark.
WRAPPED: Final = "data_part_compat"
