"""`Service`: one method per operation of the protocol. Each checks the grants of its caller first,
so that no way into the gateway can forget it."""

import asyncio

from msgspec import Struct

from trunkline.engine.access import check_granted
from trunkline.engine.history_scope import OPT
from trunkline.engine.transitions import Step
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import (
    InvalidParams,
    MethodNotFound,
    TaskNotCancelable,
    TrunklineError,
    UnsupportedOperation,
)
from trunkline.model.principal import EVERYTHING
from trunkline.model.profile import Profile
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import SETTLED, TERMINAL, TaskState
from trunkline.ports.store import Scope, Snapshot, Store, StoredTask, TaskQuery
from trunkline.runtime.admitted import Admitted
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.blocking_send import BlockingSends
from trunkline.runtime.fanout import NoReply, Reply, Subscription
from trunkline.runtime.forwarding import Forwarding
from trunkline.runtime.history_scopes import with_wide_history
from trunkline.runtime.intake import Intake
from trunkline.runtime.journal import Journal
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.registry import Registry, snapshot_of
from trunkline.runtime.runs import Runs
from trunkline.runtime.stream_readers import StreamReaders, as_accepted
from trunkline.runtime.task_json import listed_json, page_position, page_token, task_json

DEFAULT_PAGE_SIZE = 50

# A stream that a message opened ends when the agent has no more to say for now; one that follows a
# task continues until the task ends.
CLOSES_SEND = TERMINAL | {TaskState.INPUT_REQUIRED}
CLOSES_SUBSCRIBE = TERMINAL
CLOSES_ON_PAUSE = SETTLED

NOT_LIVE = "Task cancellation is only available while the task is live in this process."


class TaskAnswer(Struct, frozen=True, gc=False):
    task: bytes


def _check(caller: Caller, agent: PublishedAgent, operation: Operation) -> None:
    check_granted(caller.principal, agent.handle, operation, is_open=agent.is_open)


class ListAnswer(Struct, frozen=True):
    tasks: tuple[bytes, ...]
    next_page_token: str
    page_size: int
    total_size: int


