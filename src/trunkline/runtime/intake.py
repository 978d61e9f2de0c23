"""`Intake`: accepts messages. Those to tasks that exist go on to `FollowUps`."""

import asyncio

import msgspec
from msgspec import Struct, structs

from trunkline.engine import call_chain
from trunkline.engine.access import why_denied
from trunkline.engine.admission import NO_CONTENT, check_follow_up, check_request, context_of
from trunkline.engine.queue_limits import BUSY, BUSY_ELSEWHERE, INTERRUPTED, why_refused
from trunkline.engine.run_states import RunState
from trunkline.model.calls import Caller, Operation, Refusal, SendMessageRequest
from trunkline.model.errors import Case, PermissionDenied, Unavailable
from trunkline.model.events import TurnOptions
from trunkline.model.values import (
    TERMINAL,
    Message,
    Part,
    Role,
)
from trunkline.ports.clock import Ids
from trunkline.ports.gate import Admission, Attempt
from trunkline.ports.store import Scope
from trunkline.runtime.admitted import Admitted, Placed, admitted_before, shutting_down
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import Reply, Subscription
from trunkline.runtime.follow_ups import FollowUps
from trunkline.runtime.forwarding import Forwarding, Outcome, Sent
from trunkline.runtime.idempotency import IdempotencyKeys, RequestKey, Unanswered
from trunkline.runtime.journal import Journal, not_stored
from trunkline.runtime.live_task import LOCAL, Lease, LiveTask
from trunkline.runtime.new_tasks import NewTasks
from trunkline.runtime.ownership import name_of
from trunkline.runtime.registry import Registry
from trunkline.runtime.reservations import Reservations
from trunkline.runtime.run import Run
from trunkline.runtime.runs import Runs
from trunkline.runtime.store_waits import StoreWaits
from trunkline.runtime.turn_gate import Passage, TurnGate

_encode = msgspec.json.Encoder().encode

# Constants, because Python 3.11 looks up enum members through the metaclass, which is slow.
_QUEUED = RunState.QUEUED
_BEGINNING = RunState.BEGINNING
# These make a task, whatever the profile says about a full queue.
_MAKES_TASK = (BUSY, BUSY_ELSEWHERE, INTERRUPTED)


