"""`TaskIndex`: the tasks of a store in memory, by id and in the orders of lists."""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Generic, Self, TypeVar

from msgspec import Struct

from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports import store as port
from trunkline.stores.commits import RUNNABLE

_Place = tuple[port.Scope, str, TaskState | None]
# Tasks in the order of a list, oldest first: (status_ms, key). Nearly every change is
# at the end, so a plain sorted list is as good as a tree.
_Order = list[tuple[int, int]]


class HeadFields(Struct, eq=False, kw_only=True, rename="camel"):
    """A task without its contents. `key` rises with every task that is created.

    A record of the json-file store has these fields as well.
    """

    key: int
    scope: port.Scope
    context_id: str
    created_ms: int
    state: TaskState
    status_ms: int
    last_seq: int


class Head(HeadFields, eq=False, kw_only=True):
    """A task in an index, without its contents."""

    id: str

    @classmethod
    def of(cls, key: int, append: port.Append) -> Self:
        """The head of the task that `append` creates."""
        creation = append.creation
        assert creation is not None, "why_refused() lets no creation pass without one"
        return cls(
            key=key,
            id=append.task_id,
            scope=creation.scope,
            context_id=creation.context_id,
            created_ms=creation.created_ms,
            state=append.state,
            status_ms=append.status_ms,
            last_seq=append.expected_seq,
        )

    def stored(
        self,
        snapshot: port.Snapshot | None,
        journal: Sequence[Entry],
        *,
        with_artifacts: bool = True,
        with_tail: bool = True,
    ) -> port.StoredTask:
        """`journal` may go back further than the snapshot."""
        tail: Sequence[Entry] = ()
        if with_tail:
            tail = entries_after(journal, 0 if snapshot is None else snapshot.seq)
        if snapshot is not None and not with_artifacts:
            snapshot = port.Snapshot(snapshot.seq, snapshot.task)
        return port.StoredTask(
            task_id=self.id,
            scope=self.scope,
            context_id=self.context_id,
            state=self.state,
            status_ms=self.status_ms,
            created_ms=self.created_ms,
            last_seq=self.last_seq,
            snapshot=snapshot,
            tail=tuple(tail),
        )


def entries_after(journal: Sequence[Entry], seq: int) -> Sequence[Entry]:
    """The entries above `seq`; a journal has no holes, but its beginning may be pruned."""
    return journal[max(0, seq - journal[0].seq + 1) :] if journal else ()


H = TypeVar("H", bound=Head)


