"""`PlanBackend`: carries out plans, as an agent that only the gateway calls. So the task of a plan
has the durability, the events and the recovery of every task.

All that a plan knows is in the message of its task and in the records of its calls, whose ids come
of the plan and the step. So a run that is resumed asks for every call again, and gets those that
ended before as they were.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.engine import batch, debate
from trunkline.engine.agent_calls import CallRefused, NotNow
from trunkline.engine.batch import Batch
from trunkline.engine.debate_arguments import Debate
from trunkline.engine.plans import Done, Finished, Next, Step, StepEnd, step_end, step_id
from trunkline.model.call_outcomes import GATEWAY_RESTARTED
from trunkline.model.errors import StoreError, Unavailable
from trunkline.model.outputs import ArtifactEmitted, Failed, Final, Note, Output
from trunkline.model.routed_calls import CallOrigin
from trunkline.model.values import Artifact, Message, Part, Role
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.protocol import skill_calls
from trunkline.routing.callers import CallingTurn
from trunkline.routing.calls import Calls

_log = logging.getLogger("trunkline.routing")

Plan: TypeAlias = Batch | Debate
# Gets all steps that have ended, again with each one.
OnSteps: TypeAlias = Callable[[list[dict[str, Any]]], None]

# Between two attempts to make a call that the gateway could not make.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 10.0
_UNWANTED = "Nobody waits for the result any more: the session was ended, or it is too late"


class PlanRequest(Struct, frozen=True, kw_only=True):
    """What the task of a plan begins with."""

    kind: Literal["plan.1"] = "plan.1"
    # That of the call for the plan as a whole.
    id: str
    # The tool that was used.
    tool: str
    plan: Plan
    # In whose name the calls are made.
    turn: CallingTurn
    begun_ms: int

    def as_json(self) -> Any:
        return msgspec.to_builtins(self)

    @property
    def calling(self) -> CallingTurn:
        """The turn as the calls come of it. The plan is the call before them, and no level."""
        earlier, principal = self.turn.call, self.turn.principal
        assert principal is not None, "checked before the plan began"
        if earlier is None:
            origin = CallOrigin(id=self.id, root=self.id, principal=principal)
        else:
            origin = replace(earlier, id=self.id, principal=principal)
        return replace(self.turn, call=origin)


def _request_in(message: Message) -> PlanRequest:
    payload = next(part.data for part in message.parts if part.data is not UNSET)
    return msgspec.convert(payload["input"], PlanRequest)


class PlanBackend:
    """It implements `ports.backend.Backend`."""

    may_reply_directly = False
    is_pure = False
    can_resume = True

    def __init__(self, *, calls: Calls, clock: Clock) -> None:
        self.calls = calls
        self.clock = clock
        self.tasks = BackgroundTasks("plans")
        # Those under way.
        self.runs: dict[str, _PlanRun] = {}
        # By the ids of plans.
        self._watchers: dict[str, OnSteps] = {}

    @contextmanager
    def watched(self, plan_id: str, on_steps: OnSteps) -> Iterator[None]:
        self._watchers[plan_id] = on_steps
        try:
            yield
        finally:
            del self._watchers[plan_id]

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        request = _request_in(turn.message)
        return _PlanRun(self, turn, request, self._watchers.get(request.id)).outputs()

    async def cancel(self, run_id: str) -> None:
        if (run := self.runs.get(run_id)) is not None:
            run.stop()

    async def close(self) -> None:
        await self.tasks.close()


class _PlanRun:
    def __init__(
        self,
        backend: PlanBackend,
        turn: TurnRequest,
        request: PlanRequest,
        on_steps: OnSteps | None,
    ) -> None:
        self._backend = backend
        self._turn = turn
        self._request = request
        self._on_steps = on_steps
        self._calling = request.calling
        # Ends with the total timeout, or when the run is canceled.
        self._over: asyncio.Task[None] | None = None
        # The steps under way. One whose answer is no longer wanted ends with None.
        self._running: dict[str, tuple[Step, asyncio.Task[StepEnd | None]]] = {}
        self._done: dict[str, StepEnd] = {}
        # The steps that have ended, as they are shown.
        self._shown: list[dict[str, Any]] = []

    def stop(self) -> None:
        if self._over is not None:
            self._over.cancel()

    async def outputs(self) -> AsyncIterator[Output]:
        plan, run_id = self._request.plan, self._turn.run_id
        # The task of a run that is resumed has the notes of the run before.
        told = _told(self._turn.history) if self._turn.is_resumed else frozenset()
        self._over = self._backend.tasks.start(self._total_timeout(), name=f"timeout of {run_id}")
        self._backend.runs[run_id] = self
        try:
            while isinstance(wanted := _next_of(plan, self._done), tuple):
                self._begin(wanted)
                steps = [task for _, task in self._running.values()]
                await asyncio.wait({self._over, *steps}, return_when=asyncio.FIRST_COMPLETED)
                if self._over.done():
                    wanted = _cut_short(plan, self._done)
                    break
                for shown in self._ended():
                    if shown is None:
                        yield Failed(_UNWANTED)
                        return
                    if shown["step"] not in told:
                        yield _note(shown)
            yield _artifact(run_id, self._request, wanted)
            yield Final()
        finally:
            del self._backend.runs[run_id]
            for task in (self._over, *[task for _, task in self._running.values()]):
                task.cancel()

    async def _total_timeout(self) -> None:
        due_ms = self._request.begun_ms + self._request.plan.total_ms
        await self._backend.clock.sleep((due_ms - self._backend.clock.now_ms()) / 1000)

    def _begin(self, wanted: tuple[Step, ...]) -> None:
        for step in wanted:
            if step.name not in self._running:
                task = self._backend.tasks.start(self._end_of(step), name=step.name)
                self._running[step.name] = (step, task)

    def _ended(self) -> Iterator[dict[str, Any] | None]:
        """Take up the steps that have ended."""
        for step, task in [*self._running.values()]:
            if not task.done():
                continue
            del self._running[step.name]
            end = task.result()
            if end is None:
                yield None
                return
            self._done[step.name] = end
            shown = _shown(step, end)
            self._shown.append(shown)
            if self._on_steps is not None:
                self._on_steps([*self._shown])
            yield shown

    async def _end_of(self, step: Step) -> StepEnd | None:
        end = await self._asked(step, step.name)
        if end is None or end.outcome.code != GATEWAY_RESTARTED or not step.is_repeatable:
            return end
        return await self._asked(step, f"{step.name}, again")

    async def _asked(self, step: Step, name: str) -> StepEnd | None:
        """The end of a call; None if it is no longer wanted."""
        request, pause_s = self._request, _FIRST_PAUSE_S
        while True:
            try:
                if not await self._backend.calls.is_wanted(request.id):
                    return None
                answer = await self._backend.calls.step(
                    self._calling,
                    step.call,
                    source_tool=request.tool,
                    id=step_id(request.id, name),
                    kept_ms=request.plan.total_ms,
                )
            except (NotNow, StoreError, Unavailable) as error:
                about = {"plan": request.id, "step": name, "reason": str(error)}
                _log.warning("a call of a plan cannot be made now", extra=about)
            except CallRefused:
                return None
            else:
                return step_end(skill_calls.outcome_in(answer), answer["taskId"])
            await self._backend.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _next_of(plan: Plan, done: Done) -> Next:
    return batch.next_of(plan, done) if isinstance(plan, Batch) else debate.next_of(plan, done)


def _cut_short(plan: Plan, done: Done) -> Finished:
    return batch.cut_short(plan, done) if isinstance(plan, Batch) else debate.cut_short(plan, done)


def _shown(step: Step, end: StepEnd) -> dict[str, Any]:
    """A step for those who watch, without what the agent said."""
    shown: dict[str, Any] = {"step": step.name, "agent": step.call.agent, "status": end.status}
    return shown | ({"confidence": end.confidence} if end.is_completed else {})


def _note(shown: dict[str, Any]) -> Note:
    sure = f", confidence {shown['confidence']:g}" if "confidence" in shown else ""
    text = f"{shown['step']}: {shown['agent']}, {shown['status']}{sure}"
    return Note((Part(text=text), Part(data=shown)))


def _told(history: Sequence[Message]) -> frozenset[str]:
    """The steps of which the notes are in the history."""
    return frozenset(
        part.data["step"]
        for message in history
        if message.role is Role.AGENT
        for part in message.parts
        if isinstance(part.data, dict)
    )


def _artifact(run_id: str, request: PlanRequest, finished: Finished) -> ArtifactEmitted:
    """The result, in the form of a structured answer."""
    value = {
        "output": {"correlationId": request.id, **finished.output},
        "confidence": finished.confidence,
        "assumptions": [*finished.assumptions],
    }
    part = Part(data=value, media_type="application/json")
    name = "batch" if isinstance(request.plan, Batch) else "debate"
    return ArtifactEmitted(artifact=Artifact(artifact_id=run_id, name=name, parts=(part,)))
