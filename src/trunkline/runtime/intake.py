"""`Intake`: accepts messages: new tasks, further messages, and repeated requests."""

import asyncio
from collections.abc import Iterable
from operator import itemgetter

import msgspec
from msgspec import Struct, structs

from trunkline.engine.admission import NO_CONTENT, check_follow_up, context_of
from trunkline.engine.queue_limits import (
    INTERRUPTED,
    QUEUE_FULL,
    why_refused,
)
from trunkline.engine.run_states import RunState
from trunkline.engine.task_fold import Pending
from trunkline.engine.transitions import TABLE, Step
from trunkline.model.calls import Caller, Refusal, SendMessageRequest
from trunkline.model.errors import (
    InvalidParams,
    PushNotificationNotSupported,
    TooManyRequests,
    Unavailable,
)
from trunkline.model.events import MessageAccepted, TurnOptions
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    TERMINAL,
    Message,
    Part,
    Role,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.store import Scope, Snapshot
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import NoReply, Reply, Subscription
from trunkline.runtime.idempotency import Earlier, IdempotencyKeys, RequestKey, Unanswered
from trunkline.runtime.journal import Journal, not_stored
from trunkline.runtime.live_task import LiveTask, message_of_task
from trunkline.runtime.new_tasks import NewTasks
from trunkline.runtime.registry import Registry
from trunkline.runtime.run import Run
from trunkline.runtime.runs import Runs

# The store keeps and indexes the ids of clients, so their length is limited. A UUID has 36
# characters.
MAX_ID_CHARS = 256
_encode = msgspec.json.Encoder().encode

# Constants, because Python 3.11 looks up enum members through the metaclass, which is slow.
_QUEUED = RunState.QUEUED
_BEGINNING = RunState.BEGINNING


