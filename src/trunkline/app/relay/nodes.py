"""`NodeParts`: the relay as one of several on the same store."""

from collections.abc import Iterator
from functools import partial

from trunkline.app.front import Front
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure
from trunkline.relay.hosts import dialing
from trunkline.relay.nodes.hop_sockets import HOP_PATH
from trunkline.relay.nodes.node import RelayNode
from trunkline.relay.nodes.shared_leases import TOPIC
from trunkline.relay.relay import Relay
from trunkline.relay.requests import RelayedRequests
from trunkline.runtime.runtime import Runtime
from trunkline.settings.cluster import ClusterSettings


class NodeParts:
    """Does nothing in a store of one process."""

    def __init__(
        self,
        relay: Relay,
        requests: RelayedRequests,
        *,
        cluster: ClusterSettings,
        local_url: str,
        clock: Clock,
    ) -> None:
        """`local_url` is where the gateway listens."""
        self._relay = relay
        self._requests = requests
        self._times = cluster.times
        # http to ws, and https to wss.
        base_url = (cluster.node_url or local_url).rstrip("/")
        self._url = f"ws{base_url.removeprefix('http')}{HOP_PATH}"
        self._clock = clock
        self._node: RelayNode | None = None

    async def open(self, main: Runtime, front: Front) -> None:
        """Raises StoreError."""
        if not main.is_shared:
            return
        self._node = RelayNode(
            self._relay,
            self._requests,
            store=await main.main.open(),
            url=self._url,
            times=self._times,
            clock=self._clock,
            tell=partial(main.tell, TOPIC),
            dial=dialing.dial_node,
        )
        main.hear(TOPIC, self._node.leases.hear)
        front.application.mount(HOP_PATH, self._node.mount)

    def start(self) -> None:
        if self._node is not None:
            self._node.start()

    async def drain(self, *, grace_s: float) -> None:
        if self._node is not None:
            await self._node.drain(grace_s=grace_s)

    async def close(self) -> None:
        if self._node is not None:
            await self._node.close()

    def figures(self) -> Iterator[Figure]:
        if self._node is not None:
            yield from self._node.figures()
