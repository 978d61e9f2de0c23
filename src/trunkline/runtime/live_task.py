"""A task in memory: what is committed for readers, what is recorded for the writer."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import GatewayBug, StoreUnusable, TrunklineError
from trunkline.model.events import Entry
from trunkline.model.large_values import LargeValue
from trunkline.model.values import HAS_WORK, Message, Role, TaskState
from trunkline.ports.store import Creation, IdempotencyRecord, Scope, Snapshot, StoredTask
from trunkline.runtime.fanout import Subscription

if TYPE_CHECKING:
    from trunkline.runtime.run import Run

# Entries of a long stream that nobody reads are folded in steps: each holds its text twice.
MAX_UNFOLDED = 64

# Called with None after the commit, or with why there is none.
Durable: TypeAlias = Callable[[TrunklineError | None], None]


class LiveTask(Struct, kw_only=True, eq=False):
    """Only the event loop touches it, and only the journal moves `committed` forward."""

    task_id: str
    scope: Scope
    context_id: str
    epoch: int
    # The session that its record names; empty where the agent names it.
    session_key: str = ""
    # As recorded: ahead of the commit. Decisions are made on these.
    seq: int = 0
    state: TaskState = TaskState.SUBMITTED
    status_ms: int = 0
    unflushed: list[Entry] = []
    in_flight: list[Entry] = []
    is_dirty: bool = False
    # How large the entries are that were recorded since the task is in memory, those of them
    # that went to the store, and those that it committed.
    recorded_bytes: int = 0
    flushed_bytes: int = 0
    committed_bytes: int = 0
    # Large texts that entries refer to: of those that are unflushed, and of those in flight.
    values: tuple[LargeValue, ...] = ()
    in_flight_values: tuple[LargeValue, ...] = ()
    # Rises when the store refuses; what was in flight then is void.
    generation: int = 0
    # What is in memory is not the task any more; the store has the truth.
    is_dropped: bool = False
    # How many have a message for it that cannot be recorded yet.
    pending_senders: int = 0
    # The store refused its progress; it ends as soon as that can be stored.
    is_stuck: bool = False
    creation: Creation | None = None
    # Goes to the store with the next append.
    idempotency: IdempotencyRecord | None = None
    # All that the task was given while in memory, to know them until the store does.
    keys: tuple[IdempotencyRecord, ...] = ()
    # As committed: all that anybody outside ever sees. 0 until the task exists.
    committed_seq: int = 0
    committed_state: TaskState = TaskState.SUBMITTED
    # Folded when somebody reads: most tasks end before anybody does.
    _fold: TaskFold | None = None
    _unfolded: list[Entry] = []
    _view: Snapshot | None = None
    subscriptions: set[Subscription] = set()
    once_durable: list[tuple[int, Durable]] = []
    waiters: list[tuple[int, asyncio.Future[None]]] = []
    # Owned by `turns`: how many have started, the one under way, those to come.
    turns: int = 0
    run: "Run | None" = None
    waiting: "list[Run]" = []

    @classmethod
    def of(cls, stored: StoredTask) -> "LiveTask":
        live = cls(
            task_id=stored.task_id,
            scope=stored.scope,
            context_id=stored.context_id,
            epoch=stored.epoch,
            session_key=stored.session_key,
        )
        fold = fold_of(stored)
        live._fold = fold
        live.seq = live.committed_seq = fold.seq
        live.state = live.committed_state = fold.state
        live.status_ms = stored.status_ms
        # Artifact names carry the number of the turn; any number not used before will do.
        live.turns = sum(1 for message in fold.history if message.role is Role.USER) - len(
            fold.pending
        )
        return live

    @property
    def is_idle(self) -> bool:
        """Nothing in memory that the store does not have, and nobody is interested."""
        return not (
            self.run
            or self.waiting
            or self.subscriptions
            or self.unflushed
            or self.in_flight
            or self.waiters
            or self.once_durable
            or self.is_stuck
            or self.pending_senders
        )

    @property
    def is_orphan(self) -> bool:
        """There is work to do, and nobody does it: a restart left the task as it was."""
        return self.state in HAS_WORK and not (self.run or self.waiting or self.is_stuck)

    @property
    def position(self) -> int | None:
        """Its place in the queue, 1 for the next to start; None unless it waits there."""
        if not self.waiting or self.committed_state is not TaskState.SUBMITTED:
            return None
        run = self.waiting[0]
        return run.agent.lanes.position(run.lane, run)

    def history_message(self, message: Message) -> Message:
        """The caller's message as history shows it: with the ids of its task and context."""
        if message.task_id == self.task_id and message.context_id == self.context_id:
            return message
        return Message(
            message_id=message.message_id,
            context_id=self.context_id,
            task_id=self.task_id,
            role=message.role,
            parts=message.parts,
            metadata=message.metadata,
            extensions=message.extensions,
            reference_task_ids=message.reference_task_ids,
        )

    @property
    def exists(self) -> bool:
        """Whether its creation is committed."""
        return self.committed_seq > 0

    def committed(self) -> TaskFold:
        """The task as committed."""
        if self._unfolded:
            self._fold = _folded(self._fold, self._unfolded)
            self._unfolded = []
        assert self._fold is not None
        return self._fold

    def ahead(self) -> TaskFold:
        """The task as it will be when everything recorded is committed."""
        start = self._fold.copy() if self._fold is not None else None
        if not self.in_flight and not self._unfolded:
            return _folded(start, self.unflushed)
        return _folded(start, [*self._unfolded, *self.in_flight, *self.unflushed])

    def as_accepted(self, seq: int) -> Snapshot:
        """The task as of an entry that was recorded just now, without what follows it."""
        start = self._fold.copy() if self._fold is not None else None
        recorded = [*self._unfolded, *self.in_flight, *self.unflushed]
        return _folded(start, [entry for entry in recorded if entry.seq <= seq]).snapshot()

    def view(self) -> Snapshot:
        """The committed task; encoded once for all who ask before the next commit."""
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
        """Move forward. `fold` and `view`, when given, are the task after these entries."""
        self.committed_seq = entries[-1].seq
        self.committed_state = state
        self._view = view
        if fold is not None:
            self._fold = fold
            self._unfolded = []
            return
        self._unfolded.extend(entries)
        # A long stream that nobody reads must not pile up in pieces.
        if len(self._unfolded) > MAX_UNFOLDED:
            self.committed()

    def let_go(self) -> None:
        """Answer those who wait for the end with the task as it is."""
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def give_up(self, error: TrunklineError) -> None:
        """Tell everybody who waits that the store refused."""
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self.waiters.clear()
        for subscription in list(self.subscriptions):
            subscription.stop("the store is unavailable", self.committed_seq)


def _folded(fold: TaskFold | None, entries: list[Entry]) -> TaskFold:
    rest = iter(entries)
    if fold is None:
        fold = TaskFold.begin(next(rest))
    for entry in rest:
        fold.apply(entry)
    return fold


def fold_of(stored: StoredTask) -> TaskFold:
    """Raises StoreUnusable when what is stored is not a task."""
    try:
        return TaskFold.of(stored.snapshot, stored.tail)
    except (msgspec.DecodeError, GatewayBug, LookupError, ValueError) as error:
        raise StoreUnusable(
            f"The stored task {stored.task_id} cannot be read: {error}. Look at the store with "
            "`trunkline db check`."
        ) from error
