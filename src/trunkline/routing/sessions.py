"""`SessionDirectory`: the sessions of callers with agents, to look at and to end."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.engine.session import session_key
from trunkline.model.errors import Conflict, RecordConflict, RouteNotFound
from trunkline.model.values import Message
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Put, Record
from trunkline.ports.session_entries import SessionRef, ended_key
from trunkline.ports.store import Scope, Store, StoredTask, TaskQuery
from trunkline.routing.call_records import CALL, RoutedCall, decode_record
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.counts import CallCounts
from trunkline.routing.delivery import discards
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.sessions import session_context

# Of an agent, so many of the latest tasks of a caller are looked at for sessions.
_LATEST_TASKS: Final = 1000
_PAGE: Final = 200


class SessionView(Struct, frozen=True, kw_only=True):
    key: str
    ref: SessionRef
    # The number of its tasks among the latest of the caller.
    tasks: int
    # When its last task changed.
    changed_ms: int


class SessionDirectory(Struct, frozen=True, kw_only=True, eq=False):
    callees: Callees
    open_main: Callable[[], Awaitable[Store]]
    clock: Clock
    counts: CallCounts
    # Called with each call that was discarded.
    on_discarded: Callable[[RoutedCall], None]
    # Ends the tokens of programs in a session.
    end_tokens: Callable[[SessionRef], Awaitable[None]]

    async def of_caller(self, principal: str, tenant: str, *, agent: str = "") -> list[SessionView]:
        """The sessions of a caller that have not ended, the last one first: with one agent, or with
        all. Raises RouteNotFound for an agent that is not published."""
        found: list[SessionView] = []
        for callee in self._asked(agent):
            found += await self._of(callee, Scope(callee.agent.handle, tenant, principal))
        return sorted(found, key=lambda each: -each.changed_ms)

    async def find(self, key: str, principal: str, tenant: str, *, agent: str = "") -> SessionView:
        """Raises RouteNotFound, and Conflict for a key that several agents have."""
        found = [
            each for each in await self.of_caller(principal, tenant, agent=agent) if each.key == key
        ]
        if not found:
            raise RouteNotFound(
                "There is no session of this key; `GET /api/v1/sessions` lists them"
            )
        if len(found) > 1:
            agents = ", ".join(each.ref.scope.agent for each in found)
            raise Conflict(f"Several agents have a session of this key ({agents}); name the agent")
        return found[0]

    async def transcript(self, session: SessionRef, *, limit: int = 100) -> tuple[Message, ...]:
        """The last messages, the oldest first. Raises RouteNotFound."""
        callee = self._callee(session.scope.agent)
        return await callee.sessions.transcript(callee.agent, session, limit=limit)

    async def end(self, session: SessionRef) -> int:
        """End the session: its messages, notes and entries belong to no later turn, the tokens of
        its programs end, and the answers to its pending calls are discarded. Returns the number of
        these. Tasks stay."""
        callee = self._callee(session.scope.agent)
        await callee.sessions.store.change(Put(key=ended_key(session), due_in_ms=0))
        if not callee.agent.calls_others:
            return 0
        await self.end_tokens(session)
        return await self.discard(session.tag)

    async def discard(self, tag: str) -> int:
        """Discard the pending calls that have the tag: of a session, or of an agent."""
        main, count = await self.open_main(), 0
        after: Key | None = None
        while page := await main.records(CALL, tag=tag, after=after, limit=_PAGE):
            for record in page:
                count += await self._discard(main, record)
            after = page[-1].key
        self.counts.ended["discarded"] += count
        return count

    async def _discard(self, main: Store, record: Record) -> bool:
        call = decode_record(record.body)
        if call.state != "pending":
            return False
        at_ms = self.clock.now_ms()
        try:
            await main.change(
                discards(call.call, call.task_id, at_ms=at_ms, expected=record.version)
            )
        except RecordConflict:
            return False  # It has just ended by itself.
        self.on_discarded(call.call)
        return True

    def _asked(self, agent: str) -> Iterator[Callee]:
        if agent:
            yield self._callee(agent)
        else:
            yield from self.callees.callees()

    def _callee(self, handle: str) -> Callee:
        callee = self.callees.callee(handle)
        if callee is None:
            raise RouteNotFound(f"There is no agent {handle[:128]}")
        return callee

    async def _of(self, callee: Callee, scope: Scope) -> list[SessionView]:
        agent, seen = callee.agent, dict[str, SessionView]()
        ended: dict[str, int] = {}
        async for stored in self._tasks(callee, scope):
            ref = SessionRef(scope, session_context(agent, stored.context_id, stored.task_id))
            if ref.context_id not in ended:
                ended[ref.context_id] = await callee.sessions.ended_ms(ref)
            if stored.created_ms <= ended[ref.context_id]:
                continue
            known = seen.get(ref.context_id)
            if known is None:
                seen[ref.context_id] = SessionView(
                    key=_key(agent, scope, stored),
                    ref=ref,
                    tasks=1,
                    changed_ms=stored.status_ms,
                )
            else:
                seen[ref.context_id] = msgspec.structs.replace(
                    known,
                    tasks=known.tasks + 1,
                    changed_ms=max(known.changed_ms, stored.status_ms),
                )
        return [*seen.values()]

    async def _tasks(self, callee: Callee, scope: Scope) -> AsyncIterator[StoredTask]:
        query, count = TaskQuery(scope=scope, limit=_PAGE), 0
        while count < _LATEST_TASKS:
            page = await callee.sessions.store.list(query)
            for stored in page.tasks:
                yield stored
            count += len(page.tasks)
            if page.next is None:
                return
            query = msgspec.structs.replace(query, after=page.next)


def _key(agent: PublishedAgent, scope: Scope, stored: StoredTask) -> str:
    return session_key(agent.profile, agent.peer(scope, stored.context_id, stored.task_id))
