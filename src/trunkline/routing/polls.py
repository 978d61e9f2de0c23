"""`Polls`: tells how calls stand, by their records and by the tasks of the called agents."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from trunkline.engine.agent_calls import CallRefused, read_poll
from trunkline.engine.call_outcome import outcome_of
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.calls import Caller, GetTaskRequest
from trunkline.model.errors import PermissionDenied, TaskNotFound
from trunkline.model.principal import Principal
from trunkline.model.values import SETTLED, TERMINAL, Task
from trunkline.ports.store import Scope, Store
from trunkline.protocol import skill_calls
from trunkline.routing.call_records import (
    CALL,
    CallRecord,
    RoutedCall,
    call_key,
    decode_record,
    task_tag,
)
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.callers import CallingTurn

_decode_task = msgspec.json.Decoder(Task).decode


class Polls(Struct, frozen=True, kw_only=True, eq=False):
    callees: Callees
    open_main: Callable[[], Awaitable[Store]]

    async def poll(self, turn: CallingTurn, arguments: Any) -> dict[str, Any]:
        """How a call of the session stands. Raises CallRefused."""
        asked = read_poll(arguments)
        task_id, agent = asked.task_id, asked.agent
        main = await self.open_main()
        record = await self._record_of(main, turn, task_id, asked.call_id)
        if record is not None:
            return await self._standing(record)
        callee = self.callees.callee(agent) if agent else None
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
        task = await self._task_of_call(call, task_id)
        return None if task is None else outcome_of(task.status, task.artifacts)

    async def _task_of_call(self, call: RoutedCall, task_id: str) -> Task | None:
        callee = self.callees.callee(call.callee)
        if callee is None:
            return None
        principal = callee.as_caller(call.principal)
        return await self.task_of(callee, principal, call.session.scope.tenant, task_id)

    async def _standing(self, record: CallRecord) -> dict[str, Any]:
        call = record.call
        ids = {"correlationId": call.id, "taskId": record.task_id}
        if record.state == "pending":
            return {"status": "working", **ids}
        payload: dict[str, Any] = msgspec.json.decode(record.payload) or {}
        payload.pop("kind", None)
        standing = {**ids, "status": record.state, **payload}
        if record.state == "timeout":
            task = await self._task_of_call(call, record.task_id)
            if task is not None and task.status.state in TERMINAL:
                standing["late"] = _standing_of(task)
        return standing


def _standing_of(task: Task) -> dict[str, Any]:
    if task.status.state not in SETTLED:
        return {"status": "working"}
    payload = skill_calls.response("", task.id, outcome_of(task.status, task.artifacts))
    return {
        name: value
        for name, value in payload.items()
        if name not in ("kind", "correlationId", "taskId")
    }
