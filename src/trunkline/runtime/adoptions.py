"""`Adoptions`: takes tasks over that another gateway has begun, such as those from a mailbox.

The client has the task already, so its first journal entry is committed unchanged, and a message
that is refused for good is a task that says so. What may pass is `Unavailable`: nothing is
committed, and the other gateway tries again.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from msgspec import Struct, structs

from trunkline.engine.admission import NO_CONTENT, check_request, context_of
from trunkline.engine.queue_limits import INTERRUPTED, QUEUE_FULL, why_refused
from trunkline.model.calls import Caller, Operation, Refusal, SendMessageRequest
from trunkline.model.errors import (
    CallerError,
    Conflict,
    ContentTypeNotSupported,
    IdempotencyConflict,
    InvalidParams,
    PermissionDenied,
    RouteNotFound,
    StoreError,
    TooManyRequests,
    Unavailable,
)
from trunkline.model.values import Message
from trunkline.ports.store import Scope, Store
from trunkline.runtime.admitted import shutting_down
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.forwarding import Adopting, Forwarding
from trunkline.runtime.given_tasks import FirstEntry, GivenTask
from trunkline.runtime.idempotency import IdempotencyKeys, RequestKey, Unanswered
from trunkline.runtime.intake import Intake
from trunkline.runtime.journal import Journal, not_stored
from trunkline.runtime.live_task import LOCAL, Lease, LiveTask
from trunkline.runtime.new_tasks import NewTasks
from trunkline.runtime.ownership import name_of
from trunkline.runtime.registry import Registry
from trunkline.runtime.reservations import Reservations
from trunkline.runtime.run import Run
from trunkline.runtime.runs import Runs
from trunkline.runtime.store_waits import StoreWaits
from trunkline.runtime.turn_gate import TurnGate

# Reasons of refusals that pass with time. A budget does so at the end of its day: too late for a
# message that waited already.
_PASSES: Final = frozenset({"rate_limited", QUEUE_FULL.reason})
_REASONS: Final[Mapping[type[CallerError], str]] = {
    PermissionDenied: "permission_denied",
    ContentTypeNotSupported: "content_type_not_supported",
    IdempotencyConflict: "idempotency_conflict",
}
_REPEATED: Final = Refusal(
    "repeated",
    "A request with this idempotency key, or with this messageId, came before and was accepted. "
    "It was not run again.",
    retry_after_s=0,
)


class Adoptions(Struct, frozen=True, kw_only=True, eq=False):
    store: Store
    keys: IdempotencyKeys
    registry: Registry
    journal: Journal
    runs: Runs
    new_tasks: NewTasks
    reservations: Reservations
    intake: Intake
    gate: TurnGate | None = None
    # Where several nodes share the store.
    forwarding: Forwarding | None = None
    waits: StoreWaits | None = None

    async def adopt(self, agent: PublishedAgent, caller: Caller, given: GivenTask) -> None:
        """Return when the first entry of the task is committed, now or before.

        Raises Unavailable if nothing is committed and a later attempt may succeed, and Conflict
        where the id is that of a task of another caller.
        """
        try:
            if self.forwarding is None:
                await self.take(agent, caller, given, LOCAL)
                return
            with nullcontext() if self.waits is None else self.waits.request():
                await self._place(self.forwarding, agent, caller, given)
        except StoreError:
            raise not_stored() from None

    async def _place(
        self, forwarding: Forwarding, agent: PublishedAgent, caller: Caller, given: GivenTask
    ) -> None:
        """Take the task here if this node owns its lane or can, and at its owner if not."""
        ownership = forwarding.ownership
        lane = agent.owned_lane(_lane(agent, caller, given))
        lease = await ownership.own(lane)
        if lease is None:
            adopting = Adopting(self.intake.ids.new(), agent.handle, caller, given)
            await forwarding.ask(lane, adopting)
            return
        lease.users += 1
        try:
            if agent.lanes.slots is not None:
                await ownership.slots.wait_for_room(agent, lane)
            await self.take(agent, caller, given, lease)
        finally:
            lease.users -= 1

    async def take(
        self, agent: PublishedAgent, caller: Caller, given: GivenTask, lease: Lease
    ) -> None:
        """The same, at the node that owns the lane of the task."""
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        if await self._is_known(scope, given.task_id):
            return
        live = await self._made(agent, caller, given, lease)
        try:
            await self.journal.durable(live)
        except Unavailable:
            # Another attempt may have been faster.
            if not await self._is_known(scope, given.task_id):
                raise

    async def _is_known(self, scope: Scope, task_id: str) -> bool:
        """Whether the caller has the task, committed. Raises Conflict where another one has it."""
        live = self.registry.in_memory(task_id)
        if live is not None:
            await self.journal.durable(_own(live, scope))
            return True
        if await self.store.get(scope, task_id) is not None:
            return True
        if not await self.store.entries(task_id, after=0, limit=1):
            return False
        if await self.store.get(scope, task_id) is None:
            raise _of_another()
        # It was committed between the two reads.
        return True

    async def _made(
        self, agent: PublishedAgent, caller: Caller, given: GivenTask, lease: Lease
    ) -> LiveTask:
        """The task, recorded."""
        if self.intake.is_closed:
            raise shutting_down()
        run, refused = self._run(agent, caller, given, lease)
        refused = await self._why_repeated(run) or refused
        if refused is not None:
            return self._record(run, refused)
        _check_room(run)
        if self.gate is None:
            return self._record(run)
        try:
            return await self._made_at(self.gate, run, caller)
        except TooManyRequests as error:
            raise Unavailable(error.message, retry_after_s=error.retry_after_s) from None
        except CallerError as error:
            return self._record(run, _refusal(error))

    def _run(
        self, agent: PublishedAgent, caller: Caller, given: GivenTask, lease: Lease
    ) -> tuple[Run, Refusal | None]:
        """The run of the message, and why the message is refused for good."""
        agent = _current(agent)
        first = FirstEntry.of(given)
        message, refused = self._admitted(agent, caller, given, first.message)
        key: RequestKey | None = None
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        if caller.idempotency_key or agent.profile.deduplicate_messages:
            key = RequestKey.of_given(
                scope, caller, message.message_id, given.digest, given.task_id
            )
        run = Run(
            run_id=f"{given.task_id}.1",
            task_id=given.task_id,
            agent=agent,
            lane=_lane(agent, caller, given),
            context_id=given.context_id,
            message=message,
            options=first.options,
            key=key,
            lease=lease,
            principal=caller.principal,
            given=first,
        )
        return run, refused

    def _admitted(
        self, agent: PublishedAgent, caller: Caller, given: GivenTask, message: Message
    ) -> tuple[Message, Refusal | None]:
        """The message as the agent gets it, or why it is refused for good."""
        plain = _as_sent(message, given)
        try:
            if caller.operation:
                operation = Operation(caller.operation)
                self.intake.check_allowed(agent, caller, plain, operation)
            check_request(SendMessageRequest(message=message))
            _check_ids(message, given)
            context_of(agent.profile, plain)
            admitted = agent.rules.admit(plain)
        except CallerError as error:
            return plain, _refusal(error)
        if admitted is None:
            return plain, Refusal("no_content", NO_CONTENT, retry_after_s=0)
        return admitted, None

    async def _why_repeated(self, run: Run) -> Refusal | None:
        """The refusal of a message whose key came before, with another task or none."""
        key = run.key
        if key is None:
            return None
        try:
            earlier = await self.keys.recall(key)
        except CallerError as error:
            run.key = None
            return _refusal(error)
        if earlier is None or (isinstance(earlier, LiveTask) and earlier.task_id == run.task_id):
            return None
        if isinstance(earlier, Unanswered):
            lane = run.agent.lane(key.scope, earlier.context_id, earlier.task_id)
            if run.lease.lane and run.lease.lane != name_of(run.agent.owned_lane(lane)):
                # Another node has just begun with the request, and its agent works.
                raise not_stored()
            run.key = structs.replace(key, expected=earlier.version)
            return INTERRUPTED
        if isinstance(earlier, LiveTask):
            # The store may still refuse it.
            await self.journal.durable(earlier)
        run.key = None
        return await self._repeated(key)

    async def _repeated(self, key: RequestKey) -> Refusal:
        """The refusal of a repeat; its caller should read the task of the first one."""
        first = await self.keys.first_task(key)
        text = f"{_REPEATED.text} Its task is {first}." if first else _REPEATED.text
        return structs.replace(_REPEATED, text=text)

    async def _made_at(self, gate: TurnGate, run: Run, caller: Caller) -> LiveTask:
        """Take the message through the gate. What may have changed while it waited is checked
        again."""
        attempt = gate.attempt(run.agent, caller, run.message, run.task_id, run.context_id)
        most = run.agent.profile.max_queue_per_context
        async with gate.passing(attempt, run.lane, lambda: None, max_waiting=most) as passage:
            decision = passage.decision
            if isinstance(decision, Refusal):
                if decision.reason in _PASSES:
                    raise _later(decision)
                return self._record(run, decision)
            refused = await self._why_repeated(run)
            if refused is not None:
                return self._record(run, refused)
            run.agent = _current(run.agent)
            run.attempt, run.admission = attempt, decision
            live = self._record(run)
            passage.is_used = live is run.live
            return live

    def _record(self, run: Run, refused: Refusal | None = None) -> LiveTask:
        """Record the task, and queue its run. There is no await in here, so what was checked before
        still holds."""
        if self.intake.is_closed:
            raise shutting_down()
        if run.lease.is_lost:
            raise Unavailable("The gateway lost touch with its store; try again", retry_after_s=1)
        live = self.registry.in_memory(run.task_id)
        if live is not None:
            # Another attempt was faster.
            return _own(live, run.lane.scope)
        if refused is not None:
            return self.new_tasks.create(run, run.key, refused)
        _check_room(run)
        live = self.new_tasks.create(run, run.key)
        self.runs.enter(run)
        if self.gate is not None:
            self.reservations.hold(run)
        return live


def _lane(agent: PublishedAgent, caller: Caller, given: GivenTask) -> Lane:
    scope = Scope(agent.handle, caller.tenant, caller.principal.id)
    return agent.lane(scope, given.context_id, given.task_id)


def _as_sent(message: Message, given: GivenTask) -> Message:
    """The message without the ids that the other gateway has given it."""
    has_context = message.context_id != given.task_id
    return structs.replace(
        message, task_id="", context_id=message.context_id if has_context else ""
    )


def _check_ids(message: Message, given: GivenTask) -> None:
    if message.task_id not in ("", given.task_id):
        raise InvalidParams.at("message.taskId", "names another task than the one that waited")
    if message.context_id not in ("", given.context_id):
        raise InvalidParams.at("message.contextId", "is not the context of the task")


def _current(agent: PublishedAgent) -> PublishedAgent:
    try:
        return agent.current()
    except RouteNotFound:
        raise Unavailable("The agent was withdrawn; try again later", retry_after_s=60) from None


def _check_room(run: Run) -> None:
    refused = why_refused(run.agent.profile, run.agent.lanes, run.lane)
    if refused is not None:
        raise _later(refused)


def _later(refused: Refusal) -> Unavailable:
    return Unavailable(refused.text, retry_after_s=refused.retry_after_s)


def _refusal(error: CallerError) -> Refusal:
    reason = _REASONS.get(type(error), "invalid_params")
    return Refusal(reason, error.message, retry_after_s=0)


def _own(live: LiveTask, scope: Scope) -> LiveTask:
    """Raises Conflict for a task of another caller."""
    if live.scope != scope:
        raise _of_another()
    return live


def _of_another() -> Conflict:
    return Conflict("The id is that of a task of another caller")
