"""`Sessions`: the conversations that turns belong to.

A session has no record of its own. Its messages are those of its tasks, those of the answers
without a task, and its entries, such as the answers of agents that it has asked. So a transcript is
as durable as the tasks, belongs to the same caller, and is deleted with them.
"""

from collections.abc import Awaitable, Callable, Collection

import msgspec
from msgspec import Struct

from trunkline.engine.session import msg_context, session_key
from trunkline.model.session import Delivered, MsgContext, Peer, ReplyPayload
from trunkline.model.values import Message
from trunkline.ports.caller_records import note_key
from trunkline.ports.clock import Clock
from trunkline.ports.records import Delete, Key, Put
from trunkline.ports.session_entries import SessionRef, ended_ms, latest_entries
from trunkline.ports.store import Scope, Store, TaskQuery
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.direct_answers import DirectAnswers
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.live_task import LiveTask, fold_of
from trunkline.runtime.queued_replies import QueuedReplies
from trunkline.runtime.run import Run

_PAGE = 50


class Sessions(Struct, frozen=True, kw_only=True, eq=False):
    store: Store
    clock: Clock
    queued_replies: QueuedReplies
    large_values: LargeValues
    direct: DirectAnswers
    # Opens the main store, which has the entries of sessions.
    open_main: Callable[[], Awaitable[Store]]

    def notes(self, agent: PublishedAgent, live: LiveTask) -> "StoredNotes":
        """The notes of the backend in the conversation of a task."""
        context_id = session_context(agent, live.context_id, live.task_id)
        return StoredNotes(self, SessionRef(live.scope, context_id))

    def of_agent(self, handle: str) -> "StoredNotes":
        """The notes of the backend for the agent as a whole, which belong to no caller."""
        return StoredNotes(self, SessionRef(Scope(handle, "", ""), ""))

    async def ended_ms(self, session: SessionRef) -> int:
        """When the session was ended last; 0 if it never was."""
        return await ended_ms(self.store, session)

    async def transcript(
        self,
        agent: PublishedAgent,
        session: SessionRef,
        *,
        limit: int,
        but_tasks: Collection[str] = (),
        but_message: str = "",
    ) -> tuple[Message, ...]:
        """The last messages of the session, the oldest first, without those of some tasks and
        without the message that a turn is about."""
        if limit < 1:
            return ()
        ended = await self.ended_ms(session)
        told = await self._tasks(session, limit, but_tasks, after_ms=ended)
        for at_ms, messages in await self.direct.latest(session.scope, session.context_id, limit):
            # An answer without a task has the id that its task would have.
            if messages[-1].message_id not in but_tasks and at_ms > ended:
                told.append((at_ms, messages))
        # Tasks and answers came with the latest first. Messages of the same time keep their
        # order.
        told.reverse()
        if agent.calls_others:
            # An entry that began a turn is a message of its task as well.
            known = {message.message_id for _, group in told for message in group}
            known.add(but_message)
            main = await self.open_main()
            for at_ms, entry in await latest_entries(main, session, limit=limit):
                if at_ms > ended and entry.message_id not in known:
                    told.append((at_ms, (entry,)))
        told.sort(key=lambda item: item[0])
        flat = [message for _, group in told for message in group]
        return await self.large_values.restored(session.scope, flat[-limit:], {})

    async def _tasks(
        self,
        session: SessionRef,
        limit: int,
        but_tasks: Collection[str],
        *,
        after_ms: int,
    ) -> list[tuple[int, tuple[Message, ...]]]:
        """The messages of the tasks of the session that began later, the latest task first, with
        its time."""
        found = list[tuple[int, tuple[Message, ...]]]()
        query = TaskQuery(scope=session.scope, context_id=session.context_id, limit=_PAGE)
        count = 0
        while count < limit:
            page = await self.store.list(query)
            for stored in page.tasks:
                if stored.task_id not in but_tasks and stored.created_ms > after_ms:
                    fold = fold_of(stored)
                    # Messages that wait in the queue have not reached the agent.
                    messages = fold.settled_history()
                    count += len(messages)
                    found.append((stored.status_ms, messages))
            if page.next is None:
                break
            query = msgspec.structs.replace(query, after=page.next)
        return found


class RunSession(Struct, frozen=True, eq=False):
    """The session of one run. A backend may keep it after the run, to send a later reply."""

    _run: Run
    _sessions: Sessions

    @property
    def key(self) -> str:
        return session_key(self._run.agent.profile, self._peer())

    @property
    def bound_key(self) -> str:
        live = self._run.live
        return "" if live is None else live.session_key

    def context(self) -> MsgContext:
        run = self._run
        now_ms = self._sessions.clock.now_ms()
        return msg_context(run.agent.profile, self._peer(), run.message, now_ms=now_ms)

    async def transcript(self, *, limit: int = 100) -> tuple[Message, ...]:
        run = self._run
        if run.agent.profile.context_mode in ("task", "stateless"):
            return ()
        own = run.live.task_id if run.live is not None else ""
        return await self._sessions.transcript(
            run.agent,
            self.ref,
            limit=limit,
            # A run without a task has the id that its task would get.
            but_tasks=(own, run.task_id),
            but_message=run.message.message_id,
        )

    @property
    def ref(self) -> SessionRef:
        run = self._run
        context_id = session_context(run.agent, run.context_id, run.task_id)
        return SessionRef(run.lane.scope, context_id)

    async def recall(self, name: str) -> str | None:
        return await self._notes().recall(name)

    async def keep(self, name: str, text: str) -> None:
        await self._notes().keep(name, text)

    def _notes(self) -> "StoredNotes":
        return StoredNotes(self._sessions, self.ref)

    async def follow_up(self, payload: ReplyPayload) -> Delivered:
        agent, live = self._run.agent, self._run.live
        task_id = live.task_id if live is not None else ""
        return await self._sessions.queued_replies.deliver(task_id, payload, agent=agent.handle)

    def _peer(self) -> Peer:
        run = self._run
        task_id = run.live.task_id if run.live is not None else ""
        if run.agent.is_stateless:
            task_id = run.task_id
        return run.agent.peer(run.lane.scope, run.context_id, task_id, self.bound_key)


class StoredNotes(Struct, frozen=True, eq=False):
    """The notes of a backend in one session."""

    _sessions: Sessions
    session: SessionRef

    async def recall(self, name: str) -> str | None:
        record = await self._sessions.store.record(self._key(name))
        if record is None or (record.due_ms or 0) <= await self._sessions.ended_ms(self.session):
            return None
        return record.body.decode()

    async def keep(self, name: str, text: str) -> None:
        """Keep the text in place of the one of that name, or forget it if it is empty."""
        store, key = self._sessions.store, self._key(name)
        if text:
            await store.change(Put(key=key, body=text.encode(), due_in_ms=0))
        else:
            await store.change(Delete(key=key))

    def _key(self, name: str) -> Key:
        return note_key(self.session.scope, self.session.context_id, name)


def session_context(agent: PublishedAgent, context_id: str, task_id: str) -> str:
    """The context of the session; empty where all contexts of a caller are one session."""
    if agent.profile.context_mode == "client":
        return ""
    return agent.conversation(context_id, task_id)
