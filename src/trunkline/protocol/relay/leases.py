"""`LeaseTable`: which session an agent can be reached by.

The newest session that offers an agent has it. Each lease has an *epoch*, and a later lease a
higher one: so a session that gives up a lease, however late, cannot end that of its successor.
"""

from msgspec import Struct


class Lease(Struct, frozen=True):
    session: str
    epoch: int


class LeaseTable:
    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}
        self._last_epoch = 0

    def __len__(self) -> int:
        return len(self._leases)

    def find(self, agent: str) -> Lease | None:
        return self._leases.get(agent)

    def take(self, session: str, agent: str) -> Lease:
        """Give a session the agent; whoever had it has it no more."""
        lease = self._leases.get(agent)
        if lease is None or lease.session != session:
            self._last_epoch += 1
            lease = self._leases[agent] = Lease(session, self._last_epoch)
        return lease

    def release(self, agent: str, epoch: int) -> bool:
        """Whether the agent was still leased with this epoch; it is not any more."""
        lease = self._leases.get(agent)
        if lease is None or lease.epoch != epoch:
            return False
        del self._leases[agent]
        return True
