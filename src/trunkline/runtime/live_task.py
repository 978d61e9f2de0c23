"""`LiveTask`: a task in memory, as committed for readers and as recorded for its writer."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import GatewayBug, StoreUnusable, TrunklineError
from trunkline.model.events import Entry, Event
from trunkline.model.large_values import LargeValue
from trunkline.model.values import HAS_WORK, TERMINAL, Message, Part, Role, TaskState
from trunkline.ports.records import Group
from trunkline.ports.store import Creation, Scope, Snapshot, StoredTask
from trunkline.runtime.fanout import Shares, Subscription
from trunkline.runtime.participants import Participant

if TYPE_CHECKING:
    from trunkline.runtime.idempotency import RequestKey
    from trunkline.runtime.run import Run

_log = logging.getLogger("trunkline.journal")

# The maximum number of committed entries that wait to be folded. An entry holds its text twice, so
# a long stream without readers is folded in steps.
MAX_UNFOLDED = 64

# Called with None after the commit, or with the error when the store refuses it.
Durable: TypeAlias = Callable[[TrunklineError | None], None]


class Lease:
    """The right to write to the tasks of a lane."""

    # Whether another node may have the lane by now.
    is_lost: bool = False

    def __init__(self, lane: str = "", epoch: int = 0) -> None:
        # The name of the lane in the store; empty where one process has the store to itself.
        self.lane = lane
        # 0 until the store has said it.
        self.epoch = epoch
        # The tasks of the lane in memory.
        self.tasks: set[LiveTask] = set()
        # The number of requests that are about to write to a task of the lane.
        self.users = 0
        # Whether the inbox that an earlier owner may have begun to work off is empty.
        self.is_inbox_known = False


# The lease of every task whose store belongs to this process alone.
LOCAL = Lease()


class LiveTask(Struct, kw_only=True, eq=False):
    """Only the event loop touches a live task, and every field has one writer, which is named
    below."""

    task_id: str
    scope: Scope
    context_id: str
    # The session key that the stored task names; empty where the agent determines the key.
    session_key: str = ""

    # Written by `Journal` alone. First the task as recorded, ahead of the commit: decisions are
    # made on these.
    seq: int = 0
    state: TaskState = TaskState.SUBMITTED
    status_ms: int = 0
    unflushed: list[Entry] = []
    in_flight: list[Entry] = []
    is_dirty: bool = False
    # Returns further events to record when the journal is flushed.
    held_back: Callable[[], list[Event]] | None = None
    # The bytes of the entries that were recorded since the task came into memory, of those that
    # were submitted to the store, and of those that it committed.
    recorded_bytes: int = 0
    flushed_bytes: int = 0
    committed_bytes: int = 0
    # Large texts that unflushed entries refer to, and those that entries in flight refer to.
    values: tuple[LargeValue, ...] = ()
    in_flight_values: tuple[LargeValue, ...] = ()
    # Rises when the store refuses an append, because later appends in flight are then void as well.
    generation: int = 0
    # The creation of the task and changes of records, which go to the store with the next append.
    creation: Creation | None = None
    also: tuple[Group, ...] = ()
    # Written by `NewTasks`: the run whose admission has changes in the first append. From that
    # commit on it is kept only where it was refused.
    admitted: "Run | None" = None
    once_durable: list[tuple[int, Durable]] = []
    waiters: list[tuple[int, asyncio.Future[None]]] = []

    # Written by the methods below alone. Clients see only committed entries; there are none until
    # the task exists.
    committed_seq: int = 0
    committed_state: TaskState = TaskState.SUBMITTED
    # Entries are folded when a reader first needs them: most tasks end before that.
    _fold: TaskFold | None = None
    _unfolded: list[Entry] = []
    _view: Snapshot | None = None
    subscriptions: set[Subscription] = set()

    # Written by `Registry` alone. A dropped task is out of date, and the next reader loads it from
    # the store. A stuck task is one whose progress the store refused; it fails as soon as the store
    # accepts that.
    is_dropped: bool = False
    is_stuck: bool = False
    # Written by `Ownership` alone: None for a task that another node writes to. This node then
    # follows it, and takes its entries from the store.
    lease: Lease | None = LOCAL
    # Written by `Registry` alone: the number of requests that need the task in memory for a while.
    pins: int = 0
    # Written by `IdempotencyKeys` alone: the keys of its requests, until the store has them.
    keys: "tuple[RequestKey, ...]" = ()
    # Written by `Participants`, by a feature for its own participant, and by `Ownership`, because a
    # task that is followed has none.
    participants: tuple[Participant, ...] = ()
    # Written by `Recorder` alone: the number of turns that have begun.
    turns: int = 0
    # Written by `Runs` alone: the run under way, and those that wait for their turn.
    run: "Run | None" = None
    waiting: "list[Run]" = []

    @classmethod
    def of(cls, stored: StoredTask) -> "LiveTask":
        fold = fold_of(stored)
        own = sum(1 for message in fold.history if message.role is Role.USER)
        return cls(
            task_id=stored.task_id,
            scope=stored.scope,
            context_id=stored.context_id,
            session_key=stored.session_key,
            seq=fold.seq,
            committed_seq=fold.seq,
            state=fold.state,
            committed_state=fold.state,
            status_ms=stored.status_ms,
            # Artifact names carry the number of the turn; any number not used before will do.
            turns=own - len(fold.pending),
            _fold=fold,
        )

    @property
    def is_orphan(self) -> bool:
        """Whether the task has work to do and no run, because a restart left it as it was."""
        return (
            self.state in HAS_WORK
            and self.lease is not None
            and not (self.run or self.waiting or self.is_stuck)
        )

    @property
    def position(self) -> int | None:
        """The place of the task in the queue, 1 for the next to start; None when the task does not
        wait."""
        if not self.waiting or self.committed_state is not TaskState.SUBMITTED:
            return None
        run = self.waiting[0]
        return run.agent.lanes.position(run.lane, run)

    @property
    def is_refused(self) -> bool:
        """Whether the store found a limit reached, so that the task says why it was refused."""
        return self.admitted is not None and self.admitted.refusal is not None

    @property
    def exists(self) -> bool:
        """Whether the creation of the task is committed."""
        return self.committed_seq > 0

    def committed(self) -> TaskFold:
        """The task as committed."""
        fold = self._fold
        if self._unfolded:
            fold = self._fold = fold or TaskFold.begin(self._unfolded[0])
            for entry in self._unfolded:
                if entry.seq > fold.seq:
                    fold.apply(entry)
            self._unfolded = []
        assert fold is not None
        return fold

    def ahead(self, up_to: int | None = None) -> TaskFold:
        """The task as it will be when all recorded entries are committed, or those up to entry
        `up_to`."""
        entries = self.unflushed
        if self.in_flight or self._unfolded:
            entries = [*self._unfolded, *self.in_flight, *entries]
        fold = self._fold.copy() if self._fold is not None else TaskFold.begin(entries[0])
        for entry in entries:
            # A fold that was begun here holds its first entry already.
            if entry.seq > fold.seq and (up_to is None or entry.seq <= up_to):
                fold.apply(entry)
        return fold

    def view(self) -> Snapshot:
        """The committed task; encoded once between two commits."""
        if self._view is None or self._view.seq != self.committed_seq:
            self._view = self.committed().snapshot()
        return self._view

    def commit(
        self,
        entries: tuple[Entry, ...],
        state: TaskState,
        fold: TaskFold | None,
        view: Snapshot | None,
    ) -> None:
        """Take over committed entries. `fold` and `view`, when given, are the task after them."""
        self.committed_seq = entries[-1].seq
        self.committed_state = state
        self._view = view
        if self.admitted is not None and self.admitted.refusal is None:
            # Task and run would name each other, and such garbage is collected late.
            self.admitted = None
        if fold is not None:
            self._fold = fold
            self._unfolded = []
            return
        self._unfolded.extend(entries)
        # The entries of a long stream without readers must not pile up.
        if len(self._unfolded) > MAX_UNFOLDED:
            self.committed()

    def subscribe(self, reader: Subscription) -> None:
        """Push further commits to the reader."""
        self.subscriptions.add(reader)

    def unsubscribe(self, reader: Subscription) -> None:
        self.subscriptions.discard(reader)

    def publish(self, entries: tuple[Entry, ...]) -> None:
        """Push the entries to each reader, and drop readers that take no more. An error of one
        reader does not affect the others."""
        shares = Shares(entries) if len(self.subscriptions) > 1 else None
        has_ended = False
        for reader in self.subscriptions:
            try:
                if not reader.push(entries, shares):
                    has_ended = True
            except Exception:  # noqa: BLE001 - logged, and costs this reader alone
                _log.exception("a reader failed", extra={"task_id": self.task_id})
                reader.fail()
                has_ended = True
        if self.committed_state in TERMINAL:
            # Every reader has its last entry in its own queue.
            self.subscriptions.clear()
        elif has_ended:
            self.subscriptions = {each for each in self.subscriptions if not each.is_ended}


def message_of_task(message: Message, task_id: str, context_id: str) -> Message:
    """The caller's message as history shows it: with the ids of its task and context."""
    if message.task_id == task_id and message.context_id == context_id:
        return message
    return structs.replace(message, context_id=context_id, task_id=task_id)


def say(
    live: LiveTask, message_id: str, text: str, metadata: dict[str, Any] | None = None
) -> Message:
    """A message of the gateway itself, in the agent's place."""
    return Message(
        message_id=f"{live.task_id}.{message_id}",
        context_id=live.context_id,
        task_id=live.task_id,
        role=Role.AGENT,
        parts=(Part(text=text),),
        metadata=metadata,
    )


def fold_of(stored: StoredTask) -> TaskFold:
    """The fold of a stored task. Raises StoreUnusable when the record is not a task."""
    try:
        return TaskFold.of(stored.snapshot, stored.tail)
    except (msgspec.DecodeError, GatewayBug, LookupError, ValueError) as error:
        raise StoreUnusable(
            f"The stored task {stored.task_id} cannot be read: {error}. Look at the store with "
            "`trunkline db check`."
        ) from error
