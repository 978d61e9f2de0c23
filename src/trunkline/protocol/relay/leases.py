"""`LeaseTable`: which session an agent can be reached by.

The newest session that offers an agent has it. Each lease has an *epoch*, and a later lease a
higher one: so a session that gives up a lease, however late, cannot end that of its successor.

A host compares epochs within one session only. So a relay whose table is in memory may begin at 1
again after a restart: its sessions are new ones, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct


class Lease(Struct, frozen=True):
    session: str
    epoch: int


class LeaseTable:
    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}
        # How many agents of each tenant are leased.
        self._counts: Counter[str] = Counter()
        self._last_epoch = 0

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def epochs(self) -> Mapping[str, int]:
        """The epoch of each agent that is leased now."""
        return {agent: lease.epoch for agent, lease in self._leases.items()}

    def with_more(self, agents: Iterable[str]) -> int:
        """The most agents that a tenant would have with these."""
        more = Counter(_tenant_of(agent) for agent in {*agents}.difference(self._leases))
        return max((self._counts[tenant] + count for tenant, count in more.items()), default=0)

    def find(self, agent: str) -> Lease | None:
        return self._leases.get(agent)

    def take(self, session: str, agent: str) -> Lease:
        """Give a session the agent; whoever had it has it no more."""
        lease = self._leases.get(agent)
        if lease is None or lease.session != session:
            self._last_epoch += 1
            lease = Lease(session, self._last_epoch)
            self._enter(agent, lease)
        return lease

    def put(self, agent: str, lease: Lease) -> bool:
        """Enter a lease that was taken elsewhere. False if a later one is here already."""
        known = self._leases.get(agent)
        if known is not None and known.epoch > lease.epoch:
            return False
        self._enter(agent, lease)
        return True

    def release(self, agent: str, epoch: int) -> bool:
        """Whether the agent was still leased with this epoch; it is not any more."""
        lease = self._leases.get(agent)
        if lease is None or lease.epoch != epoch:
            return False
        del self._leases[agent]
        tenant = _tenant_of(agent)
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant]
        return True

    def _enter(self, agent: str, lease: Lease) -> None:
        if agent not in self._leases:
            self._counts[_tenant_of(agent)] += 1
        self._leases[agent] = lease


def _tenant_of(agent: str) -> str:
    return agent.partition("/")[0]
