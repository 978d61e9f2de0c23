"""`SessionList`: the sessions that a caller may look at and end, by their keys."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec import Struct

from trunkline.engine.session import is_key_of
from trunkline.model.calls import Operation
from trunkline.model.errors import Conflict, InvalidParams, PermissionDenied, RouteNotFound
from trunkline.model.principal import OPERATOR, Principal
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Message
from trunkline.ports.call_views import SessionFilter, SessionName, SessionView
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Store
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.rights import Rights
from trunkline.routing.session_traces import Callers, Trace, traces_of
from trunkline.routing.sessions import SessionDirectory

# The time of a session, and a digest that tells sessions of the same time apart.
_AFTER: Final = re.compile(r"([0-9]{1,15})-([0-9a-f]{16})")


class FoundSession(Struct, kw_only=True):
    """The traces of one session."""

    callee: Callee
    ref: SessionRef
    key: str
    changed_ms: int = 0
    traces: list[Trace]

    @property
    def place(self) -> tuple[int, str]:
        """Where it is in lists: the session that changed last comes first."""
        digest = hashlib.sha256(f"{self.ref.tag}{self.key}".encode()).hexdigest()
        return -self.changed_ms, digest[:16]

    async def view(self) -> SessionView | None:
        """None for a session that was ended and has nothing since then."""
        ended = await self.callee.sessions.ended_ms(self.ref)
        traces = [each for each in self.traces if each.began_ms > ended]
        if not traces:
            return None
        scope = self.ref.scope
        return SessionView(
            key=self.key,
            agent=scope.agent,
            principal=scope.principal,
            tenant=scope.tenant,
            context_id=self.ref.context_id,
            tasks=sum(each.is_task for each in traces),
            entries=sum(each.is_entry for each in traces),
            changed_at=format_timestamp(max(each.changed_ms for each in traces)),
        )


class SessionList(Struct, frozen=True, kw_only=True, eq=False):
    """It implements `ports.call_views.ListsSessions`."""

    callees: Callees
    open_main: Callable[[], Awaitable[Store]]
    rights: Rights
    sessions: SessionDirectory

    async def page(self, wanted: SessionFilter, *, by: Principal) -> tuple[list[SessionView], str]:
        after = _AFTER.fullmatch(wanted.after)
        if wanted.after and after is None:
            raise InvalidParams.at("pageToken", "is not from an answer of this address")
        place = (0, "") if after is None else (-int(after[1]), after[2])
        callers = _callers(wanted.principal, wanted.tenant, by)
        if callers is None:
            return [], ""
        callees = self._asked(wanted.agent) if wanted.agent else self.callees.callees()
        ordered = sorted(await self._found(callees, callers, by), key=lambda each: each.place)
        views: list[SessionView] = []
        for last, each in enumerate(ordered):
            if after is not None and each.place <= place:
                continue
            view = await each.view()
            if view is None:
                continue
            if len(views) == wanted.limit:
                ms, digest = ordered[last - 1].place
                return views, f"{-ms}-{digest}"
            views.append(view)
        return views, ""

    async def transcript(
        self, name: SessionName, *, limit: int, by: Principal
    ) -> tuple[Message, ...]:
        found = await self.find(name, by)
        return await self.sessions.transcript(found.ref, limit=limit)

    async def end(self, name: SessionName, *, by: Principal) -> int:
        found = await self.find(name, by)
        if not self.rights.may(by, found.ref.scope, Operation.SEND_MESSAGE):
            raise PermissionDenied("This credential may look at the session and not change it")
        return await self.sessions.end(found.ref)

    def _asked(self, handle: str) -> list[Callee]:
        callee = self.callees.callee(handle)
        return [] if callee is None else [callee]

    async def find(self, name: SessionName, by: Principal) -> FoundSession:
        """Raises RouteNotFound, and Conflict for a key that several sessions have."""
        callers = _callers(name.principal, name.tenant, by)
        found: list[FoundSession] = []
        if callers is not None:
            callees = [each for each in self.callees.callees() if _may_have(each, name)]
            found = await self._found(callees, callers, by)
        same = [each for each in found if each.key == name.key and await each.view() is not None]
        if not same:
            raise RouteNotFound("There is no session of this key")
        if len(same) > 1:
            scopes = {each.ref.scope for each in same}
            listed = ", ".join(sorted(f"{each.agent} of {each.principal}" for each in scopes)[:10])
            raise Conflict(
                f"Several sessions have this key: with {listed}. Name the agent and the principal"
            )
        return same[0]

    async def _found(
        self, callees: Iterable[Callee], callers: Callers, by: Principal
    ) -> list[FoundSession]:
        found: dict[tuple[str, str], FoundSession] = {}
        for callee in callees:
            async for trace in traces_of(callee, callers, self.open_main):
                if not self.rights.may(by, trace.ref.scope):
                    break  # All traces of a caller with an agent have the same scope.
                place = (trace.ref.tag, trace.key)
                if place not in found:
                    found[place] = FoundSession(
                        callee=callee, ref=trace.ref, key=trace.key, traces=[]
                    )
                each = found[place]
                each.traces.append(trace)
                each.changed_ms = max(each.changed_ms, trace.changed_ms)
        return [*found.values()]


def _callers(principal: str, tenant: str, by: Principal) -> Callers | None:
    """Those whose sessions the caller may look at; None where there are none."""
    if OPERATOR in by.roles:
        return Callers(principal=principal, tenant=tenant)
    if principal not in ("", by.id) or (by.tenant and tenant not in ("", by.tenant)):
        return None
    return Callers(principal=by.id, tenant=by.tenant or tenant)


def _may_have(callee: Callee, name: SessionName) -> bool:
    """Whether the agent may have the session. Without its name, only agents are looked at whose
    sessions have such keys."""
    agent = callee.agent
    if name.agent:
        return agent.handle == name.agent
    return agent.names_sessions or is_key_of(name.key, agent.agent_id)
