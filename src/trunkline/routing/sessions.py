"""`SessionDirectory`: reads the transcripts of sessions, and ends sessions."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from trunkline.model.errors import RecordConflict, RouteNotFound
from trunkline.model.values import Message
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Put, Record
from trunkline.ports.session_entries import SessionRef, ended_key
from trunkline.ports.store import Store
from trunkline.routing.call_news import CallNews
from trunkline.routing.call_records import CALL, RoutedCall, decode_record
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.delivery import discards

_PAGE: Final = 200


class SessionDirectory(Struct, frozen=True, kw_only=True, eq=False):
    callees: Callees
    open_main: Callable[[], Awaitable[Store]]
    clock: Clock
    news: CallNews
    # Ends the tokens of programs in a session.
    end_tokens: Callable[[SessionRef], Awaitable[None]]

    async def transcript(self, session: SessionRef, *, limit: int = 100) -> tuple[Message, ...]:
        """The last messages, the oldest first. Raises RouteNotFound."""
        callee = self._callee(session.scope.agent)
        return await callee.sessions.transcript(callee.agent, session, limit=limit)

    async def end(self, session: SessionRef) -> int:
        """End the session: its messages, notes and entries belong to no later turn, the tokens of
        its programs end, and the answers to its pending calls are discarded. Returns the number of
        these. Tasks stay."""
        callee = self._callee(session.scope.agent)
        mark = Put(key=ended_key(session), due_in_ms=0)
        if not callee.agent.calls_others:
            await callee.sessions.store.change(mark)
            return 0
        # Before the mark, so that no answer comes to an ended session if the process dies here, and
        # again for calls that were made meanwhile.
        count = await self.discard(session.tag)
        await callee.sessions.store.change(mark)
        await self.end_tokens(session)
        return count + await self.discard(session.tag)

    async def ended_ms(self, call: RoutedCall) -> int:
        """When the session of the call was ended last; 0 if it never was, or its agent is not there
        now."""
        callee = self.callees.callee(call.session.scope.agent)
        return 0 if callee is None else await callee.sessions.ended_ms(call.session)

    async def discard(self, tag: str) -> int:
        """Discard the pending calls that have the tag: of a session, or of an agent."""
        main, count = await self.open_main(), 0
        after: Key | None = None
        while page := await main.records(CALL, tag=tag, after=after, limit=_PAGE):
            for record in page:
                count += await self._discard(main, record)
            after = page[-1].key
        return count

    async def _discard(self, main: Store, found: Record) -> bool:
        record: Record | None = found
        while record is not None and (call := decode_record(record.body)).state == "pending":
            at_ms = self.clock.now_ms()
            discarded = discards(call.call, call.task_id, at_ms=at_ms, expected=record.version)
            try:
                await main.change(discarded)
            except RecordConflict:
                # It has just ended by itself, or is about to time out.
                record = await main.record(found.key)
            else:
                self.news.ended(call.call, "discarded")
                return True
        return False

    def _callee(self, handle: str) -> Callee:
        callee = self.callees.callee(handle)
        if callee is None:
            raise RouteNotFound(f"There is no agent {handle[:128]}")
        return callee
