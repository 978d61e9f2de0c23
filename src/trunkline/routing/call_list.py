"""`CallList`: the calls that a caller may look at, by the records of the main store."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.model.errors import RouteNotFound
from trunkline.model.principal import OPERATOR, Principal
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.call_views import CallDetails, CallFilter, CallView
from trunkline.ports.store import Scope, Store
from trunkline.routing.call_records import (
    CALL,
    PENDING_TAG,
    CallRecord,
    agent_tag,
    call_key,
    caller_tag,
    decode_record,
    owner_tag,
    task_tag,
)
from trunkline.routing.rights import Rights

_PAGE: Final = 200
# So many records are looked at for one page, however few of them fit.
_MAX_LOOKED_AT: Final = 2000


class CallList(Struct, frozen=True, kw_only=True, eq=False):
    """It implements `ports.call_views.ListsCalls`."""

    open_main: Callable[[], Awaitable[Store]]
    rights: Rights

    async def page(self, wanted: CallFilter, *, by: Principal) -> tuple[list[CallView], str]:
        main, tag = await self.open_main(), _tag(wanted, by)
        found: list[CallView] = []
        last = wanted.after
        for _ in range(_MAX_LOOKED_AT // _PAGE):
            after = call_key(last) if last else None
            records = await main.records(CALL, tag=tag, after=after, newest_first=True, limit=_PAGE)
            for each in records:
                record = decode_record(each.body)
                if self._may_see(record, by) and _fits(record, wanted):
                    if len(found) == wanted.limit:
                        return found, found[-1].id
                    found.append(CallView(**_values(record)))
                last = record.call.id
            if len(records) < _PAGE:
                return found, ""
        return found, last

    async def of_task(self, task_id: str, *, by: Principal) -> list[CallView]:
        main = await self.open_main()
        found: dict[str, CallView] = {}
        for tag in (task_tag(task_id), caller_tag(task_id)):
            for each in await main.records(CALL, tag=tag, limit=_PAGE):
                record = decode_record(each.body)
                if self._may_see(record, by):
                    found[record.call.id] = CallView(**_values(record))
        return sorted(found.values(), key=lambda call: (call.created_at, call.id))

    async def find(self, id: str, *, by: Principal) -> CallDetails:
        main = await self.open_main()
        stored = await main.record(call_key(id))
        record = None if stored is None else decode_record(stored.body)
        if record is None or not self._may_see(record, by):
            raise RouteNotFound(
                "There is no call of this id. A call is forgotten soon after its end"
            )
        payload = bytes(record.payload)
        result: Any = msgspec.json.decode(payload) if payload else None
        return CallDetails(**_values(record), result=result)

    def _may_see(self, record: CallRecord, by: Principal) -> bool:
        return self.rights.may(by, record.call.session.scope)


def _tag(wanted: CallFilter, by: Principal) -> str | None:
    """The tag that leaves the fewest records to look at."""
    if OPERATOR not in by.roles:
        return owner_tag(Scope("", by.tenant or wanted.tenant, by.id))
    if wanted.principal:
        return owner_tag(Scope("", wanted.tenant, wanted.principal))
    if wanted.agent:
        return agent_tag(wanted.agent)
    return PENDING_TAG if wanted.status == "pending" else None


def _fits(record: CallRecord, wanted: CallFilter) -> bool:
    call = record.call
    return (
        wanted.agent in ("", call.session.scope.agent)
        and wanted.callee in ("", call.callee)
        and wanted.status in (None, record.state)
        and wanted.principal in ("", call.session.scope.principal)
    )


def _values(record: CallRecord) -> dict[str, Any]:
    call, scope = record.call, record.call.session.scope
    return {
        "id": call.id,
        "agent": scope.agent,
        "session": call.session_key,
        "principal": scope.principal,
        "tenant": scope.tenant,
        "callee": call.callee,
        "skill": call.skill,
        "tool": call.source_tool,
        "status": record.state,
        "task_id": record.task_id,
        "caller_task_id": call.caller_task_id,
        "created_at": format_timestamp(call.begun_ms),
        "timeout_ms": call.timeout_ms,
        "ended_at": format_timestamp(record.ended_ms) if record.ended_ms else None,
        "parent": call.parent,
        "depth": call.depth,
    }
