"""Who runs now and who waits: one lane per context, first in, first out.

A lane runs one ticket at a time. `max_running` bounds all lanes together; lanes that
are held up by it start in the order in which their turn came.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Lane = TypeVar("Lane", bound=Hashable)
Ticket = TypeVar("Ticket", bound=Hashable)


class _Queue(Generic[Ticket]):
    """Tickets in the order in which they came. None of what it does takes longer when
    there are more of them, so that a long queue can be listed and canceled."""

    __slots__ = ("_gaps", "_numbers", "head")

    def __init__(self, head: Ticket) -> None:
        self.head = head
        # Numbers rise by one; those of tickets that left from between are in `_gaps`.
        self._numbers = OrderedDict(((head, 0),))
        self._gaps: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, ticket: Ticket) -> None:
        self._numbers[ticket] = self._numbers[next(reversed(self._numbers))] + 1

    def remove(self, ticket: Ticket) -> None:
        number = self._numbers.pop(ticket, None)
        if number is None or not self._numbers:
            return
        if ticket == self.head:
            self.head = next(iter(self._numbers))
            del self._gaps[: bisect_left(self._gaps, self._numbers[self.head])]
        elif number < (last := self._numbers[next(reversed(self._numbers))]):
            insort(self._gaps, number)
        else:
            # The next one gets a number that is free again.
            del self._gaps[bisect_left(self._gaps, last) :]

    def place(self, ticket: Ticket) -> int | None:
        """How many are before it."""
        number = self._numbers.get(ticket)
        if number is None:
            return None
        return number - self._numbers[self.head] - bisect_left(self._gaps, number)


class Lanes(Generic[Lane, Ticket]):
    def __init__(self, *, max_waiting: int, max_running: int = 0) -> None:
        """`max_waiting` bounds one lane's queue; `max_running` 0 means no bound."""
        self._max_waiting = max_waiting
        self._max_running = max_running
        self._lanes: dict[Lane, _Queue[Ticket]] = {}
        # Lanes whose head could start but for `max_running`, in order.
        self._held: dict[Lane, None] = {}
        self._running: set[Lane] = set()

    def waiting(self, lane: Lane) -> int:
        """How many tickets of the lane have not started."""
        queue = self._lanes.get(lane)
        if queue is None:
            return 0
        return len(queue) - (lane in self._running)

    def is_full(self, lane: Lane) -> bool:
        return lane in self._lanes and self.waiting(lane) >= self._max_waiting

    def is_taken(self, lane: Lane) -> bool:
        """Whether the lane has a ticket, so that another has to wait."""
        return lane in self._lanes

    @property
    def has_room(self) -> bool:
        """Whether one more lane may run."""
        return not self._max_running or len(self._running) < self._max_running

    def enter(self, lane: Lane, ticket: Ticket) -> bool:
        """Queue the ticket; True when it starts now."""
        queue = self._lanes.get(lane)
        if queue is not None:
            queue.append(ticket)
            return False
        self._lanes[lane] = _Queue(ticket)
        if self.has_room:
            self._running.add(lane)
            return True
        self._held[lane] = None
        return False

    def leave(self, lane: Lane, ticket: Ticket) -> tuple[Ticket, ...]:
        """Take the ticket out, whether it runs or waits; returns those that start now."""
        queue = self._lanes.get(lane)
        if queue is None:
            return ()
        was_head = queue.head == ticket
        queue.remove(ticket)
        if not was_head:
            return ()
        self._running.discard(lane)
        if not queue:
            del self._lanes[lane]
            self._held.pop(lane, None)
        else:
            self._held.setdefault(lane)
        started: list[Ticket] = []
        while self._held and self.has_room:
            held = next(iter(self._held))
            del self._held[held]
            self._running.add(held)
            started.append(self._lanes[held].head)
        return tuple(started)

    def position(self, lane: Lane, ticket: Ticket) -> int | None:
        """1 for the one that is next, 2 for the one behind it; None when it runs or is gone."""
        queue = self._lanes.get(lane)
        place = None if queue is None else queue.place(ticket)
        if place is None:
            return None
        return place or None if lane in self._running else place + 1

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def total_waiting(self) -> int:
        return sum(map(len, self._lanes.values())) - len(self._running)
