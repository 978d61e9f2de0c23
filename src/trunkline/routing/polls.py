"""`Polls`: tells how calls stand, by their records and by the tasks of the called agents."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct, structs

from trunkline.engine.agent_calls import CallRefused, read_poll
from trunkline.engine.call_outcome import outcome_of_turn
from trunkline.engine.turn_ends import end_of_turn
from trunkline.model.call_outcomes import CallOutcome
from trunkline.model.calls import Caller, GetTaskRequest
from trunkline.model.errors import PermissionDenied, TaskNotFound
from trunkline.model.principal import Principal
from trunkline.model.values import Task
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope, Store, all_entries
from trunkline.protocol import skill_calls
from trunkline.routing.call_records import (
    CALL,
    WATCH,
    CallRecord,
    RoutedCall,
    call_key,
    decode_record,
    read_call_body,
    task_tag,
)
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.callers import CallingTurn

_decode_task = msgspec.json.Decoder(Task).decode


async def own_calls(store: Store, session: SessionRef, task_id: str) -> list[RoutedCall]:
    """The calls of the session that the task answers, by the store of the task."""
    records = await store.task_records(task_id)
    calls = [read_call_body(record.body) for record in records if record.key.kind == WATCH]
    return [call for call in calls if call.session == session]


class Polls(Struct, frozen=True, kw_only=True, eq=False):
    callees: Callees
    open_main: Callable[[], Awaitable[Store]]

    async def poll(self, turn: CallingTurn, arguments: Any) -> dict[str, Any]:
        """How a call of the session stands. Raises CallRefused."""
        asked = read_poll(arguments)
        main = await self.open_main()
        record = await self._record_of(main, turn, asked.task_id, asked.call_id)
        if record is not None:
            return await self._standing(record)
        call = await self._watched(turn, asked.task_id) if asked.task_id else None
        if call is None:
            # A call of another session is as unknown as one that was never made.
            raise CallRefused("not_found", "no call of this session has this id")
        return {"taskId": asked.task_id, **await self._standing_by_task(call, asked.task_id)}

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

    async def _watched(self, turn: CallingTurn, task_id: str) -> RoutedCall | None:
        """The last call of this session that the task answers, by the store of the task: a call
        that expects no answer, or whose record is on its way to the main store or gone."""
        stores = {id(each.service.store): each.service.store for each in self.callees.callees()}
        for store in stores.values():
            if own := await own_calls(store, turn.session, task_id):
                return max(own, key=lambda each: each.begun_ms)
        return None

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
        """The outcome of a call whose turn has ended, by the journal of its task; None where that
        is gone, or the turn goes on."""
        callee = self.callees.callee(call.callee)
        if callee is None:
            return None
        principal = callee.as_caller(call.principal)
        scope = Scope(callee.agent.handle, call.session.scope.tenant, principal.id)
        service = callee.service
        stored = await service.store.get(scope, task_id)
        if stored is None or service.registry.is_expired(stored):
            return None
        entries = await all_entries(service.store, task_id)
        if not entries or entries[0].seq > 1:
            return None
        end = end_of_turn(None, entries, call.id)
        if end is None:
            return None
        texts: dict[str, str] = {}
        status, artifacts = end.status, end.artifacts
        artifacts = await service.large_values.restored(scope, artifacts, texts)
        if status.message is not None:
            (said,) = await service.large_values.restored(scope, (status.message,), texts)
            status = structs.replace(status, message=said)
        return outcome_of_turn(structs.replace(end, status=status, artifacts=artifacts))

    async def _standing(self, record: CallRecord) -> dict[str, Any]:
        call = record.call
        ids = {"correlationId": call.id, "taskId": record.task_id}
        if record.state == "pending":
            return {"status": "working", **ids}
        payload: dict[str, Any] = msgspec.json.decode(record.payload) or {}
        payload.pop("kind", None)
        standing = {**ids, "status": record.state, **payload}
        if record.state == "timeout":
            late = await self._standing_by_task(call, record.task_id)
            if late["status"] != "working":
                standing["late"] = late
        return standing

    async def _standing_by_task(self, call: RoutedCall, task_id: str) -> dict[str, Any]:
        outcome = await self.outcome_from_task(call, task_id)
        if outcome is None:
            return {"status": "working"}
        payload = skill_calls.response(call.id, task_id, outcome)
        return {
            name: value
            for name, value in payload.items()
            if name not in ("kind", "correlationId", "taskId")
        }
