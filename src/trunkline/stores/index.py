"""The heads of all tasks in memory: which there are, in what order, and whose turn it is."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, TypeVar

from trunkline.model.errors import KeyTaken, StoreError
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.store import (
    Append,
    Creation,
    IdempotencyRecord,
    Scope,
    Snapshot,
    StoredTask,
    TaskQuery,
)
from trunkline.stores.heads import RUNNABLE

_Place = tuple[Scope, str, TaskState | None]
# Tasks in the order of a list, oldest first: (status_ms, key). Nearly every change is
# at the end, so that a plain sorted list is as good as a tree.
_Order = list[tuple[int, int]]


class Head:
    """A task without its contents. `key` rises with every task that is created."""

    __slots__ = (
        "context_id",
        "created_ms",
        "epoch",
        "id",
        "idempotency_keys",
        "key",
        "last_seq",
        "node",
        "scope",
        "state",
        "status_ms",
    )

    def __init__(self, key: int, append: Append, creation: Creation) -> None:
        self.key = key
        self.id = append.task_id
        self.scope = creation.scope
        self.context_id = creation.context_id
        self.created_ms = creation.created_ms
        self.node = creation.node
        self.epoch = append.epoch
        self.state = append.state
        self.status_ms = append.status_ms
        self.last_seq = 0
        self.idempotency_keys: tuple[str, ...] = ()

    def stored(self, snapshot: Snapshot | None, tail: tuple[Entry, ...]) -> StoredTask:
        return StoredTask(
            task_id=self.id,
            scope=self.scope,
            context_id=self.context_id,
            state=self.state,
            status_ms=self.status_ms,
            created_ms=self.created_ms,
            last_seq=self.last_seq,
            epoch=self.epoch,
            node=self.node,
            snapshot=snapshot,
            tail=tail,
        )


H = TypeVar("H", bound=Head)


class Index(Generic[H]):
    def __init__(self) -> None:
        self._tasks: dict[str, H] = {}
        self._by_key: dict[int, H] = {}
        self._orders: dict[_Place, _Order] = {}
        self._to_do: dict[int, H] = {}
        # By agent.
        self._ended: defaultdict[str, _Order] = defaultdict(list)
        self._records: dict[tuple[Scope, str], IdempotencyRecord] = {}
        self._leases: dict[str, int] = {}

    def __iter__(self) -> Iterator[H]:
        return iter(self._tasks.values())

    def get(self, task_id: str) -> H | None:
        return self._tasks.get(task_id)

    def of_scope(self, scope: Scope, task_id: str) -> H | None:
        head = self._tasks.get(task_id)
        return head if head is not None and head.scope == scope else None

    def add(self, head: H) -> None:
        self._tasks[head.id] = self._by_key[head.key] = head
        self._enlist(head)

    def move(self, head: H, state: TaskState, status_ms: int) -> None:
        if (head.state, head.status_ms) == (state, status_ms):
            return
        self._unlist(head)
        head.state, head.status_ms = state, status_ms
        self._enlist(head)

    def remove(self, *heads: H) -> None:
        """Together they cost little more than one: what moves up in the orders moves once."""
        ended: defaultdict[str, _Order] = defaultdict(list)
        orders: defaultdict[_Place, _Order] = defaultdict(list)
        for head in heads:
            spot = (head.status_ms, head.key)
            if head.state in TERMINAL:
                ended[head.scope.agent].append(spot)
            for place in self._places(head):
                orders[place].append(spot)
            self._to_do.pop(head.key, None)
            del self._tasks[head.id], self._by_key[head.key]
            for key in head.idempotency_keys:
                del self._records[head.scope, key]
        for agent, spots in ended.items():
            _take_out(self._ended[agent], spots)
        for place, spots in orders.items():
            _take_out(self._orders[place], spots)
            if not self._orders[place]:
                del self._orders[place]

    def _places(self, head: H) -> Iterator[_Place]:
        for context_id in {"", head.context_id}:
            yield head.scope, context_id, None
            yield head.scope, context_id, head.state

    def _enlist(self, head: H) -> None:
        for place in self._places(head):
            insort(self._orders.setdefault(place, []), (head.status_ms, head.key))
        if head.state in RUNNABLE:
            self._to_do[head.key] = head
        elif head.state in TERMINAL:
            insort(self._ended[head.scope.agent], (head.status_ms, head.key))

    def _unlist(self, head: H) -> None:
        self._to_do.pop(head.key, None)
        if head.state in TERMINAL:
            ended = self._ended[head.scope.agent]
            del ended[bisect_left(ended, (head.status_ms, head.key))]
        for place in self._places(head):
            order = self._orders[place]
            del order[bisect_left(order, (head.status_ms, head.key))]
            if not order:
                del self._orders[place]

    def key_refusal(self, record: IdempotencyRecord | None) -> StoreError | None:
        if record is not None and (record.scope, record.key) in self._records:
            return key_taken(record)
        return None

    def remember(self, head: H, record: IdempotencyRecord) -> None:
        self._records[record.scope, record.key] = record
        head.idempotency_keys += (record.key,)

    def recall(self, scope: Scope, key: str) -> IdempotencyRecord | None:
        return self._records.get((scope, key))

    def page(self, query: TaskQuery) -> tuple[list[H], int, tuple[int, int] | None]:
        """The tasks of a page, how many match, and where the next page starts."""
        order = self._orders.get((query.scope, query.context_id, query.state), [])
        first = 0
        if query.status_from_ms is not None:
            # Keys may be negative, but none reaches this far.
            first = bisect_left(order, (query.status_from_ms, -(1 << 63)))
        end = len(order) if query.after is None else bisect_left(order, query.after)
        start = max(first, end - query.limit)
        page = order[start:end][::-1]
        position = page[-1] if page and start > first else None
        return [self._by_key[key] for _, key in page], len(order) - first, position

    def heartbeat(self, node: str, until_ms: int) -> None:
        self._leases[node] = until_ms

    def free(self, node: str, *, now_ms: int, limit: int, task_id: str | None) -> list[H]:
        """The tasks that `node` may take over, oldest first."""
        if task_id is not None:
            named = self._tasks.get(task_id)
            candidates = [] if named is None else [named]
        else:
            candidates = [self._to_do[key] for key in sorted(self._to_do)]
        found: list[H] = []
        for head in candidates:
            if len(found) == limit:
                break
            if head.node != node and self._leases.get(head.node, -1) < now_ms:
                found.append(head)
        return found

    def scopes(self) -> tuple[Scope, ...]:
        return tuple({scope: None for scope, _, _ in self._orders})

    def count_ended(self, agent: str, before_ms: int | None) -> int:
        ended = self._ended[agent]
        return len(ended) if before_ms is None else bisect_left(ended, (before_ms, -(1 << 63)))

    def ended(self, agent: str, *, before_ms: int | None, limit: int) -> list[H]:
        """The longest ended tasks of an agent."""
        end = min(limit, self.count_ended(agent, before_ms))
        return [self._by_key[key] for _, key in self._ended[agent][:end]]


def _take_out(order: _Order, spots: _Order) -> None:
    """Delete the spots, whole runs of neighbours at a time."""
    places = [bisect_left(order, spot) for spot in sorted(spots)]
    while places:
        end = places.pop() + 1
        start = end - 1
        while places and places[-1] == start - 1:
            start = places.pop()
        del order[start:end]


def key_taken(record: IdempotencyRecord) -> KeyTaken:
    return KeyTaken(f"The idempotency key {record.key!r} was used before")