class TaskIndex(Generic[H]):
    def __init__(self) -> None:
        self._heads: dict[str, H] = {}
        self._by_key: dict[int, H] = {}
        self._orders: dict[_Place, _Order] = {}
        self._runnable: dict[int, H] = {}
        # The keys in order, if a copy asked for them.
        self._sorted_keys: list[int] | None = None
        # By agent.
        self._ended: defaultdict[str, _Order] = defaultdict(list)

    def __iter__(self) -> Iterator[H]:
        return iter(self._heads.values())

    def get(self, task_id: str) -> H | None:
        return self._heads.get(task_id)

    def of_scope(self, scope: port.Scope, task_id: str) -> H | None:
        head = self._heads.get(task_id)
        return head if head is not None and head.scope == scope else None

    def add(self, head: H) -> None:
        self._heads[head.id] = self._by_key[head.key] = head
        self._enlist(head)

    def move(self, head: H, state: TaskState, status_ms: int) -> None:
        if (head.state, head.status_ms) == (state, status_ms):
            return
        self._unlist(head)
        head.state, head.status_ms = state, status_ms
        self._enlist(head)

    def remove(self, *heads: H) -> None:
        """Many together cost little more than one: each order closes its gaps once."""
        ended: defaultdict[str, _Order] = defaultdict(list)
        orders: defaultdict[_Place, _Order] = defaultdict(list)
        for head in heads:
            spot = (head.status_ms, head.key)
            if head.state in TERMINAL:
                ended[head.scope.agent].append(spot)
            for place in self._places(head):
                orders[place].append(spot)
            self._runnable.pop(head.key, None)
            del self._heads[head.id], self._by_key[head.key]
        for agent, spots in ended.items():
            _remove_spots(self._ended[agent], spots)
        for place, spots in orders.items():
            _remove_spots(self._orders[place], spots)
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
            self._runnable[head.key] = head
        elif head.state in TERMINAL:
            insort(self._ended[head.scope.agent], (head.status_ms, head.key))

    def _unlist(self, head: H) -> None:
        self._runnable.pop(head.key, None)
        spot = (head.status_ms, head.key)
        if head.state in TERMINAL:
            ended = self._ended[head.scope.agent]
            del ended[bisect_left(ended, spot)]
        for place in self._places(head):
            order = self._orders[place]
            del order[bisect_left(order, spot)]
            if not order:
                del self._orders[place]

    def page(self, query: port.TaskQuery) -> tuple[list[H], int, tuple[int, int] | None]:
        """The tasks of a page, how many match, and where the next page starts."""
        order = self._orders.get((query.scope, query.context_id, query.state), [])
        first = bisect_left(order, _first(query.status_from_ms))
        end = len(order) if query.after is None else bisect_left(order, query.after)
        start = max(first, end - query.limit)
        page = order[start:end][::-1]
        position = page[-1] if page and start > first else None
        return [self._by_key[key] for _, key in page], len(order) - first, position

    def page_of_all(self, query: port.OperatorQuery) -> tuple[list[H], int, tuple[int, int] | None]:
        """The same for the tasks of all callers."""
        states: tuple[TaskState | None, ...] = query.states or (None,)
        orders = [
            order
            for (scope, context_id, state), order in self._orders.items()
            if context_id == query.context_id and state in states and query.covers(scope)
        ]
        first, after = _first(query.status_from_ms), query.after or _LAST
        total = sum(len(order) - bisect_left(order, first) for order in orders)
        matching = [
            reversed(order[max(bisect_left(order, first), end - query.limit - 1) : end])
            for order in orders
            if (end := bisect_left(order, after))
        ]
        page = list(islice(merge(*matching, reverse=True), query.limit + 1))
        position = page[-2] if len(page) > query.limit else None
        return [self._by_key[key] for _, key in page[: query.limit]], total, position

    def after(self, key: int | None, limit: int) -> list[tuple[int, port.Scope, str]]:
        """Key, scope and id of the tasks behind this key, oldest first. For a copy of all tasks,
        which nothing else goes on beside."""
        if self._sorted_keys is None or len(self._sorted_keys) != len(self._by_key):
            self._sorted_keys = sorted(self._by_key)
        keys = self._sorted_keys
        start = 0 if key is None else bisect_right(keys, key)
        heads = [self._by_key[each] for each in keys[start : start + limit]]
        return [(head.key, head.scope, head.id) for head in heads]

    def unfinished(self) -> list[H]:
        """The tasks that have work to do, oldest first."""
        return [self._runnable[key] for key in sorted(self._runnable)]

    def scopes(self) -> Iterable[port.Scope]:
        return [scope for scope, _, _ in self._orders]

    def count_ended(self, agent: str, before_ms: int | None) -> int:
        ended = self._ended[agent]
        return len(ended) if before_ms is None else bisect_left(ended, (before_ms, -(1 << 63)))

    def ended(self, agent: str, *, before_ms: int | None, limit: int) -> list[H]:
        """The longest ended tasks of an agent."""
        end = min(limit, self.count_ended(agent, before_ms))
        return [self._by_key[key] for _, key in self._ended[agent][:end]]


# Before and behind every task.
_FIRST, _LAST = (-(1 << 63), 0), (1 << 63, 0)


def _first(status_from_ms: int | None) -> tuple[int, int]:
    """Where the tasks whose status is recent enough begin. Keys may be negative, but none reaches
    this far."""
    return _FIRST if status_from_ms is None else (status_from_ms, -(1 << 63))


def _remove_spots(order: _Order, spots: _Order) -> None:
    """Delete the spots, whole runs of neighbours at a time."""
    places = [bisect_left(order, spot) for spot in sorted(spots)]
    while places:
        end = places.pop() + 1
        start = end - 1
        while places and places[-1] == start - 1:
            start = places.pop()
        del order[start:end]


class IndexedStore(ABC, Generic[H]):
    """The calls of the port that a store answers from its index of tasks alone."""

    @abstractmethod
    def _tasks(self) -> TaskIndex[H]:
        """Raises StoreUnusable when the store is not open."""

    async def owner(self, task_id: str) -> port.Scope | None:
        head = self._tasks().get(task_id)
        return None if head is None else head.scope

    async def unfinished(self) -> tuple[tuple[port.Scope, str], ...]:
        return tuple([(head.scope, head.id) for head in self._tasks().unfinished()])

    async def scopes(self) -> tuple[port.Scope, ...]:
        return tuple(dict.fromkeys(self._tasks().scopes()))

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        return self._tasks().count_ended(agent, before_ms)
