"""`why_denied`: the agents and operations that the grants of a principal allow."""

from trunkline.model.calls import Refusal
from trunkline.model.errors import Case, PermissionDenied
from trunkline.model.principal import ATTACH, Grant, Principal


def why_denied(
    principal: Principal, agent: str, operation: str, *, is_open: bool = False
) -> Refusal | None:
    """The reason why the principal may not call the operation; None when it may.

    Everything that no grant allows is denied. `is_open`: the agent is open to all who are signed
    in.
    """
    if principal.within is not None:
        denied = _why_not_granted(principal, principal.within, agent, operation)
        if denied is not None:
            return denied
    if is_open and principal.reaches_open:
        return None
    return _why_not_granted(principal, principal.grants, agent, operation)


def _why_not_granted(
    principal: Principal, grants: tuple[Grant, ...], agent: str, operation: str
) -> Refusal | None:
    named, remedy = f"the agent {agent}", "ask the operator of the gateway to grant it"
    if principal.is_relayed:
        # The caller knows the agent by its handle at the relay, and need not learn this one.
        named, remedy = "this agent", "ask for one that may"
    reaches_agent = False
    for grant in grants:
        if _covers(grant.agent, agent):
            reaches_agent = True
            if grant.operations is None or operation in grant.operations:
                return None
    if reaches_agent:
        return Refusal(
            "operation_not_granted",
            f"This credential may not call {operation} of {named}; {remedy}",
        )
    return Refusal(
        "agent_not_granted",
        f"This credential may not call {named}; {remedy}",
    )


def check_granted(
    principal: Principal, agent: str, operation: str, *, is_open: bool = False
) -> None:
    """Raises PermissionDenied for an operation that no grant allows."""
    denied = why_denied(principal, agent, operation, is_open=is_open)
    if denied is not None:
        raise PermissionDenied(denied.text, case=Case.NOT_GRANTED)


def reaches(principal: Principal, agent: str, *, is_open: bool) -> bool:
    """Whether the principal may call at least one operation of the agent."""
    if principal.within is not None and not _reach(principal.within, agent):
        return False
    return (is_open and principal.reaches_open) or _reach(principal.grants, agent)


def reaches_agents_of(principal: Principal, owner: str) -> bool:
    """Whether a grant of the principal may cover an agent of the owner, whichever agents there
    are."""
    limits = (
        (principal.grants,) if principal.within is None else (principal.grants, principal.within)
    )
    return all(
        any(grant.agent == "*" or grant.agent.startswith(f"{owner}/") for grant in grants)
        for grants in limits
    )


def operations_of(
    principal: Principal, agent: str, *, is_open: bool = False
) -> frozenset[str] | None:
    """The operations of the agent that the principal may call; None for all of them."""
    reached = None
    if not (is_open and principal.reaches_open):
        reached = _operations(principal.grants, agent)
    if principal.within is None:
        return reached
    within = _operations(principal.within, agent)
    if reached is None or within is None:
        return within if reached is None else reached
    return reached & within


def may_attach(principal: Principal, agent: str = "") -> bool:
    """Whether a host with this credential may have the agent, or any agent, at the relay. No grant
    and no other role allows it."""
    patterns = [role.removeprefix(ATTACH) for role in principal.roles if role.startswith(ATTACH)]
    return any(_covers(pattern, agent) for pattern in patterns) if agent else bool(patterns)


def is_unrestricted(principal: Principal) -> bool:
    """Whether the principal may call every operation of every agent, also of later ones."""
    return _is_everything(principal.grants) and (
        principal.within is None or _is_everything(principal.within)
    )


def _is_everything(grants: tuple[Grant, ...]) -> bool:
    return any(grant.agent == "*" and grant.operations is None for grant in grants)


def _reach(grants: tuple[Grant, ...], agent: str) -> bool:
    return any(_covers(grant.agent, agent) for grant in grants)


def _operations(grants: tuple[Grant, ...], agent: str) -> frozenset[str] | None:
    allowed: frozenset[str] = frozenset()
    for grant in grants:
        if _covers(grant.agent, agent):
            if grant.operations is None:
                return None
            allowed |= grant.operations
    return allowed


def _covers(pattern: str, agent: str) -> bool:
    # `owner/*` ends in a slash without the star, so it does not cover another owner whose name
    # only begins like this one.
    return pattern in ("*", agent) or (pattern.endswith("/*") and agent.startswith(pattern[:-1]))
