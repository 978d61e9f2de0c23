"""`RecordedTasks`: tasks as the journal has them, for tests and recordings."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.background import next_pass
from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import Conflict, RouteNotFound
from trunkline.model.events import Entry, Event, MessageAccepted, TaskSubmitted, TurnRetried
from trunkline.model.large_values import MARK, referred_ids
from trunkline.model.principal import Principal
from trunkline.model.recordings import RecordedStep, RecordedTurn, Recording, status_step
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import (
    INTERRUPTED,
    SETTLED,
    TERMINAL,
    Artifact,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    text_of,
)
from trunkline.ports.store import Scope, Store
from trunkline.runtime.large_values import LargeValues

MAX_ENTRIES: Final = 20_000
MAX_BYTES: Final = 8 * 1024 * 1024
_PAGE: Final = 500

Public: TypeAlias = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class RecordedTask(Struct, frozen=True, kw_only=True, eq=False):
    id: str
    scope: Scope
    # Complete, and with its large texts.
    events: tuple[Event, ...]
    # The time of each event in milliseconds, where it is known.
    times: tuple[int | None, ...]

    @property
    def state(self) -> TaskState:
        for event in reversed(self.events):
            status = _status_of(_public(event))
            if status is not None:
                return status.state
        return TaskState.UNSPECIFIED


class RecordedTasks(Struct, frozen=True, kw_only=True, eq=False):
    stores: Callable[[], Iterable[Store]]
    # Whether the caller may read the tasks of a scope.
    may_read: Callable[[Principal, Scope], bool]

    async def find(self, task_id: str, *, by: Principal) -> RecordedTask:
        """Raises RouteNotFound, also for a task that the caller may not read; Conflict for one that
        cannot be recorded; and StoreError."""
        for store in self.stores():
            scope = await store.owner(task_id)
            if scope is None:
                continue
            if not self.may_read(by, scope):
                break
            return await _read(store, scope, task_id)
        raise RouteNotFound("There is no such task")


async def _read(store: Store, scope: Scope, task_id: str) -> RecordedTask:
    """Raises Conflict and StoreError."""
    large, texts = LargeValues(store), dict[str, str]()
    events: list[Event] = []
    times: list[int | None] = []
    seq = size = 0
    while page := await store.entries(task_id, after=seq, limit=_PAGE):
        if page[0].seq != seq + 1:
            raise Conflict("The first events of the task were deleted, so it cannot be played")
        for entry in page:
            size += len(entry.body)
            if len(events) >= MAX_ENTRIES or size > MAX_BYTES:
                raise Conflict(
                    f"The task has more than {MAX_ENTRIES:,} events or {MAX_BYTES:,} bytes, which "
                    "is too much for a recording"
                )
            if MARK in entry.body and store.keeps_large_values:
                # Before they are read: the texts of one page may not fit into memory.
                sizes = await store.value_sizes(scope, referred_ids(entry.body))
                known = sum(map(len, texts.values()))
                if size + known + sum(n for id, n in sizes.items() if id not in texts) > MAX_BYTES:
                    raise Conflict(f"The task has texts of more than {MAX_BYTES:,} bytes")
            event = await _restored(large, scope, entry.event, texts)
            events.append(event)
            times.append(_time_of(entry))
        seq = page[-1].seq
        await next_pass()
    if not events:
        raise RouteNotFound("There is no such task")
    return RecordedTask(id=task_id, scope=scope, events=tuple(events), times=tuple(times))


def _time_of(entry: Entry) -> int | None:
    """The time of an entry: that of its commit, or, for one of an earlier release, of its
    status."""
    if entry.committed_ms is not None:
        return entry.committed_ms
    status = _status_of(entry.public)
    if status is None or not status.timestamp:
        return None
    try:
        return parse_timestamp(status.timestamp)
    except ValueError:
        return None


def _status_of(event: Public) -> TaskStatus | None:
    return None if isinstance(event, TaskArtifactUpdateEvent) else event.status


async def _restored(large: LargeValues, scope: Scope, event: Event, texts: dict[str, str]) -> Event:
    """The event with the large texts that it refers to."""

    async def message(given: Message) -> Message:
        (found,) = await large.restored(scope, (given,), texts)
        return found

    async def update(given: TaskStatusUpdateEvent) -> TaskStatusUpdateEvent:
        status = given.status
        if status.message is None:
            return given
        return replace(given, status=replace(status, message=await message(status.message)))

    async def task(given: Task) -> Task:
        status = given.status
        if status.message is not None:
            status = replace(status, message=await message(status.message))
        return replace(
            given,
            status=status,
            history=await large.restored(scope, given.history, texts),
            artifacts=await large.restored(scope, given.artifacts, texts),
        )

    match event:
        case Task():
            return await task(event)
        case TaskSubmitted():
            return replace(event, task=await task(event.task))
        case TaskArtifactUpdateEvent():
            (artifact,) = await large.restored(scope, (event.artifact,), texts)
            return replace(event, artifact=artifact)
        case TaskStatusUpdateEvent():
            return await update(event)
        case MessageAccepted():
            return replace(
                event,
                message=await message(event.message),
                status_update=await update(event.status_update),
            )
        case _:
            return replace(event, status_update=await update(event.status_update))


class _TurnMaker:
    """Assigns the output of a task to its turns."""

    def __init__(self, max_gap_ms: int) -> None:
        self.turns: list[list[RecordedStep]] = []
        self._max_gap_ms = max_gap_ms
        self._state = TaskState.SUBMITTED
        # Whether the turn under way has ended.
        self._is_over = True
        self._last_ms: int | None = None

    def take(self, event: Event, at_ms: int | None) -> None:
        after_ms = self._pause(at_ms)
        if isinstance(event, TurnRetried):
            # Its output does not count, and the next turn repeats it.
            if self.turns and not self._is_over:
                self.turns.pop()
            self._is_over = True
            self._state = TaskState.SUBMITTED
            return
        if isinstance(event, MessageAccepted):
            self._state = event.status_update.status.state
            return
        public = _public(event)
        if isinstance(public, TaskArtifactUpdateEvent):
            self._add(
                RecordedStep(
                    after_ms=after_ms,
                    artifact=public.artifact,
                    append=public.append,
                    last_chunk=bool(public.last_chunk),
                )
            )
        elif isinstance(public, Task):
            self._take_task(public, after_ms)
        else:
            self._take_status(public, after_ms)

    def _take_task(self, task: Task, after_ms: int) -> None:
        self._state = task.status.state
        # A task may be recorded as it ended, in one event.
        for artifact in task.artifacts:
            self._add(RecordedStep(artifact=artifact, last_chunk=True))
        if task.status.state in SETTLED:
            update = TaskStatusUpdateEvent(
                task_id=task.id, context_id=task.context_id, status=task.status
            )
            self._add(status_step(update, after_ms))
            self._is_over = True

    def _take_status(self, update: TaskStatusUpdateEvent, after_ms: int) -> None:
        state, before = update.status.state, self._state
        self._state = state
        if state is TaskState.WORKING:
            if before is not TaskState.WORKING:
                self._begin()
            if update.status.message is not None:
                self._add(status_step(update, after_ms))
        elif before is TaskState.WORKING or state in TERMINAL or not self._is_over:
            self._add(status_step(update, after_ms))
            self._is_over = True

    def _begin(self) -> None:
        self.turns.append([])
        self._is_over = False

    def _add(self, step: RecordedStep) -> None:
        if self._is_over:
            self._begin()
        self.turns[-1].append(step)

    def _pause(self, at_ms: int | None) -> int:
        if at_ms is None:
            return 0
        last, self._last_ms = self._last_ms, at_ms
        return 0 if last is None else min(max(at_ms - last, 0), self._max_gap_ms)


def recording_of(task: RecordedTask, *, max_gap_ms: int) -> Recording:
    """The output of the task, turn by turn. Pauses are at most `max_gap_ms` long."""
    maker = _TurnMaker(max_gap_ms)
    for event, at_ms in zip(task.events, task.times, strict=True):
        maker.take(event, at_ms)
    turns = maker.turns or [[]]
    return Recording(turns=tuple(RecordedTurn(steps=tuple(steps)) for steps in turns))


class Sends(Struct, frozen=True):
    """The caller sent a message. `is_blocking`: it waited for what came next."""

    message: Message
    is_blocking: bool


class Cancels(Struct, frozen=True):
    """The caller canceled the task."""


class Expects(Struct, frozen=True):
    """The task had this state and this answer then."""

    state: TaskState
    answer: str


Action: TypeAlias = Sends | Cancels | Expects


def actions_of(task: RecordedTask) -> Iterator[Action]:
    """What the caller did and what it got, in order."""
    found = [*_actions(task)]
    for index, action in enumerate(found):
        if isinstance(action, Sends):
            following = found[index + 1] if index + 1 < len(found) else None
            yield Sends(action.message, isinstance(following, Expects))
        else:
            yield action


def _actions(task: RecordedTask) -> Iterator[Action]:
    fold: TaskFold | None = None
    for number, event in enumerate(task.events, 1):
        entry = Entry.of(number, event)
        if fold is None:
            fold = TaskFold.begin(entry)
            for message in fold.history[-1:]:
                yield Sends(message, False)
        else:
            fold.apply(entry)
        if isinstance(event, MessageAccepted):
            yield Sends(event.message, False)
        elif fold.state in SETTLED and _status_of(_public(event)) is not None:
            if fold.state is TaskState.CANCELED:
                yield Cancels()
            yield Expects(fold.state, answer_of(fold.artifacts, fold.status))


def answer_of(artifacts: Iterable[Artifact], status: TaskStatus) -> str:
    """The question of a task that waits; else the text of its artifacts, or what its status
    says."""
    said = "" if status.message is None else text_of(status.message.parts)
    if status.state in INTERRUPTED:
        return said
    texts = ["".join([part.text or "" for part in each.parts]) for each in artifacts]
    return "\n".join(filter(None, texts)) or said


def _public(event: Event) -> Public:
    match event:
        case Task() | TaskStatusUpdateEvent() | TaskArtifactUpdateEvent():
            return event
        case TaskSubmitted():
            return event.task
        case _:
            return event.status_update
