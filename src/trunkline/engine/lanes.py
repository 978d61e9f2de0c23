"""`Lanes`: which runs start and which wait. One lane per context, first in, first out.

A lane runs one ticket at a time. `max_running` and `slots` bound all lanes together; lanes that
are held up by them start in the order in which their turn came.

With `driver_of`, the lanes of one driver run at a time: the driver of those that run has the claim
on all. A lane of another driver is held up, and so is every lane behind it, so that each driver
gets its turn.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct, field

Lane = TypeVar("Lane", bound=Hashable)
Ticket = TypeVar("Ticket", bound=Hashable)


class _Queue(Struct, Generic[Ticket], eq=False):
    """Tickets in the order of their arrival. All operations stay fast in a long queue, so that its
    tasks can be listed and canceled."""

    # Each ticket gets the next number. `_gaps` has the numbers of tickets that left the middle of
    # the queue.
    _numbers: OrderedDict[Ticket, int] = field(default_factory=OrderedDict)
    _gaps: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._numbers)

    def append(self, ticket: Ticket) -> None:
        numbers = self._numbers
        self._numbers[ticket] = numbers[next(reversed(numbers))] + 1 if numbers else 0

    def pop(self) -> Ticket:
        """Take out the ticket that came first."""
        ticket = next(iter(self._numbers))
        self.remove(ticket)
        return ticket

    def remove(self, ticket: Ticket) -> None:
        number = self._numbers.pop(ticket, None)
        if number is None or not self._numbers:
            return
        first = self._numbers[next(iter(self._numbers))]
        last = self._numbers[next(reversed(self._numbers))]
        if number < first:
            del self._gaps[: bisect_left(self._gaps, first)]
        elif number < last:
            insort(self._gaps, number)
        else:
            # The next ticket gets this number again, so it is not a gap.
            del self._gaps[bisect_left(self._gaps, last) :]

    def place(self, ticket: Ticket) -> int | None:
        """The place of the ticket: 1 for the first in the queue, 2 for the next; None if it has
        left."""
        number = self._numbers.get(ticket)
        if number is None:
            return None
        first = self._numbers[next(iter(self._numbers))]
        return number - first - bisect_left(self._gaps, number) + 1


class Lanes(Struct, Generic[Lane, Ticket], kw_only=True, eq=False):
    # The maximum length of one lane's queue.
    max_waiting: int
    # The maximum number of lanes that run at the same time; 0 means no maximum.
    max_running: int = 0
    # The number of lanes that may run by a limit which several nodes share; None for no such limit.
    slots: int | None = None
    # The driver of a lane; None where the lanes of several drivers may run at the same time.
    driver_of: Callable[[Lane], Hashable] | None = None
    # For each lane, the ticket that runs or is the next to run, and the tickets behind it. Most
    # lanes have one ticket.
    _heads: dict[Lane, Ticket] = {}
    _behind: dict[Lane, _Queue[Ticket]] = {}
    # Lanes whose first ticket waits only because of the limits, in order.
    _held: dict[Lane, None] = {}
    _running: set[Lane] = set()
    # The number of tickets that left their lanes and still run.
    _lingering: int = 0
    # Whose lanes run, or ran last.
    _driver: Hashable = None

    def waiting(self, lane: Lane) -> int:
        """The number of tickets of the lane that have not started."""
        if lane not in self._heads:
            return 0
        return len(self._behind.get(lane, ())) + (lane not in self._running)

    def is_full(self, lane: Lane) -> bool:
        return lane in self._heads and self.waiting(lane) >= self.max_waiting

    def is_taken(self, lane: Lane) -> bool:
        """Whether the lane has a ticket, so that another has to wait."""
        return lane in self._heads

    @property
    def has_room(self) -> bool:
        """Whether one more lane may run."""
        running = len(self._running) + self._lingering
        if self.max_running and running >= self.max_running:
            return False
        return self.slots is None or running < self.slots

    def starts_at_once(self, lane: Lane) -> bool:
        """Whether the first ticket of this lane would start when it enters."""
        return self.has_room and (
            self.driver_of is None or (not self._held and self._is_driver(self.driver_of(lane)))
        )

    def _is_driver(self, driver: Hashable) -> bool:
        """Whether the lanes of this driver may run."""
        return (not self._running and not self._lingering) or driver == self._driver

    def enter(self, lane: Lane, ticket: Ticket) -> bool:
        """Queue the ticket; True when it starts now."""
        if lane in self._heads:
            behind = self._behind.get(lane)
            if behind is None:
                behind = self._behind[lane] = _Queue()
            behind.append(ticket)
            return False
        self._heads[lane] = ticket
        # For most agents the first tests decide, without a call.
        is_bounded = self.max_running or self.slots is not None or self.driver_of is not None
        if not is_bounded or self.starts_at_once(lane):
            self._running.add(lane)
            if self.driver_of is not None:
                self._driver = self.driver_of(lane)
            return True
        self._held[lane] = None
        return False

    def leave(self, lane: Lane, ticket: Ticket) -> tuple[Ticket, ...]:
        """Take the ticket out, whether it runs or waits; returns those that start now."""
        behind = self._behind.get(lane)
        if self._heads.get(lane) != ticket:
            if behind is not None:
                behind.remove(ticket)
                if not behind:
                    del self._behind[lane]
            return ()
        self._running.discard(lane)
        if behind is None:
            del self._heads[lane]
            self._held.pop(lane, None)
        else:
            self._heads[lane] = behind.pop()
            self._held.setdefault(lane)
            if not behind:
                del self._behind[lane]
        return self._start_held() if self._held else ()

    def resize(
        self,
        *,
        max_waiting: int,
        max_running: int,
        slots: int | None = None,
        driver_of: Callable[[Lane], Hashable] | None = None,
    ) -> tuple[Ticket, ...]:
        """Change the limits; returns the tickets that start now. Those that run or wait stay."""
        self.max_waiting, self.max_running, self.slots = max_waiting, max_running, slots
        if driver_of is not None and self.driver_of is None:
            drivers = {driver_of(lane) for lane in self._running}
            # Where several drivers run already, or one that has left, the claim is free after all
            # of them.
            is_known = len(drivers) == 1 and not self._lingering
            self._driver = drivers.pop() if is_known else object()
        self.driver_of = driver_of
        return self._start_held()

    def use_slots(self, slots: int) -> tuple[Ticket, ...]:
        """Change the number of slots; returns the tickets that start now."""
        self.slots = slots
        return self._start_held()

    def _start_held(self) -> tuple[Ticket, ...]:
        started: list[Ticket] = []
        while self._held and self.has_room:
            held = next(iter(self._held))
            if self.driver_of is not None and not self._is_driver(self.driver_of(held)):
                break
            del self._held[held]
            self._running.add(held)
            if self.driver_of is not None:
                self._driver = self.driver_of(held)
            started.append(self._heads[held])
        return tuple(started)

    def position(self, lane: Lane, ticket: Ticket) -> int | None:
        """The place of the ticket: 1 when it starts next, 2 behind that; None when it runs or has
        left."""
        is_held = lane not in self._running
        if self._heads.get(lane) == ticket:
            return 1 if is_held else None
        behind = self._behind.get(lane)
        place = None if behind is None else behind.place(ticket)
        return None if place is None else place + is_held

    def linger(self) -> None:
        """Let a ticket count as one that runs after it has left its lane."""
        self._lingering += 1

    def end_lingering(self) -> tuple[Ticket, ...]:
        """Count such a ticket no more; returns the tickets that start now."""
        self._lingering -= 1
        return self._start_held()

    @property
    def running(self) -> int:
        return len(self._running) + self._lingering

    @property
    def held_up(self) -> tuple[Lane, ...]:
        """The lanes that would run without the limits, in order."""
        return tuple(self._held)

    def tickets(self, lane: Lane) -> tuple[Ticket, ...]:
        """The tickets of the lane, in order."""
        head = self._heads.get(lane)
        return () if head is None else (head, *self._behind.get(lane, ()))

    @property
    def busy(self) -> int:
        """The number of tickets that run, or would run without the limits."""
        return len(self._heads) + self._lingering

    @property
    def total_waiting(self) -> int:
        behind = sum(map(len, self._behind.values()))
        return behind + len(self._heads) - len(self._running)
