"""`Calls`: makes the calls of agents to agents, waits for answers, and tells how calls stand."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from trunkline.engine.access import why_denied
from trunkline.engine.agent_calls import (
    AgentCall,
    CallLimits,
    CallRefused,
    allows,
    read_call,
    read_poll,
    why_too_deep,
)
from trunkline.engine.call_outcome import outcome_of
from trunkline.engine.media_types import mode_matches
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.calls import (
    Caller,
    GetTaskRequest,
    Operation,
    SendMessageConfiguration,
    SendMessageRequest,
)
from trunkline.model.errors import PermissionDenied, TaskNotFound, TrunklineError
from trunkline.model.principal import Principal
from trunkline.model.routed_calls import CallOrigin, TaskRecord
from trunkline.model.values import SETTLED, TERMINAL, Message, Part, Role, Task
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.store import Scope, Store
from trunkline.protocol import skill_calls
from trunkline.routing.call_records import (
    CALL,
    WATCH,
    CallRecord,
    RoutedCall,
    call_body,
    call_key,
    decode_record,
    task_tag,
)
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.callers import CallingTurn
from trunkline.routing.counts import CallCounts
from trunkline.routing.waiting import Waiting, answer_of
from trunkline.runtime.service import TaskAnswer

_log = logging.getLogger("trunkline.routing")

_JSON: Final = "application/json"
_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode

# An event of R-27, the turn that asked, and the agent that it asked for.
OnAudit: TypeAlias = Callable[[str, CallingTurn, str], None]


class Calls:
    def __init__(
        self,
        *,
        callees: Callees,
        limits: Callable[[], CallLimits],
        open_main: Callable[[], Awaitable[Store]],
        clock: Clock,
        ids: Ids,
        counts: CallCounts,
        wake: Callable[[], None],
        wake_in: Callable[[float], None],
        tell: Callable[[str], None],
        on_audit: OnAudit,
    ) -> None:
        """`wake` has due work looked for in all stores, `wake_in` in the main store after that many
        seconds. `tell` tells the other nodes the id of a call that ended."""
        self._callees = callees
        self._limits = limits
        self._open_main = open_main
        self._clock = clock
        self._ids = ids
        self._counts = counts
        self._wake = wake
        self._wake_in = wake_in
        self._tell = tell
        self._on_audit = on_audit
        self._waiting = Waiting(open_main=open_main, clock=clock)

    async def call(
        self, turn: CallingTurn, arguments: Any, *, source_tool: str, id: str = ""
    ) -> dict[str, Any]:
        """Make a call and return its first result. Raises CallRefused. `id` is that of a call that
        may have been made before a restart. It is not made again then: the result is that of the
        first time, whatever has changed since."""
        if id and (repeated := await self._repeated(id)) is not None:
            return repeated
        limits = self._limits()
        callee_name = ""
        try:
            asked = read_call(arguments, limits, session_key=turn.session_key)
            callee_name = asked.agent
            callee, skill = self._checked(turn, asked, limits)
        except CallRefused as refused:
            self._on_audit(refused.code, turn, callee_name)
            raise
        self._on_audit("invocation", turn, callee.agent.handle)
        return await self._made(turn, asked, callee, skill, source_tool, id or self._ids.new())

    async def poll(self, turn: CallingTurn, arguments: Any) -> dict[str, Any]:
        """How a call of the session stands. Raises CallRefused."""
        asked = read_poll(arguments)
        task_id, agent = asked.task_id, asked.agent
        main = await self._open_main()
        record = await self._record_of(main, turn, task_id, asked.call_id)
        if record is not None:
            return await self._standing(record)
        callee = self._callees.callee(agent) if agent else None
        if callee is None or not task_id or turn.principal is None:
            raise CallRefused(
                "not_found",
                "no call of this session has this id; for a call without a timeout, name its "
                "agent too",
            )
        task = await self.task_of(callee, turn.principal, turn.session.scope.tenant, task_id)
        if task is None:
            raise CallRefused("not_found", "the agent has no task of this id")
        return {"taskId": task_id, **_standing_of(task)}

    def ended(
        self, call: RoutedCall, outcome: CallOutcome | None, *, is_late: bool, took_s: float
    ) -> None:
        """A commit of this node has ended the call, or with an outcome of None has it ended soon.
        `is_late`: another end was first. `took_s`: since the called agent was done."""
        if is_late:
            self._counts.ended["late"] += 1
        elif outcome is not None:
            self._counts.ended[outcome.status] += 1
            self._counts.delivery.observe(took_s)
        self.wake_caller(call)
        if outcome is None or call.starts_turn or call.delivery != "session":
            self._wake()

    def wake_caller(self, call: RoutedCall) -> None:
        """Have a caller that waits look for the end of the call, at whichever node it is."""
        if not self._waiting.wake(call.id) and call.waits:
            self._tell(call.id)

    def hear(self, call_id: str) -> None:
        """Another node has ended the call; an empty id means that something may have been lost."""
        self._waiting.wake(call_id)

    async def close(self) -> None:
        await self._waiting.close()

    async def _repeated(self, id: str) -> dict[str, Any] | None:
        """The result of a call that was made before; None for one that was not."""
        with self._waiting.for_call(id) as woken:
            made = await self._waiting.recorded(id)
            if made is None:
                return None
            if not made.call.waits:
                return _pending(made.call, made.task_id)
            if made.state != "pending":
                return answer_of(made)
            return await self._waiting.answer(made.call, woken)

    def _checked(
        self, turn: CallingTurn, asked: AgentCall, limits: CallLimits
    ) -> tuple[Callee, str]:
        """The agent to ask, and the skill of it. Raises CallRefused."""
        policy = self._callees.policy_of(turn.agent)
        callee = self._callees.callee(asked.agent)
        if turn.is_isolated or policy.is_isolated:
            raise CallRefused("policy_denied", "this agent may call no others during a turn")
        if callee is None:
            raise self._unknown(turn, asked.agent)
        handle = callee.agent.handle
        if handle == turn.agent:
            raise CallRefused("self_call_blocked", "an agent may not call itself")
        if turn.principal is None:
            raise CallRefused(
                "caller_unknown",
                "the gateway restarted during this turn, so the rights of its caller are not known "
                "any more; a new message has them",
            )
        denied = why_denied(
            turn.principal, handle, Operation.SEND_MESSAGE, is_open=callee.agent.is_open
        )
        if denied is not None and callee.is_private:
            raise self._unknown(turn, asked.agent)
        if not allows(policy, handle, asked.skill) or denied is not None:
            raise CallRefused("policy_denied", "this agent may not call that one")
        if asked.skill and callee.skills and asked.skill not in callee.skills:
            known = ", ".join(callee.skills)
            raise CallRefused(
                "skill_not_found", f"the agent has no skill {asked.skill}; it has: {known}"
            )
        depth = 1 if turn.call is None else turn.call.depth + 1
        too_deep = why_too_deep(limits, hops=len(turn.chain), depth=depth)
        if too_deep is not None:
            raise too_deep
        if callee.agent.mark in turn.chain:
            raise CallRefused(
                "call_cycle", "that agent is one of those that led to this turn; answer it instead"
            )
        return callee, asked.skill or next(iter(callee.skills), "")

    def _unknown(self, turn: CallingTurn, name: str) -> CallRefused:
        policy, principal = self._callees.policy_of(turn.agent), turn.principal
        known = [
            each.agent.handle
            for each in self._callees.callees()
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
        return CallRefused("not_found", f"there is no agent {name}{there}")

    async def _made(
        self,
        turn: CallingTurn,
        asked: AgentCall,
        callee: Callee,
        skill: str,
        source_tool: str,
        id: str,
    ) -> dict[str, Any]:
        call = self._routed(turn, asked, callee.agent.handle, skill, source_tool, id)
        assert turn.principal is not None
        tenant = turn.session.scope.tenant
        is_expected = asked.timeout_ms > 0
        payload = skill_calls.invocation(
            correlation_id=id,
            skill=skill,
            mode=asked.mode,
            input=asked.input,
            return_to=turn.session_key,
            timeout_ms=asked.timeout_ms,
        )
        origin = CallOrigin(
            id=id if is_expected else "",
            root=call.root,
            depth=call.depth,
            turns=call.turns,
            principal=turn.principal,
        )
        caller = Caller(
            principal=turn.principal,
            tenant=tenant,
            idempotency_key=f"call-{id}",
            call_chain=turn.chain,
            call=origin,
            asked_by=turn.agent,
            joins=TaskRecord(WATCH, id, call_body(call)) if is_expected else None,
            operation=Operation.SEND_MESSAGE.value,
            binding=source_tool,
        )
        request = SendMessageRequest(
            message=Message(
                message_id=id,
                task_id=asked.task_id,
                role=Role.USER,
                parts=_parts(callee, asked.input, payload),
            ),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        with self._waiting.for_call(id) as woken:
            task = await self._sent(callee, caller, request)
            if not is_expected:
                return {"status": "working", "taskId": task.id, "agent": callee.agent.handle}
            self._counts.begun += 1
            self._wake_in(asked.timeout_ms / 1000)
            if asked.waits:
                return await self._waiting.answer(call, woken)
        return _pending(call, task.id)

    def _routed(
        self,
        turn: CallingTurn,
        asked: AgentCall,
        callee: str,
        skill: str,
        source_tool: str,
        id: str,
    ) -> RoutedCall:
        policy, limits, earlier = self._callees.policy_of(turn.agent), self._limits(), turn.call
        assert turn.principal is not None
        return RoutedCall(
            id=id,
            session=turn.session,
            session_key=turn.session_key,
            callee=callee,
            skill=skill,
            mode=asked.mode,
            source_tool=source_tool,
            begun_ms=self._clock.now_ms(),
            timeout_ms=asked.timeout_ms,
            kept_ms=asked.timeout_ms + round(limits.grace_s * 1000),
            parent="" if earlier is None else earlier.id,
            root=id if earlier is None else earlier.root,
            depth=1 if earlier is None else earlier.depth + 1,
            turns=0 if earlier is None else earlier.turns,
            principal=turn.principal,
            delivery=policy.delivery,
            starts_turn=policy.starts_turn,
            waits=asked.waits,
            caller_task_id=turn.task_id,
            on_crash=limits.on_callee_crash,
        )

    async def _sent(self, callee: Callee, caller: Caller, request: SendMessageRequest) -> Task:
        try:
            answer = await callee.service.send(callee.agent.current(), caller, request)
        except PermissionDenied as error:
            raise CallRefused("policy_denied", error.message) from error
        except TaskNotFound as error:
            raise CallRefused("not_found", "the agent has no such task") from error
        except TrunklineError as error:
            _log.info("a call was refused", extra={"reason": error.message})
            raise CallRefused("call_failed", error.message) from error
        if not isinstance(answer, TaskAnswer):
            raise CallRefused("call_failed", "the agent takes no such input; send a text")
        return _decode_task(answer.task)

    async def _record_of(
        self, main: Store, turn: CallingTurn, task_id: str, call_id: str
    ) -> CallRecord | None:
        """The call of this session; the last one of those that a task answered."""
        if call_id:
            stored = await main.record(call_key(call_id))
            found = [] if stored is None else [decode_record(stored.body)]
        else:
            records = await main.records(CALL, tag=task_tag(task_id), limit=100)
            found = [decode_record(record.body) for record in records]
        own = [each for each in found if each.call.session == turn.session]
        return max(own, key=lambda each: each.call.begun_ms, default=None)

    async def _standing(self, record: CallRecord) -> dict[str, Any]:
        call = record.call
        ids = {"correlationId": call.id, "taskId": record.task_id}
        if record.state == "pending":
            return {"status": "working", **ids}
        payload: dict[str, Any] = msgspec.json.decode(record.payload) or {}
        payload.pop("kind", None)
        standing = {**ids, "status": record.state, **payload}
        if record.state == "timeout":
            callee = self._callees.callee(call.callee)
            tenant = call.session.scope.tenant
            if callee is not None:
                task = await self.task_of(callee, call.principal, tenant, record.task_id)
                if task is not None and task.status.state in TERMINAL:
                    standing["late"] = _standing_of(task)
        return standing

    async def task_of(
        self, callee: Callee, principal: Principal, tenant: str, task_id: str
    ) -> Task | None:
        """The task as the called agent has it, with its large texts."""
        caller = Caller(principal=principal, tenant=tenant)
        try:
            found = await callee.service.get(callee.agent, caller, GetTaskRequest(id=task_id))
        except (TaskNotFound, PermissionDenied):
            return None
        pieces = await callee.service.large_values.pieces(
            Scope(callee.agent.handle, tenant, principal.id), found
        )
        whole = [piece async for piece in callee.service.large_values.written_out(pieces)]
        return _decode_task(b"".join(whole))

    async def outcome_from_task(self, call: RoutedCall, task_id: str) -> CallOutcome | None:
        """The outcome of a call whose answer is too large for one commit; None where the task is
        gone."""
        callee = self._callees.callee(call.callee)
        if callee is None:
            return None
        task = await self.task_of(callee, call.principal, call.session.scope.tenant, task_id)
        return None if task is None else outcome_of(task.status, task.artifacts)


def _parts(callee: Callee, value: Any, payload: dict[str, Any]) -> tuple[Part, ...]:
    """The input as a text, for agents that know nothing of calls, and the whole call as data."""
    text = value if isinstance(value, str) else _encode(value).decode()
    said = (Part(text=text),) if text and value is not None else ()
    if any(mode_matches(mode, _JSON) for mode in callee.agent.input_modes):
        return (*said, Part(data=payload))
    return said or (Part(text=_encode(payload).decode()),)


def _pending(call: RoutedCall, task_id: str) -> dict[str, Any]:
    return {
        "status": "pending",
        "correlationId": call.id,
        "taskId": task_id,
        "timeout": call.timeout_ms,
    }


def _standing_of(task: Task) -> dict[str, Any]:
    if task.status.state not in SETTLED:
        return {"status": "working"}
    payload = skill_calls.response("", task.id, outcome_of(task.status, task.artifacts))
    return {
        name: value
        for name, value in payload.items()
        if name not in ("kind", "correlationId", "taskId")
    }
