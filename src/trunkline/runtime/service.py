"""One method per call: what a client may ask of the agents that run here."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from trunkline.engine.transitions import Step
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import (
    InvalidParams,
    TaskNotCancelable,
    TrunklineError,
    UnsupportedOperation,
)
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.store import Scope, Store, TaskQuery
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import (
    Gap,
    Opening,
    Refusal,
    Reply,
    SnapshotSubscription,
    Subscription,
)
from trunkline.runtime.intake import Admitted, Intake
from trunkline.runtime.journal import Journal
from trunkline.runtime.live import LiveTask
from trunkline.runtime.registry import Registry, snapshot_of
from trunkline.runtime.run import Run
from trunkline.runtime.turns import Turns
from trunkline.runtime.views import listed_json, page_position, page_token, task_json

DEFAULT_PAGE_SIZE = 50
# How much of a journal is read at a time for a reader that resumes.
REPLAY_CHUNK = 500

# A stream that a message opened ends when the agent has no more to say for now; one that
# follows a task goes on until the task ends.
CLOSES_SEND = TERMINAL | {TaskState.INPUT_REQUIRED}
CLOSES_SUBSCRIBE = TERMINAL


class TaskAnswer(Struct, frozen=True):
    task: bytes


class ListAnswer(Struct, frozen=True):
    tasks: tuple[bytes, ...]
    next_page_token: str
    page_size: int
    total_size: int


class Service:
    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        journal: Journal,
        turns: Turns,
        intake: Intake,
        stream_buffer: int = 1000,
    ) -> None:
        self._store = store
        self._registry = registry
        self._journal = journal
        self._turns = turns
        self._intake = intake
        self._stream_buffer = stream_buffer
        self.subscriptions: set[Subscription] = set()

    async def send(
        self, agent: PublishedAgent, caller: Caller, request: SendMessageRequest
    ) -> TaskAnswer | Reply:
        """Answer when the task has ended or waits for the caller, or, if asked to return
        immediately, as soon as it exists."""
        configuration = request.configuration
        returns_immediately = configuration is not None and configuration.return_immediately
        history_length = configuration.history_length if configuration is not None else None
        admitted = await self._intake.admit(agent, caller, request, needs_task=returns_immediately)
        if admitted.earlier is not None:
            return TaskAnswer(task_json(admitted.earlier, history_length))
        if admitted.reply is not None:
            return admitted.reply
        live = admitted.live
        if admitted.run is not None:
            assert admitted.run.answer is not None
            outcome = await admitted.run.answer
            if isinstance(outcome, Reply):
                return outcome
            if isinstance(outcome, Refusal):
                raise outcome.error
            live = outcome
        assert live is not None
        if returns_immediately:
            await self._journal.durable(live)
        else:
            await self._journal.settled(live)
        return TaskAnswer(task_json(live.view(), history_length))

    async def stream(
        self, agent: PublishedAgent, caller: Caller, request: SendMessageRequest
    ) -> Subscription:
        configuration = request.configuration
        history_length = configuration.history_length if configuration is not None else None
        reader = self._reader(agent, CLOSES_SEND)
        # A reader that is there from the start gets the journal as it is, which begins
        # with one message; one that wants none, or joins later, gets a snapshot.
        from_start = reader if history_length != 0 else None
        try:
            admitted = await self._intake.admit(
                agent, caller, request, needs_task=history_length == 0, reader=from_start
            )
            self._attach(reader, admitted, history_length)
        except TrunklineError:
            reader.close()
            raise
        return reader

    def _attach(
        self,
        reader: Subscription,
        admitted: Admitted,
        history_length: int | None,
    ) -> None:
        if admitted.earlier is not None:
            earlier = admitted.earlier
            reader.put(Opening(earlier.seq, task_json(earlier, history_length)))
            reader.end()
            return
        if admitted.reply is not None:
            reader.put(admitted.reply)
            reader.end()
            return
        live = admitted.live
        if live is None:
            # The run has the reader, and hands it on when it becomes a task.
            assert admitted.run is not None
            reader.opened_by(partial(self._leave_run, admitted.run))
            _show(reader, admitted.run, history_length)
            return
        reader.opened_by(partial(self._leave, live))
        _show(reader, live, history_length)
        if reader in live.subscriptions:
            return
        is_new = live.unflushed or live.in_flight
        if is_new:
            self._journal.once_durable(live, partial(self._join, reader, live, history_length))
        else:
            self._join(reader, live, history_length, None)
            if live.committed_state in CLOSES_SEND:
                reader.end()

    def _join(
        self,
        reader: Subscription,
        live: LiveTask,
        history_length: int | None,
        error: TrunklineError | None,
    ) -> None:
        """Snapshot and live tail in one step, so there is neither gap nor duplicate."""
        if error is not None:
            reader.stop(error.message, 0)
            return
        reader.put(_opening(live, history_length))
        if live.committed_state in TERMINAL:
            reader.end()
        else:
            live.subscriptions.append(reader)

    async def get(self, agent: PublishedAgent, caller: Caller, request: GetTaskRequest) -> bytes:
        scope = Scope(agent.handle, caller.tenant, caller.principal)
        return task_json(await self._registry.view(scope, request.id), request.history_length)

    async def list(
        self, agent: PublishedAgent, caller: Caller, request: ListTasksRequest
    ) -> ListAnswer:
        scope = Scope(agent.handle, caller.tenant, caller.principal)
        query = TaskQuery(
            scope=scope,
            context_id=request.context_id,
            state=None if request.status is TaskState.UNSPECIFIED else request.status,
            status_from_ms=_timestamp(request.status_timestamp_after),
            limit=request.page_size or DEFAULT_PAGE_SIZE,
            after=page_position(request),
            with_artifacts=request.include_artifacts,
        )
        page = await self._store.list(query)
        tasks = tuple(
            listed_json(
                snapshot_of(stored),
                history_length=request.history_length,
                include_artifacts=request.include_artifacts,
            )
            for stored in page.tasks
        )
        return ListAnswer(tasks, page_token(page.next, request), query.limit, page.total)

    async def cancel(
        self, agent: PublishedAgent, caller: Caller, request: CancelTaskRequest
    ) -> bytes:
        scope = Scope(agent.handle, caller.tenant, caller.principal)
        live = await self._registry.load(scope, request.id)
        try:
            is_over = live.state in TERMINAL
            if not is_over:
                await self._turns.stop(live, Step.CANCEL, agent.style.names.canceled)
            # Nobody is told of an end that is not stored.
            await self._journal.durable(live)
            if is_over or live.committed_state is not TaskState.CANCELED:
                raise TaskNotCancelable(
                    f"Task {request.id} has already ended ({live.committed_state})",
                    metadata={"taskId": request.id, "state": live.committed_state.value},
                )
            return task_json(live.view())
        finally:
            self._registry.forget_if_idle(live)

    async def subscribe(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SubscribeToTaskRequest,
        *,
        last_seq: int | None = None,
        closes_on_input_required: bool = False,
    ) -> Subscription:
        """Follow a task: its snapshot and all that comes, or, after `last_seq`, just what
        the reader has not seen."""
        scope = Scope(agent.handle, caller.tenant, caller.principal)
        live = await self._registry.load(scope, request.id)
        seen_all = last_seq is None or last_seq == live.committed_seq
        if live.committed_state in TERMINAL and seen_all:
            self._registry.forget_if_idle(live)
            raise UnsupportedOperation(
                f"Task {request.id} has ended ({live.committed_state}); read it with GetTask",
                metadata={"taskId": request.id, "state": live.committed_state.value},
            )
        reader = self._reader(agent, CLOSES_SEND if closes_on_input_required else CLOSES_SUBSCRIBE)
        reader.opened_by(partial(self._leave, live))
        _show(reader, live, None)
        if last_seq is None or isinstance(reader, SnapshotSubscription):
            self._join(reader, live, None, None)
        else:
            # There from the start, so that the task stays in memory meanwhile.
            live.subscriptions.append(reader)
            replay = _Replay(
                self._store,
                live,
                reader,
                last_seq,
                chunk=min(REPLAY_CHUNK, self._stream_buffer),
                rejoin=self._rejoin,
            )
            reader.catch_up(replay.step, after=last_seq)
            try:
                # While there is nothing sent, a journal that cannot be read is an error.
                await replay.step()
            except BaseException:
                reader.close()
                raise
        return reader

    def _rejoin(self, reader: Subscription, live: LiveTask) -> None:
        if reader in live.subscriptions:
            live.subscriptions.remove(reader)
        self._join(reader, live, None, None)

    def _reader(self, agent: PublishedAgent, closes_on: frozenset[TaskState]) -> Subscription:
        reader = agent.reader(closes_on=closes_on, limit=self._stream_buffer)
        self.subscriptions.add(reader)
        reader.opened_by(self.subscriptions.discard)
        return reader

    def _leave_run(self, run: Run, reader: Subscription) -> None:
        if run.live is not None:
            self._leave(run.live, reader)
        else:
            run.reader = None
            self.subscriptions.discard(reader)

    def _leave(self, live: LiveTask, reader: Subscription) -> None:
        self.subscriptions.discard(reader)
        if reader in live.subscriptions:
            live.subscriptions.remove(reader)
        self._registry.forget_if_idle(live)


def _show(reader: Subscription, of: LiveTask | Run, history_length: int | None) -> None:
    """Let a reader that wants whole tasks know where they come from."""
    if isinstance(reader, SnapshotSubscription):
        reader.opening = partial(_opening, of, history_length)


def _opening(of: LiveTask | Run, history_length: int | None) -> Opening:
    live = of.live if isinstance(of, Run) else of
    assert live is not None
    view = live.view()
    return Opening(view.seq, task_json(view, history_length))


class _Replay:
    """Reads the journal for one reader, up to where the task is by then."""

    def __init__(
        self,
        store: Store,
        live: LiveTask,
        reader: Subscription,
        last_seq: int,
        *,
        chunk: int,
        rejoin: Callable[[Subscription, LiveTask], None],
    ) -> None:
        self._store = store
        self._live = live
        self._reader = reader
        self._seen = last_seq
        self._chunk = chunk
        self._rejoin = rejoin

    async def step(self) -> None:
        live, reader = self._live, self._reader
        if self._seen < live.committed_seq:
            found = await self._store.entries(live.task_id, after=self._seen, limit=self._chunk)
            # The store may be ahead of what the journal was told; that is pushed later.
            entries = [entry for entry in found if entry.seq <= live.committed_seq]
            if entries and entries[0].seq == self._seen + 1:
                reader.replay(entries)
                self._seen = entries[-1].seq
                return
        # No await beyond this point: what is committed from here on reaches the reader.
        reader.caught_up()
        if self._seen != live.committed_seq:
            # Pruned, or a sequence from another life of this database.
            reader.put(Gap(self._seen, live.committed_seq))
            self._rejoin(reader, live)
        elif live.committed_state in TERMINAL:
            reader.end()


def _timestamp(text: str) -> int | None:
    if not text:
        return None
    try:
        return parse_timestamp(text)
    except (ValueError, OverflowError):
        raise InvalidParams.at(
            "statusTimestampAfter",
            "must be an ISO 8601 timestamp in UTC, such as 2026-01-31T23:59:59.000Z",
        ) from None
