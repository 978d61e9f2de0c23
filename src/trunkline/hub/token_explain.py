"""`explain`: why a call with a token is allowed or refused."""

from msgspec import Struct

from trunkline.engine.access import reaches, why_denied
from trunkline.hub.token_requests import TokenView, status_of
from trunkline.hub.token_values import Token
from trunkline.model.principal import Principal


class AgentFacts(Struct, frozen=True, kw_only=True):
    """What decides about an agent."""

    handle: str
    is_published: bool
    # Of an agent of the registry: draft, published or deleted. Else: configured.
    status: str
    is_private: bool = False
    is_open: bool = False


class Explanation(Struct, frozen=True, kw_only=True):
    token: TokenView
    agent: str
    operation: str
    allowed: bool
    # The status that the call is answered with before the agent sees it; 200 if it may call.
    status: int
    # A name for programs, and the sentence for people.
    reason: str
    text: str


def explain(
    token: Token,
    view: TokenView,
    principal: Principal,
    agent: AgentFacts | None,
    *,
    handle: str,
    operation: str,
    has_ended_parent: bool,
    now_ms: int,
) -> Explanation:
    def said(status: int, reason: str, text: str) -> Explanation:
        return Explanation(
            token=view,
            agent=handle,
            operation=operation,
            allowed=status == 200,
            status=status,
            reason=reason,
            text=text,
        )

    state = status_of(token, now_ms)
    if state != "active":
        more = f"; {token.replaced_by} took its place" if token.replaced_by else ""
        return said(401, f"token_{state}", f"The token is {state}{more}.")
    if has_ended_parent:
        return said(401, "parent_ended", "The token that it was given for has ended.")
    if agent is None:
        return said(404, "unknown_agent", f"There is no agent {handle}.")
    if not agent.is_published:
        return said(404, "not_published", f"The agent {handle} is {agent.status}: callers get 404.")
    if agent.is_private and not reaches(principal, agent.handle, is_open=agent.is_open):
        return said(
            404,
            "private_agent",
            f"The agent {handle} is private, and nothing grants it to {principal.id}"
            f"{_limit(token)}. Callers without a grant get 404.",
        )
    denied = why_denied(principal, agent.handle, operation, is_open=agent.is_open)
    if denied is None:
        return said(200, "allowed", f"{principal.id} may call {operation} of {handle}.")
    return said(403, denied.reason, _why(token, principal, agent, operation))


def _why(token: Token, principal: Principal, agent: AgentFacts, operation: str) -> str:
    """Whether the limits of the token or the rights of its principal are in the way."""
    free = Principal(id=principal.id, grants=principal.grants, reaches_open=principal.reaches_open)
    denied = why_denied(free, agent.handle, operation, is_open=agent.is_open)
    if denied is None:
        return (
            f"{principal.id} may call {operation} of {agent.handle}, but the token{_limit(token)}."
        )
    if denied.reason == "operation_not_granted":
        return f"The grants of {principal.id} for {agent.handle} are without {operation}."
    return f"Nothing grants {agent.handle} to {principal.id}."


def _limit(token: Token) -> str:
    limits = [f"scopes {', '.join(token.scopes) or 'none'}"]
    if token.agents is not None:
        limits.append(f"agents {', '.join(token.agents)}")
    if token.methods is not None:
        limits.append(f"methods {', '.join(token.methods)}")
    return f" is limited to {' and '.join(limits)}"
