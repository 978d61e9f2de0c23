"""`OtherNodes`: where an agent is among the relay nodes of one store, and the way to it."""

from typing import Any, Final

from msgspec import Struct

from trunkline.model.errors import StoreError, Unavailable
from trunkline.relay.carrier import Carrier
from trunkline.relay.nodes.hops import Hops, RemoteAgent
from trunkline.relay.nodes.lease_records import Holder, SharedLease
from trunkline.relay.nodes.shared_leases import SharedLeases

_RETRY_AFTER_S: Final = 5


class Whereabouts(Struct, frozen=True, kw_only=True):
    # The agent can be reached through the session that this node has.
    is_here: bool = False
    # The way to it through another node.
    remote: RemoteAgent | None = None
    # Whether there may be a way soon, and the session that tells.
    is_expected: bool = False
    carrier: Carrier[Any] | None = None


class OtherNodes(Struct, frozen=True):
    leases: SharedLeases
    hops: Hops

    async def find(
        self, agent: str, *, epoch: int | None, is_connected: bool, refused: str = ""
    ) -> Whereabouts:
        """`epoch` is that of the lease that this node has, if any, and `is_connected` whether the
        host is. `refused` is the session of a host that takes no more requests. Raises
        Unavailable."""
        if epoch is not None and is_connected and self.leases.is_trusted:
            return Whereabouts(is_here=True)
        lease = await self._lease(agent, is_fresh=epoch is not None)
        if lease is None:
            return Whereabouts()
        if lease.holder.node == self.leases.node:
            is_here = is_connected and epoch == lease.epoch
            return Whereabouts(is_here=is_here, is_expected=True)
        if self.leases.is_of_earlier_process(lease.holder):
            return Whereabouts(is_expected=self.leases.is_new)
        if lease.holder.session != refused:
            remote = self.hops.reached(lease, agent)
            if remote is not None:
                return Whereabouts(remote=remote)
        hop = self.hops.to(lease.holder)
        return Whereabouts(is_expected=not hop.is_gone, carrier=hop.carrier)

    async def is_held(self, agent: str, epoch: int) -> bool:
        """Whether this node has the lease that it thinks it has. Raises Unavailable."""
        if self.leases.is_trusted:
            return True
        lease = await self._lease(agent, is_fresh=True)
        return lease is not None and lease.epoch == epoch

    async def has(self, agent: str) -> bool:
        """Whether a node has the agent. Raises Unavailable."""
        lease = await self._lease(agent, is_fresh=False)
        return lease is not None and not self._is_gone(lease.holder)

    async def all_in(self, tenant: str) -> set[str]:
        """The agents of a tenant that a node has. Raises Unavailable."""
        try:
            holders = await self.leases.in_tenant(tenant)
        except StoreError:
            raise _unavailable() from None
        return {agent for agent, holder in holders.items() if not self._is_gone(holder)}

    def _is_gone(self, holder: Holder) -> bool:
        return self.leases.is_of_earlier_process(holder) or self.hops.is_gone(holder.node)

    async def _lease(self, agent: str, *, is_fresh: bool) -> SharedLease | None:
        try:
            return await (self.leases.read(agent) if is_fresh else self.leases.find(agent))
        except StoreError:
            raise _unavailable() from None


def _unavailable() -> Unavailable:
    return Unavailable(
        "The relay cannot look up where the agent is now; try again later",
        retry_after_s=_RETRY_AFTER_S,
    )
