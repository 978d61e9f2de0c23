"""Exchanges in memory: which there are, the latest of a conversation, the oldest of an agent."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from trunkline.ports.store import Scope


class Located(Protocol):
    """An exchange, or whatever else says which conversation it is of."""

    @property
    def scope(self) -> Scope: ...

    @property
    def context_id(self) -> str: ...


T = TypeVar("T", bound=Located)


class Spot(NamedTuple, Generic[T]):
    at_ms: int
    # Rises with every exchange, so that those of one moment keep their order.
    n: int
    item: T


class ExchangeIndex(Generic[T]):
    def __init__(self) -> None:
        # The oldest first. Nearly all are added at the end, so that a plain sorted list is
        # as good as a tree. None is for all contexts of a scope.
        self._orders: dict[tuple[Scope, str | None], list[Spot[T]]] = {}
        self._by_agent: dict[str, list[Spot[T]]] = {}

    def has(self, spot: Spot[T]) -> bool:
        order = self.of(spot.item)
        place = bisect_left(order, spot[:2])
        return place < len(order) and order[place].n == spot.n

    def add(self, spot: Spot[T]) -> None:
        scope = spot.item.scope
        for context_id in (None, spot.item.context_id):
            insort(self._orders.setdefault((scope, context_id), []), spot)
        insort(self._by_agent.setdefault(scope.agent, []), spot)

    def remove(self, spots: Iterable[Spot[T]]) -> None:
        for spot in spots:
            scope = spot.item.scope
            for context_id in (None, spot.item.context_id):
                _take_out(self._orders, (scope, context_id), spot)
            _take_out(self._by_agent, scope.agent, spot)

    def of(self, place: Located) -> list[Spot[T]]:
        """Those of a conversation, the oldest first."""
        return self._orders.get((place.scope, place.context_id), [])

    def latest(self, scope: Scope, context_id: str, limit: int) -> list[Spot[T]]:
        order = self._orders.get((scope, context_id or None), [])
        return list(islice(reversed(order), limit))

    def oldest(self, agent: str, *, before_ms: int, limit: int) -> list[Spot[T]]:
        return self._by_agent.get(agent, [])[: min(limit, self.count(agent, before_ms=before_ms))]

    def count(self, agent: str, *, before_ms: int) -> int:
        """How many of an agent are older."""
        return bisect_left(self._by_agent.get(agent, []), (before_ms,))

    def scopes(self) -> Iterable[Scope]:
        return [scope for scope, context_id in self._orders if context_id is None]


K = TypeVar("K")


def _take_out(orders: dict[K, list[Spot[T]]], key: K, spot: Spot[T]) -> None:
    order = orders[key]
    del order[bisect_left(order, spot[:2])]
    if not order:
        del orders[key]
