"""The preset `hub`, its wire style and its sentences: an agent as a hub of agents publishes it.

Its wire is in `protocol/hub.py`.
"""

from typing import Annotated, Any, Final, Literal

from trunkline.model.profile import GatewayTexts, ProfileKeys, doc

HUB: Final = "hub"


class HubKeys(ProfileKeys, frozen=True, kw_only=True):
    # Wire dialect.
    wire_style: Annotated[
        Literal["standard", "hub"],
        doc(
            "Form of JSON-RPC requests that state no version and have method names of 1.0. "
            "`standard`: that of A2A 1.0. `hub`: a task without a name around it, states such as "
            "`COMPLETED`, the answer as the last message of the history, and streams of whole "
            "tasks without JSON-RPC. A request with `A2A-Version` gets the form of that version."
        ),
    ] = "standard"


TEXTS: Final = GatewayTexts(
    no_reply="agent did not reply within {seconds}s",
    deadline="agent did not reply within {seconds}s",
    ignores_stop="",
    unreachable="agent channel offline",
    budget_exhausted="agent @{handle} hit its daily budget ({limit})",
    busy="agent is processing a turn for another caller",
)

# The keys in which the preset differs from `standard`.
PRESET: Final[dict[str, Any]] = {
    "task_id_prefix": "task-",
    "wire_style": HUB,
    "card_style": HUB,
    "retention_s": 1800.0,
    "context_mode": "stateless",
    "busy": "fail",
    "driver_claim": True,
    "offline": "fail",
    "cancel": "unsupported",
    "cancel_unsupported_code": -32601,
    # The answer of a caller that waits must not come much later than after `reply_wait_s`.
    "cancel_grace_s": 1.0,
    "reply_wait_s": 60.0,
    "on_reply_wait": "fail",
    "task_deadline_s": 60.0,
    "agent_style": "task-generating",
    "files": "ignore",
    "refusal_state": "failed",
    "list_tasks": "hidden",
}
