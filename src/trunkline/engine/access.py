"""`why_denied`: the agents and operations that the grants of a principal allow."""

from trunkline.model.calls import Refusal
from trunkline.model.errors import PermissionDenied
from trunkline.model.principal import Principal


def why_denied(
    principal: Principal, agent: str, operation: str, *, is_open: bool = False
) -> Refusal | None:
    """The reason why the principal may not call the operation; None when it may.

    Everything that no grant allows is denied. `is_open`: the agent is open to all who are signed
    in.
    """
    if is_open and principal.reaches_open:
        return None
    reaches_agent = False
    for grant in principal.grants:
        if _covers(grant.agent, agent):
            reaches_agent = True
            if grant.operations is None or operation in grant.operations:
                return None
    if reaches_agent:
        return Refusal(
            "operation_not_granted",
            f"This credential may not call {operation} of the agent {agent}; "
            "ask the operator of the gateway to grant it",
        )
    return Refusal(
        "agent_not_granted",
        f"This credential may not call the agent {agent}; "
        "ask the operator of the gateway to grant it",
    )


def check_granted(
    principal: Principal, agent: str, operation: str, *, is_open: bool = False
) -> None:
    """Raises PermissionDenied for an operation that no grant allows."""
    denied = why_denied(principal, agent, operation, is_open=is_open)
    if denied is not None:
        raise PermissionDenied(denied.text)


def reaches(principal: Principal, agent: str, *, is_open: bool) -> bool:
    """Whether the principal may call at least one operation of the agent."""
    return (is_open and principal.reaches_open) or any(
        _covers(grant.agent, agent) for grant in principal.grants
    )


def is_unrestricted(principal: Principal) -> bool:
    """Whether the principal may call every operation of every agent, also of later ones."""
    return any(grant.agent == "*" and grant.operations is None for grant in principal.grants)


def _covers(pattern: str, agent: str) -> bool:
    # `owner/*` ends in a slash without the star, so it does not cover another owner whose name
    # only begins like this one.
    return pattern in ("*", agent) or (pattern.endswith("/*") and agent.startswith(pattern[:-1]))