class Service(Struct, frozen=True, kw_only=True, eq=False):
    store: Store
    registry: Registry
    journal: Journal
    runs: Runs
    intake: Intake
    blocking_sends: BlockingSends
    large_values: LargeValues
    readers: StreamReaders
    # Where several nodes share the store.
    forwarding: Forwarding | None = None

    async def send(
        self, agent: PublishedAgent, caller: Caller, request: SendMessageRequest
    ) -> TaskAnswer | Reply:
        """Answer when the task has ended or waits for the caller, or, if asked to return
        immediately, as soon as it exists."""
        if caller.principal.grants is not EVERYTHING or caller.call_chain:
            self.intake.check_allowed(agent, caller, request.message, Operation.SEND_MESSAGE)
        configuration = request.configuration
        returns_immediately = configuration is not None and configuration.return_immediately
        history_length = configuration.history_length if configuration is not None else None
        admitted = await self.intake.admit(agent, caller, request, needs_task=returns_immediately)
        if admitted.earlier is not None:
            return TaskAnswer(task_json(admitted.earlier, history_length))
        if admitted.reply is not None:
            return admitted.reply
        live = admitted.live
        if returns_immediately:
            assert live is not None
            accepted = await self._as_submitted(admitted, live)
            if accepted is not None:
                return TaskAnswer(task_json(accepted, history_length))
        else:
            outcome: Reply | NoReply | LiveTask | None = live
            if agent.bounds_waits:
                outcome = await self.blocking_sends.wait(
                    agent, live, admitted.run, is_queued=admitted.is_queued
                )
            elif admitted.run is not None:
                assert admitted.run.answer is not None
                # Shielded, because repeats of the request may wait for the same answer.
                outcome = await asyncio.shield(admitted.run.answer)
            if isinstance(outcome, Reply | NoReply):
                return _reply(outcome)
            live = outcome
            assert live is not None
            if not agent.bounds_waits:
                await self.journal.settled(live)
        # Most tasks have ended, or run, and so have no place in the queue.
        position = live.position if live.waiting else None
        view = live.view()
        if live.lease is None:
            self.registry.forget_if_idle(live)
        if OPT in caller.extensions:
            view = await with_wide_history(self.store, live.scope, view)
        return TaskAnswer(task_json(view, history_length, position))

    async def _as_submitted(self, admitted: Admitted, live: LiveTask) -> Snapshot | None:
        """The task as it was when the message was accepted, for a turn that has begun since; None
        for the task as it is. Committed when this returns."""
        if admitted.is_forwarded:
            self.registry.forget_if_idle(live)
            return await as_accepted(self.store, live, admitted.accepted_seq)
        accepted = live.ahead(admitted.begun_after).snapshot() if admitted.begun_after else None
        await self.journal.durable(live)
        return None if live.is_refused else accepted

    async def stream(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SendMessageRequest,
        *,
        is_whole: bool = False,
    ) -> Subscription:
        """With `is_whole`, the stream has the whole task at its start and at its end."""
        if caller.principal.grants is not EVERYTHING or caller.call_chain:
            self.intake.check_allowed(
                agent, caller, request.message, Operation.SEND_STREAMING_MESSAGE
            )
        configuration = request.configuration
        history_length = configuration.history_length if configuration is not None else None
        closes_on = CLOSES_ON_PAUSE if agent.profile.subscribe_pause == "close" else CLOSES_SEND
        reader = self.readers.open(agent, closes_on, is_whole=is_whole)
        # A reader from the start gets the entries of the journal, and the first one holds one
        # message. A reader that wants no history, or joins later, gets a snapshot.
        from_start = reader if history_length != 0 else None
        try:
            admitted = await self.intake.admit(
                agent, caller, request, needs_task=history_length == 0, reader=from_start
            )
            if admitted.is_forwarded and admitted.accepted_seq:
                await self.readers.attach_forwarded(reader, admitted, history_length)
            else:
                self.readers.attach(reader, admitted, history_length)
        except BaseException:
            reader.close()
            raise
        return reader

    async def get(self, agent: PublishedAgent, caller: Caller, request: GetTaskRequest) -> bytes:
        if caller.principal.grants is not EVERYTHING:
            _check(caller, agent, Operation.GET_TASK)
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        history_length = request.history_length
        if history_length is None and agent.profile.history_default == "none":
            history_length = 0
        live = self.registry.live(scope, request.id)
        # A task that this node follows may be older than the answers of the node that writes to it.
        if live is not None and live.lease is not None:
            view = live.view()
        else:
            view = await self.registry.stored_view(scope, request.id)
        if OPT in caller.extensions:
            view = await with_wide_history(self.store, scope, view)
        return task_json(view, history_length, None if live is None else live.position)

    async def list(
        self, agent: PublishedAgent, caller: Caller, request: ListTasksRequest
    ) -> ListAnswer:
        if caller.principal.grants is not EVERYTHING:
            check_granted(
                caller.principal, agent.handle, Operation.LIST_TASKS, is_open=agent.is_open
            )
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        query = TaskQuery(
            scope=scope,
            context_id=request.context_id,
            state=None if request.status is TaskState.UNSPECIFIED else request.status,
            status_from_ms=status_from_ms(request.status_timestamp_after),
            limit=request.page_size or DEFAULT_PAGE_SIZE,
            after=page_position(request),
            with_artifacts=request.include_artifacts,
        )
        page = await self.store.list(query)
        tasks = tuple(
            listed_json(
                snapshot_of(stored),
                history_length=request.history_length,
                include_artifacts=request.include_artifacts,
                position=self._position(stored),
            )
            for stored in page.tasks
        )
        return ListAnswer(tasks, page_token(page.next, request), query.limit, page.total)

    def _position(self, stored: StoredTask) -> int | None:
        if stored.state is not TaskState.SUBMITTED:
            return None
        live = self.registry.live(stored.scope, stored.task_id)
        return None if live is None else live.position

    async def cancel(
        self, agent: PublishedAgent, caller: Caller, request: CancelTaskRequest
    ) -> bytes:
        if caller.principal.grants is not EVERYTHING:
            check_granted(
                caller.principal, agent.handle, Operation.CANCEL_TASK, is_open=agent.is_open
            )
        profile = agent.profile
        if profile.cancel == "unsupported":
            raise _cannot_cancel(profile)
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        if self.forwarding is not None:
            live = await self.registry.follow(scope, request.id)
            try:
                if await self.forwarding.cancel(agent.handle, caller, live):
                    return task_json(live.view())
            finally:
                self.registry.forget_if_idle(live)
        live = await self.registry.load(scope, request.id)
        try:
            if live.is_orphan and "leave_orphaned" in profile.on_restart:
                raise UnsupportedOperation(NOT_LIVE, metadata={"taskId": request.id})
            is_over = live.state in TERMINAL
            if not is_over:
                await self.runs.stop(agent, live, Step.CANCEL, agent.style.texts.cancel)
            # Clients see the end of a task only when it is committed.
            await self.journal.durable(live)
            if is_over and profile.cancel_terminal == "passthrough":
                return task_json(live.view())
            if is_over or live.committed_state is not TaskState.CANCELED:
                raise TaskNotCancelable(
                    f"Task {request.id} has already ended ({live.committed_state})",
                    metadata={"taskId": request.id, "state": live.committed_state.value},
                )
            return task_json(live.view())
        finally:
            self.registry.forget_if_idle(live)

    async def subscribe(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SubscribeToTaskRequest,
        *,
        last_seq: int | None = None,
        closes_on_input_required: bool = False,
        is_whole: bool = False,
    ) -> Subscription:
        """Follow a task: its snapshot and all further entries, or only the entries after
        `last_seq`."""
        if caller.principal.grants is not EVERYTHING:
            check_granted(
                caller.principal, agent.handle, Operation.SUBSCRIBE_TO_TASK, is_open=agent.is_open
            )
        profile = agent.profile
        if not profile.stream_replay:
            last_seq = None
        scope = Scope(agent.handle, caller.tenant, caller.principal.id)
        live = await self.registry.follow(scope, request.id)
        seen_all = last_seq is None or last_seq == live.committed_seq
        if live.committed_state in TERMINAL and seen_all and profile.subscribe_ended == "error":
            self.registry.forget_if_idle(live)
            raise UnsupportedOperation(
                f"Task {request.id} has ended ({live.committed_state}); read it with GetTask",
                metadata={"taskId": request.id, "state": live.committed_state.value},
            )
        closes_on = _closes_on(profile, closes_on_input_required)
        reader = self.readers.open(agent, closes_on, is_whole=is_whole)
        await self.readers.follow(reader, live, last_seq)
        return reader


def _reply(outcome: Reply | NoReply) -> Reply:
    if isinstance(outcome, NoReply):
        raise outcome.error
    return outcome


def _closes_on(profile: Profile, closes_on_input_required: bool) -> frozenset[TaskState]:
    if profile.subscribe_pause == "close":
        return CLOSES_ON_PAUSE
    closes = closes_on_input_required and profile.subscribe_pause == "by-version"
    return CLOSES_SEND if closes else CLOSES_SUBSCRIBE


def _cannot_cancel(profile: Profile) -> TrunklineError:
    text = "This agent does not cancel tasks"
    if profile.cancel_unsupported_code == -32601:
        return MethodNotFound(text)
    return UnsupportedOperation(text)


def status_from_ms(text: str) -> int | None:
    """What `statusTimestampAfter` says. Raises InvalidParams."""
    if not text:
        return None
    try:
        return parse_timestamp(text)
    except (ValueError, OverflowError):
        raise InvalidParams.at(
            "statusTimestampAfter",
            "must be an ISO 8601 timestamp in UTC, such as 2026-01-31T23:59:59.000Z",
        ) from None
