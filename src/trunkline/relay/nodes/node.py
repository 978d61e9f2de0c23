"""`RelayNode`: what a relay has beside its own hosts when other relays have the same store."""

import secrets
from collections.abc import Callable, Iterator

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Times
from trunkline.ports.figures import Figure
from trunkline.ports.store import Store
from trunkline.ports.websocket import WebSocketMount
from trunkline.relay.nodes.hop_requests import HopRequests
from trunkline.relay.nodes.hop_secret import HopSecret
from trunkline.relay.nodes.hop_sockets import HopSockets
from trunkline.relay.nodes.hops import DialNode, Hops
from trunkline.relay.nodes.lease_records import LeaseRecords
from trunkline.relay.nodes.other_nodes import OtherNodes
from trunkline.relay.nodes.shared_leases import SharedLeases
from trunkline.relay.relay import Relay
from trunkline.relay.requests import RelayedRequests

_TICK_S = 0.1


class RelayNode:
    def __init__(
        self,
        relay: Relay,
        requests: RelayedRequests,
        *,
        store: Store,
        url: str,
        times: Times,
        clock: Clock,
        tell: Callable[[str], None],
        dial: DialNode,
    ) -> None:
        """`url` is where other nodes reach this one, `tell` tells them something, and `dial` dials
        one."""
        # Of the running process: one that has been started again is another node.
        name = secrets.token_hex(8)
        self._clock = clock
        self._tasks = BackgroundTasks("requests of relay nodes")
        secret = HopSecret(store, clock=clock)
        self.leases = SharedLeases(
            LeaseRecords(store), node=name, url=url, times=times, clock=clock, tell=tell
        )
        self.hops = Hops(name, secret=secret, dial=dial, clock=clock, on_refused=self.leases.forget)
        served = HopRequests(relay, requests, tasks=self._tasks)
        self._sockets = HopSockets(name, secret=secret, serve=served.serve, clock=clock)
        relay.share(OtherNodes(self.leases, self.hops), on_leaving=self._sockets.leave)

    @property
    def mount(self) -> WebSocketMount:
        """Where other nodes connect."""
        return self._sockets.mount

    def start(self) -> None:
        self.leases.start()
        self.hops.start()
        self._sockets.start()

    async def drain(self, *, grace_s: float) -> None:
        """Let the requests of other nodes end."""
        until = self._clock.monotonic() + grace_s
        while self._sockets.streams and self._clock.monotonic() < until:
            await self._clock.sleep(_TICK_S)
        # The last frames go out.
        await self._clock.sleep(_TICK_S)

    async def close(self) -> None:
        await self._tasks.close()
        await self.hops.close()
        await self._sockets.close()
        await self.leases.close()

    def figures(self) -> Iterator[Figure]:
        requests = self.hops.requests
        yield (
            "trunkline_relay_hops",
            "Relay nodes that this one is connected to.",
            self.hops.open_hops,
        )
        yield "trunkline_relay_hop_requests_total", "Requests sent to other relay nodes.", requests
        yield (
            "trunkline_relay_hop_streams",
            "Requests of other relay nodes under way.",
            self._sockets.streams,
        )
