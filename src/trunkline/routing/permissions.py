"""`Permissions`: whether an agent may ask another one during a turn."""

from collections.abc import Callable

from msgspec import Struct

from trunkline.engine.access import why_denied
from trunkline.engine.agent_calls import AgentCall, CallLimits, CallRefused, allows, why_too_deep
from trunkline.model.calls import Operation
from trunkline.model.principal import Principal
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.callers import CallingTurn


class Permissions(Struct, frozen=True, kw_only=True, eq=False):
    callees: Callees
    limits: Callable[[], CallLimits]

    def check_turn(self, turn: CallingTurn) -> Principal:
        """On whose behalf the turn may ask others. Raises CallRefused."""
        if turn.is_isolated or self.callees.policy_of(turn.agent).is_isolated:
            raise CallRefused("policy_denied", "this agent may call no others during a turn")
        if turn.principal is None:
            raise CallRefused(
                "caller_unknown",
                "the gateway restarted during this turn, so the rights of its caller are not known "
                "any more; a new message has them",
            )
        return turn.principal

    def check(self, turn: CallingTurn, asked: AgentCall) -> tuple[Callee, str]:
        """The agent to ask, and the skill of it. Raises CallRefused."""
        principal = self.check_turn(turn)
        policy, limits = self.callees.policy_of(turn.agent), self.limits()
        callee = self.callees.callee(asked.agent)
        if callee is None:
            raise self._unknown(turn, asked.agent)
        handle = callee.agent.handle
        if handle == turn.agent:
            raise CallRefused("self_call_blocked", "an agent may not call itself", argument="agent")
        denied = None
        if not callee.is_internal:
            denied = why_denied(
                principal, handle, Operation.SEND_MESSAGE, is_open=callee.agent.is_open
            )
        if denied is not None and callee.is_private:
            raise self._unknown(turn, asked.agent)
        is_named = turn.is_route and callee.is_remote
        if denied is not None or not (is_named or allows(policy, handle, asked.skill)):
            raise CallRefused("policy_denied", "this agent may not call that one", argument="agent")
        if asked.skill and callee.skills and asked.skill not in callee.skills:
            known = ", ".join(callee.skills)
            raise CallRefused(
                "skill_not_found",
                f"the agent has no skill {asked.skill}; it has: {known}",
                argument="skill",
            )
        depth = 1 if turn.call is None else turn.call.depth + 1
        too_deep = why_too_deep(limits, hops=len(turn.chain), depth=depth)
        if too_deep is not None:
            raise too_deep
        if callee.agent.mark in turn.chain:
            raise CallRefused(
                "call_cycle",
                "that agent is one of those that led to this turn; answer it instead",
                argument="agent",
            )
        return callee, asked.skill or next(iter(callee.skills), "")

    def _unknown(self, turn: CallingTurn, name: str) -> CallRefused:
        policy, principal = self.callees.policy_of(turn.agent), turn.principal
        known = [
            each.agent.handle
            for each in self.callees.callees()
            if each.agent.handle != turn.agent
            and allows(policy, each.agent.handle, "")
            and principal is not None
            and why_denied(
                principal,
                each.agent.handle,
                Operation.SEND_MESSAGE,
                is_open=each.agent.is_open,
            )
            is None
        ][:20]
        there = f"; there is: {', '.join(known)}" if known else ""
        return CallRefused("not_found", f"there is no agent {name}{there}", argument="agent")
