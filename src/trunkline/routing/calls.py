"""`Calls`: makes the calls of agents to agents, and waits for answers."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import msgspec

from trunkline.engine.agent_calls import (
    AgentCall,
    CallLimits,
    CallRefused,
    NotNow,
    checked_input,
    read_call,
)
from trunkline.engine.media_types import mode_matches
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.calls import (
    Caller,
    Operation,
    SendMessageConfiguration,
    SendMessageRequest,
)
from trunkline.model.errors import (
    PermissionDenied,
    RecordConflict,
    StoreError,
    TaskNotFound,
    TrunklineError,
    Unavailable,
)
from trunkline.model.routed_calls import CallOrigin
from trunkline.model.values import Message, Part, Role, Task
from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.store import Store
from trunkline.protocol import skill_calls
from trunkline.routing.call_records import RoutedCall, put_ended, watch_of
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.callers import CallingTurn
from trunkline.routing.permissions import Permissions
from trunkline.routing.polls import own_calls
from trunkline.routing.waiting import Waiting, answer_of
from trunkline.runtime.service import TaskAnswer

_log = logging.getLogger("trunkline.routing")

_JSON: Final = "application/json"
_PLAIN: Final = "text/plain"
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
        waiting: Waiting,
        on_audit: OnAudit,
    ) -> None:
        self._callees = callees
        self._limits = limits
        self._open_main = open_main
        self._clock = clock
        self._ids = ids
        self._on_audit = on_audit
        self.permissions = Permissions(callees=callees, limits=limits)
        self._waiting = waiting

    async def call(
        self, turn: CallingTurn, arguments: Any, *, source_tool: str, id: str = ""
    ) -> dict[str, Any]:
        """Make a call and return its first result. Raises CallRefused. `id` is that of a call that
        may have been made before a restart. It is not made again then: the result is that of the
        first time, whatever has changed since."""
        if id and (repeated := await self._repeated(id)) is not None:
            return repeated
        # The main store has the tasks of targets.
        _ = await self._open_main()
        with self.audited(turn):
            asked = read_call(arguments, self._limits(), session_key=turn.session_key)
        callee, skill = self._reached(turn, asked)
        return await self.make(turn, asked, callee, skill, source_tool=source_tool, id=id)

    async def step(
        self, turn: CallingTurn, asked: AgentCall, *, source_tool: str, id: str, kept_ms: int
    ) -> dict[str, Any]:
        """The answer to a call that is a step of a plan. The plan may ask for it again, also after
        a restart, and gets the same answer: a refusal is recorded as well. Raises NotNow, and
        CallRefused when the session was ended."""
        try:
            if (repeated := await self._repeated(id)) is not None:
                return repeated
            callee, skill = self._reached(turn, asked)
            _ = checked_input(asked.input, self._limits())
            return await self.make(
                turn, asked, callee, skill, source_tool=source_tool, id=id, kept_ms=kept_ms
            )
        except NotNow:
            raise
        except CallRefused as refused:
            return await self._refused(turn, asked, source_tool, id, kept_ms, refused)

    async def is_wanted(self, id: str) -> bool:
        """Whether the call is still pending: its session was not ended, and its time is not over.
        Raises StoreError."""
        record = await self._waiting.recorded(id)
        return record is not None and record.state == "pending"

    @contextmanager
    def audited(self, turn: CallingTurn, callee: str = "") -> Iterator[None]:
        """Have a refusal within audited."""
        try:
            yield
        except CallRefused as refused:
            self._on_audit(refused.code, turn, callee)
            raise

    def _reached(self, turn: CallingTurn, asked: AgentCall) -> tuple[Callee, str]:
        """The agent to ask, and the skill of it. Raises CallRefused."""
        with self.audited(turn, asked.agent):
            callee, skill = self.permissions.check(turn, asked)
        self._on_audit("invocation", turn, callee.agent.handle)
        return callee, skill

    async def _refused(
        self,
        turn: CallingTurn,
        asked: AgentCall,
        source_tool: str,
        id: str,
        kept_ms: int,
        refused: CallRefused,
    ) -> dict[str, Any]:
        """Record that the call of a step was refused. Returns the answer of the step."""
        call = self._routed(turn, asked, asked.agent, asked.skill, source_tool, id, kept_ms)
        outcome = CallOutcome("error", code=refused.code, text=refused.text)
        answer = skill_calls.response(id, "", outcome)
        at_ms = self._clock.now_ms()
        record = put_ended(call, "", "error", _encode(answer), at_ms=at_ms, expected=0)
        main = await self._open_main()
        try:
            await main.change(record)
        except RecordConflict:
            # It was made before after all.
            repeated = await self._repeated(id)
            assert repeated is not None, "there is such a record"
            return repeated
        return answer

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

    async def make(
        self,
        turn: CallingTurn,
        asked: AgentCall,
        callee: Callee,
        skill: str,
        *,
        source_tool: str,
        id: str = "",
        kept_ms: int = 0,
    ) -> dict[str, Any]:
        """Make a call that is allowed, and return its first result. Raises CallRefused. `kept_ms`
        is for how long its outcome is needed, if that is longer than usual."""
        id = id or self._ids.new()
        call = self._routed(turn, asked, callee.agent.handle, skill, source_tool, id, kept_ms)
        tenant = turn.session.scope.tenant
        payload = skill_calls.invocation(
            correlation_id=id,
            skill=skill,
            mode=asked.mode,
            input=asked.input,
            return_to=turn.session_key,
            timeout_ms=asked.timeout_ms,
        )
        origin = CallOrigin(
            id=id,
            root=call.root,
            depth=call.depth,
            turns=call.turns,
            principal=call.principal,
        )
        caller = Caller(
            principal=callee.as_caller(call.principal),
            tenant=tenant,
            idempotency_key=f"call-{id}",
            call_chain=turn.chain,
            call=origin,
            asked_by=turn.agent,
            joins=watch_of(call),
            operation=Operation.SEND_MESSAGE.value,
            binding=source_tool,
            wire_id=CALL_PATH.get().wire_id,
        )
        request = SendMessageRequest(
            message=Message(
                message_id=id,
                task_id=asked.task_id,
                role=Role.USER,
                parts=_parts(callee, asked.input, payload),
                metadata=skill_calls.remote_metadata(payload) if callee.is_remote else None,
            ),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        if asked.task_id and not await own_calls(callee.service.store, turn.session, asked.task_id):
            # The same as for a task that does not exist.
            raise _no_such_task()
        with self._waiting.for_call(id) as woken:
            task = await self._sent(callee, caller, request)
            if not asked.timeout_ms:
                return {"status": "working", "taskId": task.id}
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
        kept_ms: int,
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
            kept_ms=max(kept_ms, asked.timeout_ms) + round(limits.grace_s * 1000),
            parent="" if earlier is None else earlier.id,
            root=id if earlier is None else earlier.root,
            depth=1 if earlier is None else earlier.depth + 1,
            chain=turn.chain[:-1],
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
            raise _no_such_task() from error
        except (Unavailable, StoreError) as error:
            raise NotNow("call_failed", error.message) from error
        except TrunklineError as error:
            _log.info("a call was refused", extra={"reason": error.message})
            raise CallRefused("call_failed", error.message) from error
        if not isinstance(answer, TaskAnswer):
            raise CallRefused("call_failed", "the agent takes no such input; send a text")
        return _decode_task(answer.task)


def _parts(callee: Callee, value: Any, payload: dict[str, Any]) -> tuple[Part, ...]:
    """The input as a text, for agents that know nothing of calls, and the whole call as data."""
    modes = callee.agent.input_modes
    if not any(mode_matches(mode, _JSON) for mode in modes):
        text = _text(payload if value is None or value == "" else value)
        return (Part(text=text),)
    said: tuple[Part, ...] = ()
    if value is not None and value != "" and any(mode_matches(mode, _PLAIN) for mode in modes):
        said = (Part(text=_text(value)),)
    return (*said, Part(data=payload))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _no_such_task() -> CallRefused:
    return CallRefused("not_found", "this session has no such task of the agent")


def _pending(call: RoutedCall, task_id: str) -> dict[str, Any]:
    return {
        "status": "pending",
        "correlationId": call.id,
        "taskId": task_id,
        "timeout": call.timeout_ms,
    }
