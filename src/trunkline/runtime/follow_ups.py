"""`FollowUps`: accepts messages to tasks that exist, and queues the runs that a restart left."""

from collections.abc import Iterable
from functools import partial

from msgspec import Struct, structs

from trunkline.engine.admission import check_follow_up
from trunkline.engine.queue_limits import why_refused
from trunkline.engine.run_states import RunState
from trunkline.engine.task_fold import Pending
from trunkline.engine.transitions import TABLE, Step
from trunkline.model.calls import Caller, Refusal
from trunkline.model.events import MessageAccepted, TurnOptions
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    TERMINAL,
    Message,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.clock import Clock
from trunkline.ports.gate import Admission
from trunkline.ports.store import Scope
from trunkline.runtime.admitted import Admitted, admitted_before
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.idempotency import IdempotencyKeys, RequestKey, Unanswered
from trunkline.runtime.journal import Journal, not_stored
from trunkline.runtime.live_task import LiveTask, message_of_task
from trunkline.runtime.registry import Registry
from trunkline.runtime.reservations import Reservations
from trunkline.runtime.run import run_of, runs_left
from trunkline.runtime.runs import Runs
from trunkline.runtime.turn_gate import Passage, TurnGate

# A constant, because Python 3.11 looks up enum members through the metaclass, which is slow.
_BEGINNING = RunState.BEGINNING


class FollowUps(Struct, frozen=True, kw_only=True, eq=False):
    keys: IdempotencyKeys
    registry: Registry
    journal: Journal
    runs: Runs
    clock: Clock
    reservations: Reservations
    gate: TurnGate | None

    def requeue(self, tasks: Iterable[tuple[PublishedAgent, LiveTask]]) -> None:
        """Queue the runs that a restart left."""
        for run in runs_left(tasks):
            self.runs.enter(run)

    async def accept(
        self,
        agent: PublishedAgent,
        caller: Caller,
        scope: Scope,
        message: Message,
        options: TurnOptions | None,
        key: RequestKey | None,
    ) -> Admitted:
        """Accept the message or raise; nothing is recorded when it raises."""
        live = await self.registry.load(scope, message.task_id)
        try:
            with self.registry.pinned(live):
                return await self._accept_pinned(agent, caller, live, message, options, key)
        finally:
            self.registry.forget_if_idle(live)

    async def _accept_pinned(
        self,
        agent: PublishedAgent,
        caller: Caller,
        live: LiveTask,
        message: Message,
        options: TurnOptions | None,
        key: RequestKey | None,
    ) -> Admitted:
        # Another request with the key may have come while the task was loaded.
        earlier = await self._until_ready(live, key)
        if earlier is not None:
            return earlier
        if self.gate is None:
            return self._record(agent, caller, live, message, options, key)
        check_follow_up(message, context_id=live.context_id, state=live.state)
        attempt = self.gate.attempt(agent, caller, message, live.task_id, live.context_id)
        lane = agent.lane(live.scope, live.context_id, live.task_id)
        refusal = partial(why_refused, agent.profile, agent.lanes, lane)
        most = agent.profile.max_queue_per_context
        async with self.gate.passing(attempt, lane, refusal, max_waiting=most) as passage:
            if isinstance(passage.decision, Refusal):
                raise passage.decision.as_error()
            await self.gate.commit(passage)
            earlier = await self._until_ready(live, key)
            if earlier is not None:
                return earlier
            admitted = self._record(agent, caller, live, message, options, key, passage)
            passage.is_used = True
            return admitted

    async def _until_ready(self, live: LiveTask, key: RequestKey | None) -> Admitted | None:
        """Wait until the task can take a message. Returns the outcome of an earlier request with
        the same key, if there was one."""
        if key is not None:
            earlier = await self.keys.recall(key)
            if earlier is not None and not isinstance(earlier, Unanswered):
                return admitted_before(earlier)
        if live.state in TERMINAL:
            # Clients see the end of a task only when it is committed.
            await self.journal.durable(live)
        if live.is_stuck or live.is_dropped:
            raise not_stored()
        return None

    def _record(
        self,
        agent: PublishedAgent,
        caller: Caller,
        live: LiveTask,
        message: Message,
        options: TurnOptions | None,
        key: RequestKey | None,
        passage: Passage | None = None,
    ) -> Admitted:
        agent = agent.current() if agent.is_closed else agent
        check_follow_up(message, context_id=live.context_id, state=live.state)
        lane = agent.lane(live.scope, live.context_id, live.task_id)
        refused = why_refused(agent.profile, agent.lanes, lane)
        if refused is not None:
            raise refused.as_error()
        message = message_of_task(message, live.task_id, live.context_id)
        now_ms = self.clock.now_ms()
        is_orphan = live.is_orphan
        # The turn of an orphan ended with its process, and no entry says so.
        left_off = is_orphan and live.state is TaskState.WORKING
        state = TABLE[live.state, Step.CONTINUE if left_off else Step.ACCEPT]
        update = TaskStatusUpdateEvent(
            task_id=live.task_id,
            context_id=live.context_id,
            status=TaskStatus(state=state, timestamp=format_timestamp(now_ms)),
        )
        # The journal has references in place of large texts; the agent gets the message whole.
        parts = self.journal.slim(live, message.parts)
        recorded = message if parts is message.parts else structs.replace(message, parts=parts)
        event = MessageAccepted(message=recorded, status_update=update, options=options)
        if key is not None:
            self.keys.keep(live, key)
        if caller.joins is not None:
            self.registry.join(live, caller.joins)
        left = runs_left([(agent, live)]) if is_orphan else []
        self.journal.record(live, event, state=state, status_ms=now_ms)
        pending = Pending(message, options, update.status.timestamp, live.seq)
        run = run_of(agent, pending, live, recorded=recorded)
        run.principal = caller.principal
        run.wire_id = caller.wire_id
        if passage is not None and isinstance(passage.decision, Admission):
            run.attempt, run.admission = passage.attempt, passage.decision
        # Messages that waited before the restart come first.
        for each in (*left, run):
            self.runs.enter(each)
        self.reservations.hold(run)
        has_begun = run.state is _BEGINNING
        begun_after = run.accepted_seq if has_begun else 0
        return Admitted(live=live, accepted_seq=run.accepted_seq, begun_after=begun_after)