class Intake(Struct, kw_only=True, eq=False):
    keys: IdempotencyKeys
    registry: Registry
    journal: Journal
    runs: Runs
    new_tasks: NewTasks
    follow_ups: FollowUps
    reservations: Reservations
    ids: Ids
    # None lets every message through.
    gate: TurnGate | None = None
    # Where several nodes share the store.
    forwarding: Forwarding | None = None
    waits: StoreWaits | None = None
    is_closed: bool = False

    def close(self) -> None:
        """Accept no more messages."""
        self.is_closed = True
        if self.gate is not None:
            self.gate.is_closed = True

    def check_allowed(
        self, agent: PublishedAgent, caller: Caller, message: Message, operation: Operation
    ) -> None:
        """Raises PermissionDenied for a caller that may not start turns by this operation, and for
        a call that went in a circle or through too many agents."""
        denied = why_denied(caller.principal, agent.handle, operation, is_open=agent.is_open)
        denied = denied or call_chain.why_refused(caller.call_chain, agent.mark)
        if denied is None:
            return
        if self.gate is not None:
            self.gate.record(self.gate.attempt(agent, caller, message), denied)
        raise PermissionDenied(denied.text, case=Case.NOT_GRANTED)

    async def admit(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SendMessageRequest,
        *,
        needs_task: bool,
        reader: Subscription | None = None,
        placed: Placed | None = None,
    ) -> Admitted:
        """Accept the message or raise; nothing is recorded when it raises.

        `reader` follows a new task or run from its first event on. `placed` says that this node
        owns the lane of the message, where several nodes share the store.
        """
        if self.is_closed:
            raise shutting_down()
        check_request(request)
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        message = agent.rules.admit(request.message)
        if message is None:
            return await self._answer_empty(scope, request.message)
        if self.forwarding is not None and placed is None:
            return await self._place(agent, caller, request, message, needs_task, reader)
        options: TurnOptions | None = None
        if (
            request.configuration is not None
            or caller.extensions
            or request.metadata is not None
            or caller.call_chain
            or caller.call is not None
        ):
            options = turn_options(caller, request)
        key: RequestKey | None = None
        if (
            caller.idempotency_key
            or agent.profile.deduplicate_messages
            or (placed is not None and placed.key)
        ):
            key = self._key_of(agent, scope, caller, request, placed)
        if key is not None:
            lease = LOCAL if placed is None else placed.lease
            before = await self._before(agent, key, message, options, reader, lease)
            if before is not None:
                return before
        if message.task_id:
            return await self.follow_ups.accept(agent, caller, scope, message, options, key)
        agent = agent.current() if agent.is_closed else agent
        if key is not None:
            task_id = key.task_id
        else:
            task_id = (
                agent.profile.task_id_prefix + self.ids.new() if placed is None else placed.task_id
            )
        # A message without a context begins a new one, which has the id of the task.
        context_id = message.context_id or task_id
        if agent.profile.context_mode == "stateless":
            context_id = context_of(agent.profile, message)
        run = Run(
            run_id=f"{task_id}.1",
            task_id=task_id,
            agent=agent,
            lane=agent.lane(scope, context_id, task_id),
            context_id=context_id,
            message=message,
            options=options,
            key=key,
            lease=LOCAL if placed is None else placed.lease,
            principal=caller.principal,
            joins=caller.joins,
            wire_id=caller.wire_id,
        )
        if self.gate is None:
            return self._begin(run, reader, needs_task=needs_task)
        attempt = self.gate.attempt(agent, caller, message, task_id, context_id)
        return await self._begin_gated(self.gate, run, attempt, reader, needs_task=needs_task)

    async def _begin_gated(
        self,
        gate: TurnGate,
        run: Run,
        attempt: Attempt,
        reader: Subscription | None,
        *,
        needs_task: bool,
    ) -> Admitted:
        """Take a message that begins a task through the gate. What may have changed while it waited
        is checked again."""

        def refusal() -> Refusal | None:
            return why_refused(run.agent.profile, run.agent.lanes, run.lane)

        if run.key is None:
            passage = gate.pass_at_once(attempt, run.lane, refusal)
            if passage is not None:
                try:
                    return self._begin_passed(run, passage, passage.decision, reader, needs_task)
                finally:
                    gate.leave(passage)
        most = run.agent.profile.max_queue_per_context
        async with gate.passing(attempt, run.lane, refusal, max_waiting=most) as passage:
            if run.key is not None:
                before = await self._before(
                    run.agent, run.key, run.message, run.options, reader, run.lease
                )
                if before is not None:
                    return before
            if run.agent.is_closed:
                run.agent = run.agent.current()
                run.lane = run.agent.lane(run.lane.scope, run.context_id, run.task_id)
            decision = passage.decision
            if isinstance(decision, Admission):
                decision = refusal() or decision
            return self._begin_passed(run, passage, decision, reader, needs_task)

    def _begin_passed(
        self,
        run: Run,
        passage: Passage,
        decision: Admission | Refusal,
        reader: Subscription | None,
        needs_task: bool,
    ) -> Admitted:
        if isinstance(decision, Refusal):
            return Admitted(live=self._refuse(run, decision, run.key, reader))
        run.attempt, run.admission = passage.attempt, decision
        admitted = self._begin(run, reader, needs_task=needs_task or bool(decision.also))
        passage.is_used = True
        return admitted

    def _begin(self, run: Run, reader: Subscription | None, *, needs_task: bool) -> Admitted:
        """Queue the run of a message that begins a task, or may. There is no await in here, so what
        was checked before still holds."""
        if run.lease.is_lost:
            raise Unavailable("The gateway lost touch with its store; try again", retry_after_s=1)
        agent, lane, key = run.agent, run.lane, run.key
        refused = why_refused(agent.profile, agent.lanes, lane)
        if refused is not None:
            return Admitted(live=self._refuse(run, refused, key, reader))
        style = agent.profile.agent_style
        may_reply_directly = style == "hybrid" or (
            style == "declared" and agent.backend.may_reply_directly
        )
        if may_reply_directly and not needs_task:
            waits = agent.lanes.is_taken(lane) or not agent.lanes.starts_at_once(lane)
            # A caller that does not wait in the queue needs a task, to ask for the answer later.
            if not (waits and agent.profile.queued_send == "return"):
                run.expect_answer(asyncio.get_running_loop().create_future(), reader)
                if key is not None:
                    self.keys.enter(run, key)
                self.runs.enter(run)
                return Admitted(run=run)
        live = self.new_tasks.create(run, key)
        self.runs.enter(run)
        if self.gate is not None:
            self.reservations.hold(run)
        # The stream of a queued task begins with a snapshot, which shows its place in the queue.
        if reader is not None and run.state is not _QUEUED:
            live.subscribe(reader)
        begun_after = 1 if run.state is _BEGINNING else 0
        return Admitted(live=live, accepted_seq=1, begun_after=begun_after)

    def _key_of(
        self,
        agent: PublishedAgent,
        scope: Scope,
        caller: Caller,
        request: SendMessageRequest,
        placed: Placed | None,
    ) -> RequestKey:
        task_id = request.message.task_id
        if placed is None:
            return RequestKey.of(
                scope, caller, request, task_id or agent.profile.task_id_prefix + self.ids.new()
            )
        given = "" if agent.profile.deduplicate_messages else placed.key
        return RequestKey.of(scope, caller, request, task_id or placed.task_id, given)

    async def _place(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SendMessageRequest,
        message: Message,
        needs_task: bool,
        reader: Subscription | None,
    ) -> Admitted:
        """Accept the message here if this node owns its lane or can, and at its owner if not."""
        assert self.forwarding is not None
        ownership = self.forwarding.ownership
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        is_fresh = False
        if message.task_id:
            task_id = message.task_id
            live = await self.registry.follow(scope, task_id)
            lane = ownership.lane_of(live)
            self.registry.forget_if_idle(live)
        else:
            has_key = bool(caller.idempotency_key) or agent.profile.deduplicate_messages
            task_id = ""
            if has_key:
                # A repeat goes where the first request with the key went.
                task_id = await self.keys.first_task(RequestKey.of(scope, caller, request, ""))
            task_id = task_id or agent.profile.task_id_prefix + self.ids.new()
            lane = agent.lane(scope, context_of(agent.profile, message) or task_id, task_id)
            # No other node can know a lane that has the name of the new task. By a key it may.
            is_fresh = lane.name == task_id and not has_key and not agent.profile.driver_claim
        lane = agent.owned_lane(lane)
        lease = await (ownership.fresh(lane) if is_fresh else ownership.own(lane))
        if lease is None:
            sent = Sent(self.ids.new(), agent.handle, caller, request, task_id, needs_task)
            return await self._accepted_elsewhere(scope, await self.forwarding.ask(lane, sent))
        lease.users += 1
        try:
            if agent.lanes.slots is not None:
                await ownership.slots.wait_for_room(agent, lane)
            admitted = await self.admit(
                agent,
                caller,
                request,
                needs_task=needs_task,
                reader=reader,
                placed=Placed(lease, task_id),
            )
            if self.waits is not None:
                self.waits.accepted(admitted)
            return admitted
        finally:
            lease.users -= 1

    async def _accepted_elsewhere(self, scope: Scope, outcome: Outcome) -> Admitted:
        if outcome.reply:
            return Admitted(reply=Reply(outcome.reply.encode()))
        live = await self.registry.follow(scope, outcome.task_id)
        return Admitted(
            live=live,
            accepted_seq=outcome.seq,
            is_forwarded=True,
            is_queued=outcome.is_queued,
        )

    async def _before(
        self,
        agent: PublishedAgent,
        key: RequestKey,
        message: Message,
        options: TurnOptions | None,
        reader: Subscription | None,
        lease: Lease,
    ) -> Admitted | None:
        """The outcome of an earlier request with the same key, if there was one. It is a failed
        task if the agent began and its answer was not stored."""
        earlier = await self.keys.recall(key)
        if earlier is None:
            return None
        if not isinstance(earlier, Unanswered):
            return admitted_before(earlier)
        lane = agent.lane(key.scope, earlier.context_id, earlier.task_id)
        if lease.lane and lease.lane != name_of(agent.owned_lane(lane)):
            # Another node has just begun with the request, and its agent works.
            raise not_stored()
        run = Run(
            run_id=f"{earlier.task_id}.1",
            task_id=earlier.task_id,
            agent=agent,
            lane=lane,
            context_id=earlier.context_id,
            message=message,
            options=options,
            lease=lease,
        )
        key = structs.replace(key, task_id=earlier.task_id, expected=earlier.version)
        return Admitted(live=self._refuse(run, INTERRUPTED, key, reader))

    async def _answer_empty(self, scope: Scope, message: Message) -> Admitted:
        """Answer that the message has no content, if it is otherwise acceptable."""
        context_id = message.context_id
        if message.task_id:
            live = await self.registry.follow(scope, message.task_id)
            context_id = live.context_id
            try:
                if live.state in TERMINAL:
                    # Clients see the end of a task only when it is committed.
                    await self.journal.durable(live)
                check_follow_up(message, context_id=context_id, state=live.state)
            finally:
                self.registry.forget_if_idle(live)
        said = Message(
            message_id=self.ids.new(),
            context_id=context_id or self.ids.new(),
            role=Role.AGENT,
            parts=(Part(text=NO_CONTENT),),
        )
        return Admitted(reply=Reply(_encode(said)))

    def _refuse(
        self,
        run: Run,
        refused: Refusal,
        key: RequestKey | None,
        reader: Subscription | None,
    ) -> LiveTask:
        profile = run.agent.profile
        if profile.overflow == "error" and refused not in _MAKES_TASK:
            raise refused.as_error()
        live = self.new_tasks.create(run, key, refused)
        if reader is not None:
            live.subscribe(reader)
        return live


def turn_options(caller: Caller, request: SendMessageRequest) -> TurnOptions | None:
    """None for a request without any."""
    configuration = request.configuration
    modes = configuration.accepted_output_modes if configuration is not None else ()
    is_plain = not (modes or caller.extensions or caller.call_chain) and caller.call is None
    if is_plain and request.metadata is None:
        return None
    return TurnOptions(
        accepted_output_modes=modes,
        extensions=caller.extensions,
        metadata=request.metadata,
        call_chain=caller.call_chain,
        call=caller.call,
    )
