"""Who runs now and who waits: one lane per context, first in, first out.

A lane runs one ticket at a time. `max_running` bounds all lanes together; lanes that
are held up by it start in the order in which their turn came.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Lane = TypeVar("Lane", bound=Hashable)
Ticket = TypeVar("Ticket", bound=Hashable)


class Lanes(Generic[Lane, Ticket]):
    def __init__(self, *, max_waiting: int, max_running: int = 0) -> None:
        """`max_waiting` bounds one lane's queue; `max_running` 0 means no bound."""
        self._max_waiting = max_waiting
        self._max_running = max_running
        self._lanes: dict[Lane, deque[Ticket]] = {}
        # Lanes whose head could start but for `max_running`.
        self._held: deque[Lane] = deque()
        self._running: set[Lane] = set()

    def waiting(self, lane: Lane) -> int:
        """How many tickets of the lane have not started."""
        queue = self._lanes.get(lane)
        if queue is None:
            return 0
        return len(queue) - (lane in self._running)

    def is_full(self, lane: Lane) -> bool:
        return lane in self._lanes and self.waiting(lane) >= self._max_waiting

    def enter(self, lane: Lane, ticket: Ticket) -> bool:
        """Queue the ticket; True when it starts now."""
        queue = self._lanes.get(lane)
        if queue is not None:
            queue.append(ticket)
            return False
        self._lanes[lane] = deque((ticket,))
        return self._start(lane)

    def leave(self, lane: Lane, ticket: Ticket) -> tuple[Ticket, ...]:
        """Take the ticket out, whether it runs or waits; returns those that start now."""
        queue = self._lanes.get(lane)
        if queue is None:
            return ()
        if queue[0] != ticket:
            if ticket in queue:
                queue.remove(ticket)
            return ()
        queue.popleft()
        self._running.discard(lane)
        if not queue:
            del self._lanes[lane]
            if lane in self._held:
                self._held.remove(lane)
        elif lane not in self._held:
            self._held.append(lane)
        started: list[Ticket] = []
        while self._held and self._has_room():
            held = self._held.popleft()
            self._running.add(held)
            started.append(self._lanes[held][0])
        return tuple(started)

    def position(self, lane: Lane, ticket: Ticket) -> int | None:
        """0 for the one that runs or is next, 1 for the one behind it, and so on."""
        try:
            return self._lanes[lane].index(ticket)
        except (KeyError, ValueError):
            return None

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def total_waiting(self) -> int:
        return sum(map(len, self._lanes.values())) - len(self._running)

    def _has_room(self) -> bool:
        return not self._max_running or len(self._running) < self._max_running

    def _start(self, lane: Lane) -> bool:
        if self._has_room():
            self._running.add(lane)
            return True
        self._held.append(lane)
        return False
