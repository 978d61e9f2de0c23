"""`LeaseTable`: which session an agent can be reached by.

The newest session that offers an agent has it. Each lease has an *epoch*, and a later lease a
higher one: so a session that gives up a lease, however late, cannot end that of its successor.
"""

from typing import TypeAlias

from msgspec import Struct

# Tenant and id of an agent.
Place: TypeAlias = tuple[str, str]


class Lease(Struct, frozen=True):
    session: str
    epoch: int


class LeaseTable:
    def __init__(self) -> None:
        self._leases: dict[Place, Lease] = {}
        self._last_epoch = 0

    def __len__(self) -> int:
        return len(self._leases)

    def find(self, place: Place) -> Lease | None:
        return self._leases.get(place)

    def take(self, session: str, place: Place) -> Lease:
        """Give a session the agent; whoever had it has it no more."""
        lease = self._leases.get(place)
        if lease is None or lease.session != session:
            self._last_epoch += 1
            lease = self._leases[place] = Lease(session, self._last_epoch)
        return lease

    def release(self, place: Place, epoch: int) -> bool:
        """Whether the agent was still leased with this epoch; it is not any more."""
        lease = self._leases.get(place)
        if lease is None or lease.epoch != epoch:
            return False
        del self._leases[place]
        return True