class Admitted(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of accepting a message. Exactly one of reply, live, run and earlier is set."""

    # An answer that needed neither a task nor a run.
    reply: Reply | None = None
    # The task that the message created or continued.
    live: LiveTask | None = None
    # The run of the message, which may still answer without a task.
    run: Run | None = None
    # Whether an earlier request with the same key began the run.
    is_joined: bool = False
    # The task of an earlier request with the same key, if it is no longer in memory.
    earlier: Snapshot | None = None
    # The entry that accepted the message, if the next entry begins its turn; else 0.
    begun_after: int = 0


class Intake(Struct, kw_only=True, eq=False):
    keys: IdempotencyKeys
    registry: Registry
    journal: Journal
    runs: Runs
    new_tasks: NewTasks
    clock: Clock
    ids: Ids
    is_closed: bool = False

    async def admit(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SendMessageRequest,
        *,
        needs_task: bool,
        reader: Subscription | None = None,
    ) -> Admitted:
        """Accept the message or raise; nothing is recorded when it raises.

        `reader` follows a new task or run from its first event on.
        """
        if self.is_closed:
            raise Unavailable("The gateway is shutting down; try again", retry_after_s=5)
        _check_request(request)
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        message = agent.rules.admit(request.message)
        if message is None:
            return await self._answer_empty(scope, request.message)
        options: TurnOptions | None = None
        if request.configuration is not None or caller.extensions or request.metadata is not None:
            options = _options(caller, request)
        key: RequestKey | None = None
        if caller.idempotency_key or agent.profile.deduplicate_messages:
            key = RequestKey.of(scope, caller, request, message.task_id or self.ids.new())
            before = await self._before(agent, key, message, options, reader)
            if before is not None:
                return before
        if message.task_id:
            return await self._continue(agent, scope, message, options, key)
        # No await beyond this point: what was checked above still holds.
        agent = agent.current() if agent.is_closed else agent
        task_id = key.task_id if key is not None else self.ids.new()
        # A message without a context begins a new one, which has the id of the task.
        context_id = context_of(agent.profile, message) or task_id
        lane = agent.lane(scope, context_id, task_id)
        run = Run(
            run_id=f"{task_id}.1",
            task_id=task_id,
            agent=agent,
            lane=lane,
            context_id=context_id,
            message=message,
            options=options,
            key=key,
        )
        refused = why_refused(agent.profile, agent.lanes, lane)
        if refused is not None:
            return Admitted(live=self._refuse(run, refused, key, reader))
        style = agent.profile.agent_style
        may_reply_directly = style == "hybrid" or (
            style == "declared" and agent.backend.may_reply_directly
        )
        if may_reply_directly and not needs_task:
            waits = agent.lanes.is_taken(lane) or not agent.lanes.has_room
            # A caller that does not wait in the queue needs a task, to ask for the answer later.
            if not (waits and agent.profile.queued_send == "return"):
                run.expect_answer(asyncio.get_running_loop().create_future(), reader)
                if key is not None:
                    self.keys.enter(run, key)
                self.runs.enter(run)
                return Admitted(run=run)
        live = self.new_tasks.create(run, key)
        self.runs.enter(run)
        # The stream of a queued task begins with a snapshot, which shows its place in the queue.
        if reader is not None and run.state is not _QUEUED:
            live.subscribe(reader)
        return Admitted(live=live, begun_after=1 if run.state is _BEGINNING else 0)

    async def _before(
        self,
        agent: PublishedAgent,
        key: RequestKey,
        message: Message,
        options: TurnOptions | None,
        reader: Subscription | None,
    ) -> Admitted | None:
        """The outcome of an earlier request with the same key, if there was one. It is a failed
        task if the agent began and its answer was not stored."""
        earlier = await self.keys.recall(key)
        if earlier is None:
            return None
        if not isinstance(earlier, Unanswered):
            return _admitted_before(earlier)
        run = Run(
            run_id=f"{earlier.task_id}.1",
            task_id=earlier.task_id,
            agent=agent,
            lane=agent.lane(key.scope, earlier.context_id, earlier.task_id),
            context_id=earlier.context_id,
            message=message,
            options=options,
        )
        key = structs.replace(key, task_id=earlier.task_id, expected=earlier.version)
        return Admitted(live=self._refuse(run, INTERRUPTED, key, reader))

    async def _answer_empty(self, scope: Scope, message: Message) -> Admitted:
        """Answer that the message has no content, if it is otherwise acceptable."""
        context_id = message.context_id
        if message.task_id:
            live = await self.registry.load(scope, message.task_id)
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

    def requeue(self, tasks: Iterable[tuple[PublishedAgent, LiveTask]]) -> None:
        """Queue the runs that a restart left."""
        for run in self._left(tasks):
            self.runs.enter(run)

    def _left(self, tasks: Iterable[tuple[PublishedAgent, LiveTask]]) -> list[Run]:
        """The runs that a restart left: first the turns that their agents continue, then the
        messages that waited, in the order of their arrival."""
        runs: list[tuple[bool, str, Run]] = []
        for agent, live in tasks:
            fold = live.ahead()
            if agent.resumes and fold.under_way is not None:
                run = _run(agent, fold.under_way, live, is_resumed=True)
                runs.append((False, fold.under_way.since, run))
            runs += [(True, pending.since, _run(agent, pending, live)) for pending in fold.pending]
        # By message, because an older task may have a younger message.
        runs.sort(key=itemgetter(0, 1))
        return [run for _, _, run in runs]

    def _refuse(
        self,
        run: Run,
        refused: Refusal,
        key: RequestKey | None,
        reader: Subscription | None,
    ) -> LiveTask:
        profile = run.agent.profile
        if refused is QUEUE_FULL and profile.overflow == "error":
            raise TooManyRequests(refused.text, retry_after_s=refused.retry_after_s)
        live = self.new_tasks.create(run, key, refused)
        if reader is not None:
            live.subscribe(reader)
        return live

    async def _continue(
        self,
        agent: PublishedAgent,
        scope: Scope,
        message: Message,
        options: TurnOptions | None,
        key: RequestKey | None,
    ) -> Admitted:
        live = await self.registry.load(scope, message.task_id)
        # The task stays in memory while the message waits; otherwise it would be loaded twice.
        live.pending_senders += 1
        try:
            if key is not None:
                # Another request with the key may have come while the task was loaded.
                earlier = await self.keys.recall(key)
                if earlier is not None and not isinstance(earlier, Unanswered):
                    return _admitted_before(earlier)
            if live.state in TERMINAL:
                # Clients see the end of a task only when it is committed.
                await self.journal.durable(live)
            if live.is_stuck or live.is_dropped:
                raise not_stored()
            return self._follow_up(agent, live, message, options, key)
        finally:
            live.pending_senders -= 1
            self.registry.forget_if_idle(live)

    def _follow_up(
        self,
        agent: PublishedAgent,
        live: LiveTask,
        message: Message,
        options: TurnOptions | None,
        key: RequestKey | None,
    ) -> Admitted:
        agent = agent.current() if agent.is_closed else agent
        check_follow_up(message, context_id=live.context_id, state=live.state)
        lane = agent.lane(live.scope, live.context_id, live.task_id)
        refused = why_refused(agent.profile, agent.lanes, lane)
        if refused is not None:
            raise TooManyRequests(refused.text, retry_after_s=refused.retry_after_s)
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
        left = self._left([(agent, live)]) if is_orphan else []
        self.journal.record(live, event, state=state, status_ms=now_ms)
        pending = Pending(message, options, update.status.timestamp, live.seq)
        run = _run(agent, pending, live, recorded=recorded)
        # Messages that waited before the restart come first.
        for each in (*left, run):
            self.runs.enter(each)
        has_begun = run.state is _BEGINNING
        return Admitted(live=live, begun_after=run.accepted_seq if has_begun else 0)


def _run(
    agent: PublishedAgent,
    pending: Pending,
    live: LiveTask,
    *,
    is_resumed: bool = False,
    recorded: Message | None = None,
) -> Run:
    """A run for a message of a task that exists. Without `recorded`, the message came from the
    store."""
    return Run(
        run_id=pending.run_id(live.task_id),
        task_id=live.task_id,
        agent=agent,
        lane=agent.lane(live.scope, live.context_id, live.task_id),
        context_id=live.context_id,
        message=pending.message,
        recorded=recorded or pending.message,
        options=pending.options,
        live=live,
        accepted_seq=pending.seq,
        is_resumed=is_resumed,
    )


def _admitted_before(earlier: Earlier) -> Admitted:
    """The outcome of an earlier request with the same key."""
    match earlier:
        case LiveTask():
            return Admitted(live=earlier)
        case Snapshot():
            return Admitted(earlier=earlier)
        case Run():
            return Admitted(run=earlier, is_joined=True)
        case Reply():
            return Admitted(reply=earlier)
        case NoReply():
            raise earlier.error


def _check_request(request: SendMessageRequest) -> None:
    message = request.message
    longest = max(len(message.message_id), len(message.context_id), len(message.task_id))
    if longest > MAX_ID_CHARS:
        raise _too_long(message)
    configuration = request.configuration
    if configuration is not None and configuration.task_push_notification_config is not None:
        raise PushNotificationNotSupported(
            "Push notifications are not supported by this agent; "
            "leave out configuration.taskPushNotificationConfig"
        )


def _too_long(message: Message) -> InvalidParams:
    fields = {
        "messageId": message.message_id,
        "contextId": message.context_id,
        "taskId": message.task_id,
    }
    field = next(name for name, value in fields.items() if len(value) > MAX_ID_CHARS)
    return InvalidParams.at(
        f"message.{field}", f"must not be longer than {MAX_ID_CHARS} characters"
    )


def _options(caller: Caller, request: SendMessageRequest) -> TurnOptions | None:
    configuration = request.configuration
    modes = configuration.accepted_output_modes if configuration is not None else ()
    if not modes and not caller.extensions and request.metadata is None:
        return None
    return TurnOptions(
        accepted_output_modes=modes, extensions=caller.extensions, metadata=request.metadata
    )
