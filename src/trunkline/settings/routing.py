"""`RoutingSettings`: limits of the calls of agents to agents."""

from typing import Annotated

from msgspec import Struct

from trunkline.config import doc
from trunkline.engine.agent_calls import CallLimits, OnCrash


class RoutingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of calls between the agents of this gateway."""

    timeout_s: Annotated[
        float, doc("Seconds that an answer may take if the call names no timeout.", gt=0)
    ] = 60.0
    max_timeout_s: Annotated[
        float, doc("Maximum seconds of a timeout. A call that asks for more gets this.", gt=0)
    ] = 300.0
    grace_s: Annotated[
        float,
        doc("Seconds beyond its timeout for which the outcome of a call can be read.", ge=0),
    ] = 60.0
    max_hops: Annotated[
        int, doc("Maximum number of agents through which a call may come.", ge=1, le=8)
    ] = 5
    max_depth: Annotated[
        int, doc("Maximum number of calls of this gateway that lead to a turn.", ge=1, le=8)
    ] = 5
    max_turns: Annotated[
        int,
        doc("Maximum number of turns in a row that begin with an answer.", ge=0, le=1000),
    ] = 20
    max_input_bytes: Annotated[int, doc("Maximum size of the input of a call, as JSON.", ge=1)] = (
        1024 * 1024
    )
    on_callee_crash: Annotated[
        OnCrash,
        doc(
            "What the caller gets when the called agent crashes: `error` tells it at once, "
            "`wait_for_timeout` leaves it to the timeout."
        ),
    ] = "error"

    @property
    def limits(self) -> CallLimits:
        return CallLimits(
            timeout_s=min(self.timeout_s, self.max_timeout_s),
            max_timeout_s=self.max_timeout_s,
            grace_s=self.grace_s,
            max_hops=self.max_hops,
            max_depth=self.max_depth,
            max_turns=self.max_turns,
            max_input_bytes=self.max_input_bytes,
            on_callee_crash=self.on_callee_crash,
        )
