"""`why_refused`: calls that went in a circle, or through too many agents.

Every agent that answers a request may call others, and the request that it sends carries the marks
of all agents before it. A client may leave them out, so they end loops and prove nothing about a
caller.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from trunkline.model.calls import Refusal

# Through how many agents a call may come. Agents that ask others rarely go deeper than three, and a
# mistake that lets two models talk for ever costs little by then.
MAX_AGENTS: Final = 8


def mark_of(gateway: str, handle: str) -> str:
    """The mark of an agent in call chains. Other gateways see it, so it does not tell the
    handle."""
    return hashlib.sha256(f"{gateway}/{handle}".encode()).hexdigest()[:16]


def why_refused(chain: Sequence[str], mark: str) -> Refusal | None:
    """The reason why the agent with the mark may not answer a call that came through the agents of
    the chain; None when it may."""
    if mark in chain:
        return Refusal(
            "call_cycle",
            "This agent has called others, and one of them calls it again for the same request; "
            "the call was refused so that they do not call each other for ever",
        )
    if len(chain) >= MAX_AGENTS:
        return Refusal(
            "too_many_hops",
            f"This call came through {len(chain)} agents, and at most {MAX_AGENTS} may call each "
            "other for one request",
        )
    return None
