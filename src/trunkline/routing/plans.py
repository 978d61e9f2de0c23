"""`Plans`: the tools `agent_call_batch` and `debate_call`."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec.structs import replace

from trunkline.engine.agent_calls import AgentCall, CallLimits, CallRefused, NotNow
from trunkline.engine.batch import read_batch
from trunkline.engine.call_outcome import outcome_of
from trunkline.engine.debate import CRITIQUE, REFINE
from trunkline.engine.debate_arguments import Debate, Participant, read_debate
from trunkline.model.profile import DAY_S, Profile
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.store import Store
from trunkline.routing.callees import Callee, internal_callee
from trunkline.routing.callers import CallingTurn
from trunkline.routing.calls import Calls
from trunkline.routing.plan_runs import OnSteps, Plan, PlanBackend, PlanRequest
from trunkline.routing.polls import Polls
from trunkline.routing.tool_definitions import BATCH, DEBATE
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.runtime import Runtime

# A plan ends by its own total timeout. That of its call is for one whose node is gone.
_GRACE_MS: Final = 10_000
# Longer than any total timeout, which ends the turn before.
_DEADLINE_S: Final = 30 * DAY_S


class Plans:
    def __init__(
        self,
        *,
        calls: Calls,
        polls: Polls,
        limits: Callable[[], CallLimits],
        clock: Clock,
        ids: Ids,
        open_main: Callable[[], Awaitable[Store]],
    ) -> None:
        self._calls = calls
        self._polls = polls
        self._limits = limits
        self._clock = clock
        self._ids = ids
        self._open_main = open_main
        self._backend = PlanBackend(calls=calls, clock=clock)
        profile = Profile(
            on_restart=("resume_queued", "resume_running"), task_deadline_s=_DEADLINE_S
        )
        # The agents that have the tasks of plans. They are published in the main store.
        self.agents = tuple(
            PublishedAgent(
                handle=f"tool:{tool}",
                agent_id=tool,
                backend=self._backend,
                input_modes=("application/json",),
                profile=profile,
            )
            for tool in (BATCH, DEBATE)
        )
        # The runtime of the main store, once it is open.
        self.runtime: Runtime | None = None

    async def batch(
        self, turn: CallingTurn, arguments: Any, *, on_steps: OnSteps
    ) -> dict[str, Any]:
        """Raises CallRefused, but not for calls of the batch that are refused."""
        with self._calls.audited(turn):
            plan = read_batch(arguments, self._limits(), session_key=turn.session_key)
            _ = self._calls.permissions.check_turn(turn)
        return await self._carried_out(turn, plan, BATCH, on_steps)

    async def debate(
        self, turn: CallingTurn, arguments: Any, *, on_steps: OnSteps
    ) -> dict[str, Any]:
        """Raises CallRefused, also for a participant that may not be called."""
        # The main store has the tasks of targets.
        _ = await self._open_main()
        with self._calls.audited(turn):
            plan = read_debate(arguments, self._limits(), session_key=turn.session_key)
            plan = self._with_skills(turn, plan)
        return await self._carried_out(turn, plan, DEBATE, on_steps)

    async def _carried_out(
        self, turn: CallingTurn, plan: Plan, tool: str, on_steps: OnSteps
    ) -> dict[str, Any]:
        """Begin the plan, and return its result to a caller that waits."""
        request = PlanRequest(
            id=self._ids.new(), tool=tool, plan=plan, turn=turn, begun_ms=self._clock.now_ms()
        )
        asked = AgentCall(
            agent=tool,
            input=request.as_json(),
            timeout_ms=plan.total_ms + _GRACE_MS,
            waits=plan.waits,
        )
        callee = await self._callee(tool)
        with self._backend.watched(request.id, on_steps):
            answer = await self._calls.make(
                turn, asked, callee, "", source_tool=tool, id=request.id
            )
        if answer["status"] != "completed":
            return answer
        if not isinstance(answer["output"], dict):
            answer = await self._whole(turn, callee, answer)
        return {"taskId": answer["taskId"], **answer["output"]}

    async def _whole(
        self, turn: CallingTurn, callee: Callee, answer: dict[str, Any]
    ) -> dict[str, Any]:
        """The answer with a result that is longer than answers are; its task has it. A caller that
        does not wait gets the beginning."""
        assert turn.principal is not None
        task = await self._polls.task_of(
            callee,
            callee.as_caller(turn.principal),
            turn.session.scope.tenant,
            answer["taskId"],
        )
        outcome = None if task is None else outcome_of(task.status, task.artifacts)
        if outcome is None or outcome.answer is None:
            raise CallRefused("call_failed", "the result is not kept any more")
        return answer | {"output": outcome.answer.output}

    async def _callee(self, tool: str) -> Callee:
        await self._open_main()
        if self.runtime is None:
            raise NotNow("call_failed", "the gateway is starting or shutting down; try again")
        (agent,) = [each for each in self.agents if each.agent_id == tool]
        return internal_callee(agent, self.runtime)

    def _with_skills(self, turn: CallingTurn, debate: Debate) -> Debate:
        """The debate with the handles of all participants and the skills that they are asked for.
        Raises CallRefused."""
        proposer, known = self._checked(turn, debate.proposer, "proposer")
        return replace(
            debate,
            proposer=proposer,
            critics=tuple(
                [
                    self._checked(turn, critic, f"critics[{n}]", prefers=CRITIQUE)[0]
                    for n, critic in enumerate(debate.critics)
                ]
            ),
            resolver=self._checked(turn, debate.resolver, "resolver")[0],
            refine_skill=_refining(known),
        )

    def _checked(
        self, turn: CallingTurn, named: Participant, where: str, *, prefers: str = ""
    ) -> tuple[Participant, tuple[str, ...]]:
        """The participant as it is called, and the skills on its card. Raises CallRefused.
        `prefers` is a skill to call if no other is named and the agent has it."""
        permissions = self._calls.permissions
        asked = AgentCall(agent=named.agent, skill=named.skill or prefers, timeout_ms=0)
        try:
            try:
                callee, skill = permissions.check(turn, asked)
            except CallRefused as refused:
                if named.skill or refused.code != "skill_not_found":
                    raise
                callee, skill = permissions.check(turn, replace(asked, skill=""))
        except CallRefused as refused:
            raise refused.within(where) from None
        return replace(named, agent=callee.agent.handle, skill=skill), callee.skills


def _refining(skills: tuple[str, ...]) -> str:
    """The skill by which an agent refines what it has proposed; empty for that of its proposal."""
    if REFINE in skills:
        return REFINE
    return next((skill for skill in skills if REFINE in skill.lower()), "")
